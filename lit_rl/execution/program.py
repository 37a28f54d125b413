"""Find the program in what a language model wrote, and where it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass

# An opening fence: up to three spaces (or a list's indent), three or more backticks or tildes, an info word.
_FENCE = re.compile(r"^[ \t]*(?P<mark>`{3,}|~{3,})(?P<info>[^`\n]*)$")


@dataclass(frozen=True)
class ExtractedProgram:
    """A program's text and its place in the completion.

    Args:
        source: the text between the fences, or the whole completion where there is no fence.
        start: first byte of ``source`` in the UTF-8 of the completion.
        end: byte after its last.
        fenced: whether it stood in a fenced block.
    """

    source: str
    start: int
    end: int
    fenced: bool


def extract_program(text: str) -> ExtractedProgram | None:
    r"""The last fenced block of ``text``, or all of it where no fence opens; ``None`` where that is blank.

    A fence that never closes runs to the end, so a truncated completion keeps its program. A block is closed
    by a bare fence of the same mark, at least as long. The last block wins even when it is blank: what
    stands before it is not what the model settled on.

    >>> extract_program("Here:\n```python\nx = 1\n```\nDone.")
    ExtractedProgram(source='x = 1\n', start=16, end=22, fenced=True)
    >>> extract_program("x = 1").fenced
    False
    """
    return program_at(text, *(_last_block(text) or (0, len(text))))


def program_at(text: str, start: int, end: int) -> ExtractedProgram | None:
    """The program between two characters of a text, fenced unless it begins it; ``None`` where that is blank."""
    source = text[start:end]
    if not source.strip():
        return None
    first_byte = _num_bytes(text[:start])
    return ExtractedProgram(source, first_byte, first_byte + _num_bytes(source), fenced=start > 0)


def _last_block(text: str) -> tuple[int, int] | None:
    """Character span of the inside of the last fenced block."""
    span: tuple[int, int] | None = None
    open_mark = ""
    inside = position = 0
    for line in text.splitlines(keepends=True) if "\n" in text else [text]:
        found = _FENCE.match(line.rstrip("\r\n"))
        if found and not open_mark:
            open_mark, inside = found["mark"], position + len(line)
        elif found and found["mark"].startswith(open_mark) and not found["info"].strip():
            span, open_mark = (inside, position), ""
        position += len(line)
    if open_mark:
        span = (inside, len(text))
    return span


def _num_bytes(text: str) -> int:
    """Length in UTF-8; a lone surrogate counts as the three bytes it would take."""
    return len(text.encode("utf-8", "surrogatepass"))
