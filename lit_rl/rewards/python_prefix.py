"""The first lexical token of a Python source that the grammar rejects.

The parser of the running interpreter decides, the same that runs the programs, so soft keywords and new statements
are known. The parser is asked about prefixes: a prefix that ends after a token is viable if the parser reaches its end
without an error (``codeop`` asks the same to see whether a line is complete). Viability, once lost, stays lost, so the
first token that is not viable is found by bisection: about ten parses for a wrong program and one for a right one. A
second grammar (parso's has no ``match`` statement) would reject programs that run.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_left
from codeop import PyCF_ALLOW_INCOMPLETE_INPUT, PyCF_DONT_IMPLY_DEDENT  # type: ignore[attr-defined]
from dataclasses import dataclass
from functools import lru_cache

_PREFIX_FLAGS = ast.PyCF_ONLY_AST | PyCF_ALLOW_INCOMPLETE_INPUT | PyCF_DONT_IMPLY_DEDENT
# An escaped line end keeps the parser from taking the end of a prefix for the end of a line.
_GOES_ON = " \\\n"

_LEXEME = re.compile(
    r"""
      (?P<string>(?i:[rbuf]|[bf]r|r[bf])?
        (?: \"\"\" (?:[^\\]|\\.)*? (?:\"\"\"|\Z) | ''' (?:[^\\]|\\.)*? (?:'''|\Z)
          | " (?:[^"\\\r\n]|\\(?:\r\n|.))* (?:"|(?=[\r\n])|\\?\Z)
          | ' (?:[^'\\\r\n]|\\(?:\r\n|.))* (?:'|(?=[\r\n])|\\?\Z) ))
    | (?P<comment>\#[^\r\n]*)
    | (?P<newline>\r\n|\r|\n)
    | (?P<space>[ \t\f]+|\\(?:\r\n|\r|\n))
    | (?P<number>0[xob][\da-f_]* | (?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[+-]?\d[\d_]*)?j?)
    | (?P<word>\w+)
    | (?P<operator>\*\*=? | //=? | >>=? | <<=? | \.\.\. | -> | [-+*/%@&|^=<>!:]= | .)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_SOMETHING = re.compile(r"^[ \t\f]*[^\s#]", re.MULTILINE)
_CLOSED = frozenset("()[]{},;~\r\n")  # nothing that follows can make another token of these


@dataclass(frozen=True)
class Lexeme:
    """One lexical token: its kind (a group of the pattern above) and its offsets in characters."""

    kind: str
    start: int
    end: int


def has_no_code(source: str) -> bool:
    """Return whether a source has no lexical token besides comments and line ends."""
    return _SOMETHING.search(source.replace("\r", "\n")) is None


def split_lexemes(source: str) -> list[Lexeme]:
    """Split a source, right or wrong, into lexical tokens: no comments; line ends only where they end a statement."""
    found: list[Lexeme] = []
    depth = 0
    for match in _LEXEME.finditer(source):
        kind, text = match.lastgroup or "", match[0]
        depth = max(0, depth + (text in "([{") - (text in ")]}")) if kind == "operator" else depth
        ends_statement = kind == "newline" and not depth and found and found[-1].kind != "newline"
        if ends_statement or kind in ("string", "number", "word", "operator"):
            found.append(Lexeme(kind, *match.span()))
    return found


@lru_cache(maxsize=2048)  # syntax and lint ask about the same programs
def find_rejected_token(source: str, *, prefix: bool = False) -> tuple[int, int] | None:
    """Return the offsets (in characters) of the first token that the grammar rejects; ``None`` if there is none.

    * An indentation that fits nowhere counts as the token in front of its line.
    * A string that is invalid by itself (``b'é'``, ``f'{'``) is rejected itself, not the token after it.
    * If every token is viable but the source ends too early, its last token is returned.

    Args:
        source: the program.
        prefix: whether the source may continue. Then its end is not an error, and a last token that could still
            become another one (``i`` of ``if``, an open string) is viable.
    """
    if not prefix and _parses(source):
        return None
    found = split_lexemes(source)
    tested = found[:-1] if prefix and found and _is_token_extendable(source, found[-1]) else found
    viable = not tested or _is_viable_prefix(source, tested[-1])  # then all tokens before it are
    index = (
        len(tested) if viable else bisect_left(tested, True, key=lambda lexeme: not _is_viable_prefix(source, lexeme))
    )
    before = index - 1
    while before >= 0 and tested[before].kind == "string":
        before -= 1
    for lexeme in tested[before + 1 : index]:
        if not _parses(f"({source[lexeme.start : lexeme.end]})"):
            return lexeme.start, lexeme.end
    if index < len(tested):
        if prefix and source[tested[index].start :] == ".." and find_rejected_token(source + ".", prefix=True) is None:
            return None  # two dots of an ellipsis
        return _rejected_span(source, tested[index])
    if prefix:
        return None
    return (found[-1].start, found[-1].end) if found else (0, 0)


def _parses(source: str) -> bool:
    return _parser_error(source, ast.PyCF_ONLY_AST) is None


def _is_viable_prefix(source: str, lexeme: Lexeme) -> bool:
    ending = "" if lexeme.kind == "newline" else _GOES_ON
    error = _parser_error(source[: lexeme.end] + ending, _PREFIX_FLAGS)
    return error is None or (isinstance(error, SyntaxError) and error.msg == "incomplete input")


def _parser_error(source: str, flags: int) -> Exception | None:
    """Return the parser's error; nesting beyond its limits (memory, recursion) is an error of the source too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the policy's text: they would fill a log
            compile(source, "<program>", "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError) as error:
        return error
    return None


def _is_token_extendable(source: str, last: Lexeme) -> bool:
    """Return whether more text could turn the last token into another one."""
    text = source[last.start : last.end]
    if last.end < len(source) or text in _CLOSED:
        return False
    if last.kind != "string":
        return True
    empty = text.lstrip("rRbBuUfF") in ("''", '""')  # may open a triple-quoted string
    return empty or not _parses(f"({text})")


def _rejected_span(source: str, lexeme: Lexeme) -> tuple[int, int]:
    """Return the token, or the white space before it if the parser rejects that."""
    line = max(source.rfind("\n", 0, lexeme.start), source.rfind("\r", 0, lexeme.start)) + 1
    error = _parser_error(source[: lexeme.end] + _GOES_ON, _PREFIX_FLAGS)
    unfit = isinstance(error, IndentationError) and not error.msg.startswith("expected an indented block")
    if unfit and line < lexeme.start and not source[line : lexeme.start].strip():
        return line, lexeme.start
    return lexeme.start, lexeme.end
