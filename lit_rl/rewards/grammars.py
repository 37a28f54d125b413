"""Syntax trees of C and C++ (and of Python, for data flow) by tree-sitter.

tree-sitter keeps parsing after an error and is the maintained parser for all three languages. It does not run the
preprocessor, so the traces of macros are taken out before. Every step puts blanks in place of what it takes out, so
that all other bytes stay where they are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from lit_rl.lazy import load_extra

_LEAST_LEFT = 4  # a quarter of the characters
_NAME = rb"[A-Z][A-Z0-9_]{2,80}"
_ARGUMENTS = rb"\((?:[^()\n]|\([^()\n]{0,200}\)){0,400}\)"
_SKIPPED = re.compile(rb'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'', re.DOTALL)
_BLANKS = rb"[ \t\r\n]{1,80}"
_WORD = rb"[A-Za-z_]\w{0,80}"
_STEPS = (
    # CCTK_FNAME(f)(x): the name of a function, made by a macro
    re.compile(rb"\b" + _NAME + rb"(?P<open>\()[ \t]{0,20}\w{1,80}[ \t]{0,20}(?P<close>\))(?=[ \t]{0,20}\()"),
    # a line of its own without a semicolon: DECLARE_CCTK_PARAMETERS, CCTK_FILEVERSION(x)
    re.compile(
        rb"^[ \t]{0,80}(?P<line>" + _NAME + rb"(?:_\w{1,80})?[ \t]{0,20}(?:" + _ARGUMENTS + rb")?)[ \t\r]{0,80}$",
        re.MULTILINE,
    ),
    # in front of a type and a name: GLOBAL Int f(void), inline ARITH_DEVICE ARITH_HOST T g(T x)
    re.compile(
        rb"(?P<before>\b"
        + _NAME
        + rb")(?="
        + _BLANKS
        + rb"(?!const\b|restrict\b|volatile\b)"
        + _WORD
        + rb"(?:<[^<>;]{0,80}>)?[ \t\r\n*&]{1,80}"
        + _WORD
        + rb")"
    ),
    # between two strings, which are NUL bytes here: printf("x = "ID"\\n", x)
    re.compile(rb"(?<=\0)[ \t\n]{0,80}(?P<glued>" + _NAME[: _NAME.index(b"{")] + rb"{1,80})(?=[ \t\n]{0,80}\0)"),
    # a convention of calls: void FCALL solve(int n)
    re.compile(
        rb"(?P<convention>\b[A-Z_]{0,80}(?:CALL|API|DECL|EXPORT|IMPORT))(?=" + _BLANKS + _WORD + rb"[ \t]{0,20}\()"
    ),
    # between the parts of a lambda: [=] DEVICE HOST (int i) { return i; }
    re.compile(rb"(?<=\])(?P<capture>(?:" + _BLANKS + _NAME + rb"){1,8})(?=[ \t\n]{0,80}\()"),
    # after a name: int x ATTRIBUTE_UNUSED = 0;
    re.compile(rb"(?<=[\w\]])(?<!return)" + _BLANKS + rb"(?P<behind>" + _NAME + rb")(?=[ \t\n]{0,80}(?:=(?!=)|[;,{]))"),
    # after parameters, before the body: [=] (int i) ALWAYS_INLINE {
    re.compile(rb"(?<=\))" + _BLANKS + rb"(?P<inline>" + _NAME + rb")(?=[ \t\n]{0,80}\{)"),
)
_CONDITION = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(?:[^\n\\]|\\\r?\n|\\.)*$", re.M)


def without_macros(source: bytes) -> Iterator[bytes]:
    """The source without what look like uses of macros, then also with the first branch of each ``#if`` only.

    A source of which less than a quarter would be left gives nothing: it is not a program without its macros.
    """
    masked = source
    for step in _STEPS:
        masked = _blank(masked, step)
    first_branches = _first_branches(masked)
    for text in (masked, first_branches):
        if _LEAST_LEFT * len(b"".join(text.split())) >= len(b"".join(source.split())):
            yield text


def _blank(source: bytes, pattern: re.Pattern[bytes]) -> bytes:
    """Every named group of every match outside comments and strings, with blanks in its place."""
    closed = bytearray(source)
    for skipped in _SKIPPED.finditer(source):
        closed[skipped.start() : skipped.end()] = b"\0" * (skipped.end() - skipped.start())
    result = bytearray(source)
    for found in pattern.finditer(bytes(closed)):
        for group in pattern.groupindex:
            start, end = found.span(group)
            if group == "open":  # the macro's name goes with its bracket
                start = found.start()
            result[start:end] = re.sub(rb"[^\n]", b" ", source[start:end])
    return bytes(result)


def _first_branches(source: bytes) -> bytes:
    """Directives of conditions and all branches but the first as blanks."""
    result = bytearray(source)
    dropped: list[bool] = []  # for each open condition: whether its present branch is dropped
    last = num_dropped = 0
    for found in _CONDITION.finditer(source):
        if num_dropped:
            result[last : found.start()] = re.sub(rb"[^\n]", b" ", source[last : found.start()])
        result[found.start() : found.end()] = re.sub(rb"[^\n]", b" ", found[0])
        last = found.end()
        if found[1] in (b"if", b"ifdef", b"ifndef"):
            dropped.append(False)
        elif dropped and found[1] == b"endif":
            num_dropped -= dropped.pop()
        elif dropped:
            num_dropped += not dropped[-1]
            dropped[-1] = True
    return bytes(result)


_ALLOWED_CALLS = 1500
_BYTES_A_CALL = 20
_CHUNK = 1 << 16


class TooCostly(Exception):
    """A source on which a parser or a walk over its tree works longer than on any program of its length.

    Work is counted in steps, not in seconds, so that the same text has the same value on every machine.
    """


def _load(package: str) -> Any:
    return load_extra(package, "reading programs as trees", "rewards")


@cache
def grammar(language: str) -> Any:
    """A language of tree-sitter. C is read by the grammar of C++, which accepts nearly all of it.

    Raises:
        ModuleNotFoundError: tree-sitter or its grammar is missing.
    """
    tree_sitter = _load("tree_sitter")
    name = "tree_sitter_python" if language == "python" else "tree_sitter_cpp"
    return tree_sitter.Language(_load(name).language())


def parse(source: bytes, language: str) -> Any:
    """Root node of the source's tree.

    Raises:
        TooCostly: the parser, which tries many repairs of a broken source, takes too long.
    """
    known = grammar(language)
    # tree-sitter asks after each hundred steps; a program takes a call for about 60 bytes.
    allowed = _ALLOWED_CALLS + len(source) // _BYTES_A_CALL
    calls = itertools.count(1)

    def cancel(_offset: int, _has_error: bool) -> bool:
        return next(calls) > allowed

    def read(offset: int, _point: object) -> bytes:
        return source[offset : offset + _CHUNK]

    parser = _load("tree_sitter").Parser(known)
    try:
        return parser.parse(read, progress_callback=cancel).root_node
    except ValueError:
        raise TooCostly(f"the parser needs more than {allowed} rounds for {len(source)} bytes") from None


def walk(node: Any) -> Iterator[Any]:
    """The node and all below it, in the order of the source. Without recursion: programs can nest deeply."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def first_error(source: bytes, language: str, *, prefix: bool = False) -> tuple[int, int] | None:
    """Bytes of the first ERROR or MISSING node; ``None`` if there is none, perhaps once likely macros are removed.

    An approximation: tree-sitter chooses its own repairs, so an ERROR node can begin before the token that a
    compiler would reject and can hold more than it. A MISSING node is empty; the character after it, where the
    missing token was noticed, is its place, or the source's last character if nothing follows.

    Args:
        source: the program.
        language: ``c`` or ``cpp``.
        prefix: whether the source may continue; then errors that reach its end do not count.

    Raises:
        TooCostly: see :func:`parse`.
    """
    place = _first_fault(source, language, prefix)
    if place is not None:
        for masked in without_macros(source):
            place = _first_fault(masked, language, prefix)
            if place is None:
                break
    return place


def _first_fault(source: bytes, language: str, prefix: bool) -> tuple[int, int] | None:
    root = parse(source, language)
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
