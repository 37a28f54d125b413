"""Extraction of the program in a completion, and of the program's place there."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Literal

from lit_rl.execution.fences import (
    CONTAINER_TAGS,
    KNOWN_TAGS,
    PROSE_TAGS,
    TAGS_OF,
    Fence,
    end_of_thoughts,
    find_fences,
)
from lit_rl.execution.languages import LANGUAGES

Extraction = Literal["answer", "last_block", "definitions"]
_MAX_ENDS = 8  # fences that are tried as the end of one block
_MAX_AHEAD = 256  # fences that are searched for the end of one block
_SOMETHING = re.compile(r"[^\s\ufeff]")
_FIRST_LINE = re.compile(r"\s*+(\S+)[ \t]*\r?\n")
_LINE_END = re.compile(rb"\r\n|\r|\n")
MAX_CHARACTERS = 1 << 20  # most that is parsed of one completion; blocks beyond that count as unparsed
_LOOKS = {name: re.compile(spec.looks, re.MULTILINE) for name, spec in LANGUAGES.items()}
_VALUES = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.JoinedStr, ast.Starred),
    *(ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare),
)


@dataclass(frozen=True)
class WantedProgram:
    """Description of the program that a problem asks for.

    Args:
        language: what the program is written in. If the language is not in ``LANGUAGES``, a block counts unless its
            tag says that the block is output, data or a command.
        entry_point: the function or class under test, ``Class.method``, or ``main``; ``None`` if there is none.
        prefix: in completion form, the source that the completion continues.
        in_thought: whether the prompt opened a thought that the completion has to end before it answers.
    """

    language: str = "python"
    entry_point: str | None = None
    prefix: str = ""
    in_thought: bool = False


@dataclass(frozen=True)
class ExtractedProgram:
    """A program's text and its place in the completion.

    Args:
        source: the text of the block without the indentation of its list; the whole answer if there is no fence.
        start: first byte of the block in the UTF-8 of the completion.
        end: the byte after the last byte of the block.
        fenced: whether the program stood in a fenced block.
        removed: number of bytes of indentation removed from each line; empty if none were removed.
    """

    source: str
    start: int
    end: int
    fenced: bool
    removed: tuple[int, ...] = ()


def extract_program(
    text: str, wanted: WantedProgram | None = None, extraction: Extraction = "answer"
) -> ExtractedProgram | None:
    r"""Find the program in a completion, or return ``None`` if the completion is blank.

    The program is the last non-blank block in the wanted language that parses and defines the entry point. If there is
    none, it is the last block that seems to define the entry point, or failing that, the last block. A block is in the
    language if its tag says so or, without a tag, if it parses. If no block is in the language, all blocks compete in
    this order. If there is no fence, the whole answer is the program. Thoughts (``<think>``) are no part of the answer.

    A block that no fence closes runs to the end, so a truncated completion keeps its program. Indentation that all
    lines of a block share, as in a list item, is removed.

    Args:
        text: the completion.
        wanted: what the problem asks for; a Python program without entry point by default.
        extraction: ``last_block`` takes the last block whatever is in it, even if it is blank. ``definitions`` removes
            from a Python answer what its entry point does not need, such as tests that the policy added.

    >>> extract_program("Here:\n```python\nx = 1\n```\nDone.")
    ExtractedProgram(source='x = 1\n', start=16, end=22, fenced=True, removed=())
    >>> extract_program("x = 1").fenced
    False
    """
    wanted, reader = wanted or WantedProgram(), BoundedParser()
    start = end_of_thoughts(text, wanted.in_thought, partial(_is_in_python_string, text, wanted, reader))
    # The prompt may have opened the block with a bare fence, which leaves its tag to the answer.
    first = _FIRST_LINE.match(text, start)
    if first and wanted.language in TAGS_OF and first[1].lower() in TAGS_OF[wanted.language]:
        start = first.end()
    fences = find_fences(text, start)
    if extraction == "last_block":
        blocks = _all_blocks(text, fences)
        return (
            _program_in_block(text, blocks[-1], wanted, reader) if blocks else program_in_span(text, start, len(text))
        )
    found = None
    if not fences:
        found = program_in_span(text, start, len(text))
    else:
        blocks = [block for block in _blocks_in_language(text, fences, start, wanted, reader) if not block.is_blank]
        blocks = blocks or [block for block in _all_blocks(text, fences) if not block.is_blank]
        if blocks:
            found = _program_in_block(text, _choose_block(blocks, wanted, reader), wanted, reader)
    return _blank_unneeded_lines(found, wanted, reader) if found and extraction == "definitions" else found


def move_future_imports_first(prefix: str, source: str) -> tuple[str, str]:
    """Return prefix and source of a Python program, with the source's future imports moved to the start of the prefix.

    The imports must come first, on a line of their own. Blanks replace them, so later code keeps its line and column.
    """
    if not prefix or "__future__" not in source:
        return prefix, source
    imports, rest = split_future_imports(source)
    own, begin = split_future_imports(prefix) if imports else ("", prefix)
    return own + imports + begin, rest


def split_future_imports(source: str) -> tuple[str, str]:
    r"""Return the future imports of a Python source as one line, and the source with blanks in place of the imports.

    >>> split_future_imports("from __future__ import annotations\nx: int")[0]
    'from __future__ import annotations\n'
    """
    tree = parse_python(source) if "__future__" in source else None
    body = tree.body if tree else []
    documented = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    statements = body[1:] if documented else body
    futures = [*takewhile(lambda one: isinstance(one, ast.ImportFrom) and one.module == "__future__", statements)]
    content = bytearray(source.encode("utf-8", "surrogatepass"))
    starts = [0, *(found.end() for found in _LINE_END.finditer(content))]
    for node in futures:
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        content[begin:end] = b"pass" + re.sub(rb"[^\r\n]", b" ", content[begin + 4 : end])
    line = "; ".join(map(ast.unparse, futures))
    return (f"{line}\n", content.decode()) if line else ("", source)


def program_in_span(text: str, start: int, end: int, *, fenced: bool = False) -> ExtractedProgram | None:
    """Return the program between two characters of a text, or ``None`` if there is only white space."""
    source = text[start:end]
    if not source.strip():
        return None
    # A lone surrogate counts as the three bytes it would take.
    first_byte = len(text[:start].encode("utf-8", "surrogatepass"))
    return ExtractedProgram(source, first_byte, first_byte + len(source.encode("utf-8", "surrogatepass")), fenced)


@dataclass(frozen=True)
class _CodeBlock:
    """A block of a text: its characters, and the indentation of its opening fence."""

    text: str
    start: int
    end: int
    indent: int = 0
    fenced: bool = True

    @property
    def source(self) -> str:
        return self.text[self.start : self.end]

    @property
    def is_blank(self) -> bool:
        return _SOMETHING.search(self.text, self.start, self.end) is None


def _blocks_in_language(
    text: str, fences: Sequence[Fence], start: int, wanted: WantedProgram, reader: BoundedParser
) -> list[_CodeBlock]:
    """Return the blocks in the wanted language.

    A fence without a tag may open a block or be left over from another, and output looks like prose. So the text after
    such a fence is a block only if it is a program; otherwise the next fence may be the one that opens a block.
    """
    found: list[_CodeBlock] = []
    index = 0
    if fences and fences[0].closes:
        # The prompt may have opened the block already.
        head = _CodeBlock(text, start, fences[0].start, fenced=False)
        if not head.is_blank and _is_in_wanted_language(head, wanted, reader):
            found.append(head)
            index = 1
    while index < len(fences):
        fence = fences[index]
        index += 1
        if not fence.opens or fence.tag in CONTAINER_TAGS:
            continue
        block, after = _block_opened_by(text, fences, index - 1, wanted, reader)
        known = _is_tag_of_language(fence.tag, wanted.language)
        if known is None and not block.is_blank and _is_in_wanted_language(block, wanted, reader):
            known = True
        if known:
            found.append(block)
        if known or fence.tag or wanted.language not in TAGS_OF:
            index = after
    return found


def _block_opened_by(
    text: str, fences: Sequence[Fence], opening: int, wanted: WantedProgram, reader: BoundedParser
) -> tuple[_CodeBlock, int]:
    """Return the block that a fence opens, and the index of the first fence that can open the next one."""
    fence = fences[opening]
    last = _closing_fence_index(text, fences, opening, wanted, reader)
    if last == len(fences):
        return _CodeBlock(text, fence.end, len(text), fence.indent), last
    block = _CodeBlock(text, fence.end, max(fences[last].start, fence.end), fence.indent)
    return block, last + fences[last].closes


def _closing_fence_index(
    text: str, fences: Sequence[Fence], opening: int, wanted: WantedProgram, reader: BoundedParser
) -> int:
    """Return the index of the fence that ends a block; a fence inside one of the block's docstrings does not end it."""
    fence = fences[opening]
    ahead = range(opening + 1, min(opening + 1 + _MAX_AHEAD, len(fences)))
    ends = [index for index in ahead if fence.can_be_ended_by(fences[index])][:_MAX_ENDS] or [len(fences)]
    stops = [len(text) if index == len(fences) else fences[index].start for index in ends]
    quoted = any(text.find(mark, fence.end, stops[0]) >= 0 for mark in ('"""', "'''"))
    if quoted and wanted.language == "python" and _is_tag_of_language(fence.tag, "python") is not False:
        for index, stop in zip([*ends, len(fences)], [*stops, len(text)], strict=True):
            block = _CodeBlock(text, fence.end, stop, fence.indent)
            if (
                reader.spend_characters(stop - fence.end)
                and reader.parse_or_none(_dedent_with_counts(block)[0]) is not None
            ):
                return index
    return ends[0]


def _is_in_python_string(text: str, wanted: WantedProgram, reader: BoundedParser, place: int) -> bool:
    """Return whether the character at ``place`` lies in a string literal of a Python program."""
    if wanted.language != "python":
        return False
    fences = find_fences(text, 0)
    block, index = _CodeBlock(text, 0, fences[0].start if fences else len(text), fenced=False), 0
    while block.end <= place and index < len(fences):
        if fences[index].opens:
            block, index = _block_opened_by(text, fences, index, wanted, reader)
        else:
            index += 1
    if not block.start <= place < block.end:
        return False
    return reader.parse_or_none(_dedent_with_counts(block)[0]) is not None or _continues_prompt(block, wanted, reader)


def _all_blocks(text: str, fences: Sequence[Fence]) -> list[_CodeBlock]:
    """Return all blocks, also blank ones; a bare fence closes the block before it, whatever the block contains."""
    found: list[_CodeBlock] = []
    opening: Fence | None = None
    for fence in fences:
        if opening is None:
            opening = fence if fence.opens else None
        elif fence.closes and opening.can_be_ended_by(fence):
            found.append(_CodeBlock(text, opening.end, max(fence.start, opening.end), opening.indent))
            opening = None
    if opening is not None:
        found.append(_CodeBlock(text, opening.end, len(text), opening.indent))
    return found


def _choose_block(blocks: Sequence[_CodeBlock], wanted: WantedProgram, reader: BoundedParser) -> _CodeBlock:
    name = wanted.entry_point
    if name is None:
        return blocks[-1]
    for block in reversed(blocks):
        source = _dedent_with_counts(block)[0]
        if wanted.language != "python" and wanted.language in TAGS_OF:
            if defines_function(source, name):
                return block
        elif reader.defines(source, name) or _continues_prompt(block, wanted, reader):
            return block
    return next((block for block in reversed(blocks) if seems_to_define(block.source, name)), blocks[-1])


def _continues_prompt(block: _CodeBlock, wanted: WantedProgram, reader: BoundedParser) -> bool:
    """Return whether a block is the body of the function that a prompt in completion form has begun."""
    if not wanted.prefix:
        return False
    if not block.fenced:
        return reader.parse_or_none(wanted.prefix + block.source) is not None
    first = next((line for line in block.source.split("\n") if line.strip()), "")
    indented = len(first) - len(first.lstrip(" \t")) > block.indent
    body = _remove_indent(block.source, block.indent)[0]
    return indented and reader.parse_or_none(f"{wanted.prefix.rstrip(chr(10))}\n{body}") is not None


def _program_in_block(
    text: str, block: _CodeBlock, wanted: WantedProgram, reader: BoundedParser
) -> ExtractedProgram | None:
    """Return the block as a program, without its indentation unless it is the body of a function that was begun."""
    if block.source.startswith("\ufeff"):
        block = _CodeBlock(text, block.start + 1, block.end, block.indent, block.fenced)
    found = program_in_span(text, block.start, block.end, fenced=block.fenced)
    if found is None or not block.fenced:
        return found
    body = _continues_prompt(block, wanted, reader)
    source, removed = _remove_indent(block.source, block.indent) if body else _dedent_with_counts(block)
    return ExtractedProgram(source, found.start, found.end, True, removed if any(removed) else ())


def _blank_unneeded_lines(program: ExtractedProgram, wanted: WantedProgram, reader: BoundedParser) -> ExtractedProgram:
    """Blank out the lines that a program's entry point does not need; keep a program without an entry point as it is.

    Imports stay, and so do statements that define a name which the entry point reaches. If a program does not parse,
    its longest beginning that parses counts.

    Source:
        the rule, except for how it treats functions without ``return``: https://github.com/evalplus/evalplus
    """
    lines = program.source.split("\n")
    end = len(lines)
    while (tree := reader.parse_or_none("\n".join(lines[:end]))) is None and end and reader.spend_characters(0):
        end -= 1
    defining: dict[str, list[ast.stmt]] = {}
    for statement in tree.body if tree else ():
        for name in _top_level_names(statement):
            defining.setdefault(name, []).append(statement)
    names = [(wanted.entry_point or "").split(".")[0]]
    if tree is None or wanted.language != "python" or names[0] not in defining:
        return program
    kept: list[ast.stmt] = [one for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    while names:
        for statement in defining.pop(names.pop(), ()):
            kept.append(statement)
            names += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    rows: set[int] = set()
    for statement in kept:
        first = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", []))])
        rows.update(range(first, (statement.end_lineno or 0) + 1))
    return replace(program, source="\n".join(line if row in rows else "" for row, line in enumerate(lines, 1)))


def _dedent_with_counts(block: _CodeBlock) -> tuple[str, tuple[int, ...]]:
    """Return the block's source without the indentation that its lines share, and the blanks taken from each line.

    If they share none, as with a string at column 0 in a program in a list, the fence's indentation is removed.
    """
    if not block.fenced:
        return block.source, ()
    lines = [line for line in block.source.split("\n") if line.strip()]
    blanks = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines]
    shortest = min(blanks, key=len, default="")
    shared = len(shortest) if all(blank.startswith(shortest) for blank in blanks) else 0
    return _remove_indent(block.source, shared or min(len(blanks[0]) if blanks else 0, block.indent))


def _remove_indent(source: str, indent: int) -> tuple[str, tuple[int, ...]]:
    """Return the source without up to ``indent`` leading blanks per line, and how many blanks each line lost."""
    if not indent:
        return source, ()
    lines = source.split("\n")
    removed = tuple(min(indent, len(line) - len(line.lstrip(" \t"))) for line in lines)
    return "\n".join(line[count:] for line, count in zip(lines, removed, strict=True)), removed


def _is_tag_of_language(tag: str, language: str) -> bool | None:
    """Return whether a tag names the language; ``None`` if the tag names no language, as a file's name does."""
    if language not in TAGS_OF:
        return False if tag in PROSE_TAGS else None
    return tag in TAGS_OF[language] if tag in KNOWN_TAGS else None


def _is_in_wanted_language(block: _CodeBlock, wanted: WantedProgram, reader: BoundedParser) -> bool:
    """Return whether a block without a tag is in the wanted language."""
    if wanted.language not in TAGS_OF:
        return block.fenced
    if not reader.spend_characters(block.end - block.start):
        return False
    if wanted.language != "python":
        return _LOOKS[wanted.language].search(block.source) is not None
    return reader.is_python(_dedent_with_counts(block)[0]) or _continues_prompt(block, wanted, reader)


class BoundedParser:
    """Parser for pieces of one completion, up to a total length.

    The limit counts characters, not seconds: the same completion gives the same program on every machine.
    """

    def __init__(self) -> None:
        self._left = MAX_CHARACTERS
        self._trees: dict[str, ast.Module | None] = {}

    def spend_characters(self, characters: int) -> bool:
        """Count ``characters`` as read, and return whether they are within the limit."""
        self._left -= characters
        return self._left >= 0

    def parse_or_none(self, source: str) -> ast.Module | None:
        """Return the tree of a Python source, or ``None`` if it does not parse or the limit is reached."""
        if source not in self._trees:
            self._trees[source] = parse_python(source) if self.spend_characters(len(source)) else None
        return self._trees[source]

    def is_python(self, source: str) -> bool:
        """Return whether a source without a tag is Python: it parses, and it is more than a value or a word."""
        tree = self.parse_or_none(source)
        return tree is not None and any(not _is_bare_value(statement) for statement in tree.body)

    def defines(self, source: str, name: str) -> bool:
        """Return whether a Python source parses and defines a function, class or ``Class.method`` at its top level."""
        first = name.split(".")[0]
        tree = self.parse_or_none(source) if first in source else None
        return tree is not None and any(first in _top_level_names(statement) for statement in tree.body)


def seems_to_define(source: str, name: str) -> bool:
    """Return whether a line looks like the definition of a name, even in broken Python."""
    first = re.escape(name.split(".")[0])
    line = rf"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+{first}\b|^{first}[ \t]*="
    return re.search(line, source, re.MULTILINE) is not None


def defines_function(source: str, name: str) -> bool:
    """Return whether a source seems to define a function or class, with a keyword such as ``fn`` or as C does."""
    first, last = re.escape(name.split(".")[0]), re.escape(name.split(".")[-1])
    # Every repetition has a limit: the text is untrusted.
    function = rf"\b{last}[ \t\r\n]{{0,20}}\([^;{{}}()]{{0,200}}\)[^;{{}}()]{{0,100}}\{{"
    word = rf"\b(?:def|fn|func|function|sub|class|const|let|var|local|my)[ \t]{{1,9}}[&*$]?{first}\b"
    return re.search(f"{function}|{word}", source) is not None


def parse_python(source: str) -> ast.Module | None:
    """Return the tree of a source, or ``None`` if it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in the policy's text
            return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        return None


def _is_bare_value(statement: ast.stmt) -> bool:
    """Return whether a statement is just a value: ``[1, 2]``, a word, or ``Output: 5``, an annotation to Python."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value is None
    return isinstance(statement, ast.Expr) and isinstance(statement.value, _VALUES)


def _top_level_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a top-level statement defines, also in the branches of ``if`` and ``try``."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname for alias in statement.names if alias.asname)
    elif isinstance(statement, ast.Assign):
        yield from (node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        yield from [statement.target.id] if isinstance(statement.target, ast.Name) else []
    elif isinstance(statement, ast.If | ast.Try | ast.With):
        inner = [*statement.body, *getattr(statement, "orelse", []), *getattr(statement, "finalbody", [])]
        inner += [line for handler in getattr(statement, "handlers", []) for line in handler.body]
        yield from (name for line in inner for name in _top_level_names(line))
