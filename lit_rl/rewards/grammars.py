"""Syntax trees of C and C++ (and of Python, for data flow) by tree-sitter.

tree-sitter keeps parsing after an error and is the maintained parser for all three languages.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

from lit_rl.rewards.macros import without_macros
from lit_rl.rewards.term import load_extra

_ALLOWED_CALLS = 1500
_BYTES_A_CALL = 20
_CHUNK = 1 << 16


class TooCostly(Exception):
    """A source on which a parser or a walk over its tree works longer than on any program of its length.

    Work is counted in steps, not in seconds, so that the same text has the same value on every machine.
    """


@cache
def grammar(language: str, needed_by: str) -> Any:
    """A language of tree-sitter. C is read by the grammar of C++, which accepts nearly all of it.

    Raises:
        ModuleNotFoundError: tree-sitter or its grammar is missing.
    """
    tree_sitter = load_extra("tree_sitter", needed_by)
    name = "tree_sitter_python" if language == "python" else "tree_sitter_cpp"
    return tree_sitter.Language(load_extra(name, needed_by).language())


def parse(source: bytes, language: str, needed_by: str) -> Any:
    """Root node of the source's tree.

    Raises:
        TooCostly: the parser, which tries many repairs of a broken source, takes too long.
    """
    known = grammar(language, needed_by)
    # tree-sitter asks after each hundred steps; a program takes a call for about 60 bytes.
    allowed = _ALLOWED_CALLS + len(source) // _BYTES_A_CALL
    calls = itertools.count(1)

    def cancel(_offset: int, _has_error: bool) -> bool:
        return next(calls) > allowed

    def read(offset: int, _point: object) -> bytes:
        return source[offset : offset + _CHUNK]

    try:
        return load_extra("tree_sitter", needed_by).Parser(known).parse(read, progress_callback=cancel).root_node
    except ValueError:
        raise TooCostly(f"the parser needs more than {allowed} rounds for {len(source)} bytes") from None


def walk(node: Any) -> Iterator[Any]:
    """The node and all below it, in the order of the source. Without recursion: programs can nest deeply."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def first_error(source: bytes, language: str, needed_by: str, *, prefix: bool = False) -> tuple[int, int] | None:
    """Bytes of the first ERROR or MISSING node; ``None`` if there is none, perhaps once likely macros are removed.

    An approximation: tree-sitter chooses its own repairs, so an ERROR node can begin before the token that a
    compiler would reject and can hold more than it. A MISSING node is empty; the character after it, where the
    missing token was noticed, is its place, or the source's last character if nothing follows.

    Args:
        source: the program.
        language: ``c`` or ``cpp``.
        needed_by: who asks, for the message about missing packages.
        prefix: whether the source may go on; then errors that reach its end do not count.

    Raises:
        TooCostly: see :func:`parse`.
    """
    place = _first_fault(source, language, needed_by, prefix)
    if place is not None:
        for masked in without_macros(source):
            place = _first_fault(masked, language, needed_by, prefix)
            if place is None:
                break
    return place


def _first_fault(source: bytes, language: str, needed_by: str, prefix: bool) -> tuple[int, int] | None:
    root = parse(source, language, needed_by)
    if not root.has_error:
        return None
    end = len(source.rstrip())
    for node in walk(root):
        if (node.is_error or node.is_missing) and not (prefix and node.end_byte >= end):
            return _place(source, node.start_byte, node.end_byte)
    return None


def _place(source: bytes, start: int, end: int) -> tuple[int, int]:
    """The node's bytes; for an empty node the next byte that is not white space, else the last one."""
    if start < end:
        return start, end
    rest = len(source) - len(source[start:].lstrip())
    return (rest, rest + 1) if rest < len(source) else (len(source.rstrip()) - 1, len(source.rstrip()))
