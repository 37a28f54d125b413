"""Examples that a prompt shows, read as calls with their values if they leave no doubt."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MAX_EXAMPLE_LINES = 8
"""A call or a value that takes more lines is not read."""

_SESSION = re.compile(r"[ \t]*>>>[ \t]*")
_BEFORE_CALL = re.compile(r"\s*(?:>>>|assert|for|e\.g\.|[*-])?\s*", re.IGNORECASE)
_GIVES = re.compile(
    r"\s*(?:#\s*)?(?:==>|=>|==|=|->|➞|→|returns\b|(?:should|will|must)\s+(?:return|be|equal)\b)[ \t]*(?:=>)?",
    re.IGNORECASE,
)
_LABELLED = re.compile(
    r"^[ \t]*(?:Input:[ \t]*(?P<input>[^\n]+)\n+[ \t]*Output:"
    r"|For (?P<given>\w+ *=[^\n]+?),? +the output should be)[ \t]*",
    re.MULTILINE,
)
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None}
_NOTHING = object()


@dataclass(frozen=True)
class CallExample:
    """One call that a text shows: positional arguments, and the value that the text gives."""

    arguments: tuple[Any, ...]
    expected: Any


def find_call_examples(text: str, function: str, parameters: Sequence[str] = ()) -> list[CallExample]:
    r"""Return calls of a function with their values, as docstrings and statements show them; each call comes once.

    ==============================================================  ========================================
    shape                                                           read as
    ==============================================================  ========================================
    ``>>> f(1)``, the value on the next lines                       the value; ``None`` where none is printed
    ``f(1) == 2``, at the beginning of a line                       the same; also ``=``, ``=>``, ``==>``, ``->``,
                                                                    ``➞``, ``returns``, ``should return``
    ``Input: x = 1, y = 2``, then ``Output: 3``                     a call, if the names are the parameters
    ``For x = 1, y = 2 the output should be 3``                     likewise
    ==============================================================  ========================================

    Arguments and value must be literals, where ``true``, ``false`` and ``null`` are read as in JSON, and nothing but
    a full stop or a comment may follow the value. Whatever is written in another way is left out, and so is a
    call for which the text gives two values.

    Example:
        >>> find_call_examples("double(2) ➞ 4 or so\ndouble(3) should return 6.", "double")
        [CallExample(arguments=(3,), expected=6)]
    """
    found: dict[str, CallExample] = {}
    doubtful = set()
    for example in (*_call_examples(text, function), *_labelled_examples(text, parameters)):
        key = repr(example.arguments)
        if repr(found.setdefault(key, example).expected) != repr(example.expected):
            doubtful.add(key)
    return [example for key, example in found.items() if key not in doubtful]


def parameter_names(starter_code: str, function: str) -> list[str]:
    r"""Return the names of a function's parameters, without ``self``, from code that may end with the signature.

    The list is empty if the code cannot be read.

    Example:
        >>> parameter_names("class Solution:\n    def add(self, x: int, y: int) -> int:\n", "add")
        ['x', 'y']
    """
    for body in (" pass", "", "\n    pass"):  # after a signature, a docstring, or a comment
        with suppress(SyntaxError, ValueError):
            for node in ast.walk(ast.parse(starter_code.rstrip() + body)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
                    return [argument.arg for argument in node.args.args if argument.arg != "self"]
    return []


def _call_examples(text: str, function: str) -> Iterator[CallExample]:
    for match in re.finditer(rf"(?<![\w.]){re.escape(function)}\(", text):
        start = match.start()
        before = text[text.rfind("\n", 0, start) + 1 : start]
        end = _end_of_call(text, start)
        if end is None or _BEFORE_CALL.fullmatch(before) is None:
            continue
        arguments = _call_arguments(text[start:end], ())
        rest, _, following = text[end:].partition("\n")
        expected = _NOTHING
        if gives := _GIVES.match(rest):
            expected = _leading_literal(text[end + gives.end() :])
        elif _SESSION.fullmatch(before) and not rest.partition("#")[0].strip():
            expected = _printed_value(following)
        if arguments is not None and expected is not _NOTHING:
            yield CallExample(arguments, expected)


def _labelled_examples(text: str, parameters: Sequence[str]) -> Iterator[CallExample]:
    for match in _LABELLED.finditer(text) if parameters else ():
        arguments = _call_arguments(f"f({match['input'] or match['given']})", parameters)
        expected = _leading_literal(text[match.end() :])
        if arguments is not None and len(arguments) == len(parameters) and expected is not _NOTHING:
            yield CallExample(arguments, expected)


def _end_of_call(text: str, start: int) -> int | None:
    """Return the end of the call that begins at ``start``; ``None`` if the call is not Python."""
    lines = 0
    for index in range(start, len(text)):
        lines += text[index] == "\n"
        if lines > MAX_EXAMPLE_LINES:
            break
        if text[index] == ")" and _parse_expression(text[start : index + 1]) is not None:
            return index + 1
    return None


def _call_arguments(call: str, parameters: Sequence[str]) -> tuple[Any, ...] | None:
    """Return the arguments of a call as plain data; named arguments must be in the order of the parameters."""
    node = _parse_expression(call)
    if not isinstance(node, ast.Call) or (node.args and node.keywords):
        return None
    if node.keywords and [keyword.arg for keyword in node.keywords] != list(parameters):
        return None
    values = [_evaluate_literals(value) for value in (*node.args, *(keyword.value for keyword in node.keywords))]
    return None if any(value is _NOTHING for value in values) else tuple(values)


def _leading_literal(text: str) -> Any:
    """Return the literal that a text begins with, if nothing follows on the same line."""
    lines = text.split("\n")
    for count in range(1, MAX_EXAMPLE_LINES + 1):
        candidate = "\n".join(lines[:count]).strip()
        value = _literal_value(candidate)
        if value is not _NOTHING or not candidate.startswith(("[", "(", "{")):
            return value
    return _NOTHING


def _printed_value(text: str) -> Any:
    """Return the value that an interactive session prints up to the next prompt; ``None`` if nothing is printed."""
    printed: list[str] = []
    for line in text.split("\n")[:MAX_EXAMPLE_LINES]:
        if not line.strip() or _SESSION.match(line):
            return _NOTHING if printed else None
        printed.append(line.strip())
        value = _literal_value("\n".join(printed))
        if value is not _NOTHING:
            return value
    return _NOTHING


def _literal_value(text: str) -> Any:
    """Return the value of a literal, which a full stop or a comment may follow, or ``_NOTHING``."""
    node = _parse_expression(text.removesuffix("."))
    return _NOTHING if node is None else _evaluate_literals(node)


def _parse_expression(text: str) -> ast.expr | None:
    try:
        with warnings.catch_warnings(action="ignore"):  # such as a warning of an unknown escape
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _evaluate_literals(node: ast.expr) -> Any:
    """Return the value of an expression of literals, or ``_NOTHING``."""
    try:
        return ast.literal_eval(_JsonConstantReplacer().visit(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NOTHING


class _JsonConstantReplacer(ast.NodeTransformer):
    """Reads JSON's ``true``, ``false`` and ``null`` as constants."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_WORDS[node.id]) if node.id in _WORDS else node
