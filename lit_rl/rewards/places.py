"""From places in a program to places in the completion that it was taken from.

Parsers and linters read the whole program, prefix included; credit belongs to what the policy wrote.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from lit_rl.arguments import UsageError
from lit_rl.execution.checks import Language
from lit_rl.execution.outcome import Verdict
from lit_rl.rewards.term import Span, TermScore
from lit_rl.types import Completions, Judgement, Problem, Program

_NEWLINE = re.compile(rb"\r\n|\r|\n")
LANGUAGES: Final = ("python", "c", "cpp")


def utf8(text: str) -> bytes:
    """Bytes of a text as token places count them; a lone surrogate counts as the three bytes it would take."""
    return text.encode("utf-8", "surrogatepass")


class Places:
    """Offsets in a program's source, as spans of the completion's text.

    ``known`` says whether places can be found at all.

    Args:
        text: the completion.
        program: the program found in it.
    """

    def __init__(self, text: str, program: Program) -> None:
        self.source = utf8(program.source)
        written = utf8(text)[program.start : program.end]
        lines = written.split(b"\n")
        removed = program.removed or (0,) * len(lines)
        kept = b"\n".join(line[count:] for line, count in zip(lines, removed, strict=False))
        # Source that was changed otherwise on its way out of the completion has no places; its terms spread evenly.
        self.known = len(removed) == len(lines) and self.source.endswith(kept)
        self._prefix = len(self.source) - len(kept)
        self._start = program.start
        self._lines = [0, *(match.end() for match in _NEWLINE.finditer(self.source))]
        # Where each line of the extracted text begins in the source, and how much indentation was left out up to it.
        lengths = (len(line) - count + 1 for line, count in zip(lines, removed, strict=False))
        self._kept_lines = list(accumulate(lengths, initial=self._prefix))
        self._left_out = list(accumulate(removed))

    def span(self, start: int, end: int, value: float) -> Span | None:
        """Bytes ``start`` to ``end`` of the source; ``None`` if no part of them is in the completion."""
        if not self.known or max(end, start + 1) <= self._prefix:
            return None
        start, end = max(start, self._prefix), max(end, self._prefix)
        first = self._in_text(start)
        return Span(first, first if end <= start else self._in_text(end - 1) + 1, value)

    def _in_text(self, offset: int) -> int:
        """Byte of the completion that became this byte of the source."""
        line = min(bisect_right(self._kept_lines, offset), len(self._left_out)) - 1
        return offset - self._prefix + self._start + self._left_out[line]

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a 1-based line and a 0-based column in characters; past the end for later lines."""
        if line > len(self._lines):
            return len(self.source)
        begin = self._lines[line - 1]
        end = self._lines[line] if line < len(self._lines) else len(self.source)
        return begin + len(utf8(self.source[begin:end].decode("utf-8", "surrogatepass")[:column]))

    def line_span(self, line: int, value: float) -> Span | None:
        """The written part of a 1-based source line, without indentation and newline; ``None`` if blank."""
        if not 1 <= line <= len(self._lines):
            return None
        begin = self._lines[line - 1]
        end = self._lines[line] if line < len(self._lines) else len(self.source)
        content = self.source[begin:end]
        if not content.strip():
            return None
        return self.span(begin + len(content) - len(content.lstrip()), begin + len(content.rstrip()), value)


def blame_line(text: str, judgement: Judgement, value: float, full: float) -> TermScore:
    """The value of a program that failed, with what it lost taken from the line where it failed.

    The line gets ``value - full``, so that the other tokens earn what they would in a program without fault:
    between a program that fails at a line and one that passes, only that line differs. No place where the
    line is unknown, blank or not the policy's own, or where nothing was lost.
    """
    if value >= full or judgement.program is None or judgement.outcome.line is None:
        return TermScore(value)
    span = Places(text, judgement.program).line_span(judgement.outcome.line, value - full)
    if span is None:
        return TermScore(value)
    # A syntax error is reported where it begins: a bracket that the rest of the program never closed.
    return TermScore(value, (replace(span, undecided=judgement.outcome.verdict is Verdict.SYNTAX_ERROR),))


def check_language(term: str, problem: Problem, known: Sequence[Language] = LANGUAGES) -> None:
    """Raise ValueError if a term cannot parse the problem's language."""
    language = problem.check.language
    if language not in known:
        raise UsageError(f"{term} reads {', '.join(known)}, but its programs are written in {language!r}")


def unread(judgement: Judgement, known: Sequence[str] = LANGUAGES) -> TermScore | None:
    """A score without value for a program in a language that a term cannot parse; ``None`` where it can."""
    language = judgement.problem.check.language
    return None if language in known else TermScore(None, reason=f"the term does not read {language}")


def rows(completions: Completions, judgements: Sequence[Judgement]) -> list[tuple[str, Judgement]]:
    """Text and judgement of each row."""
    return list(zip(completions.texts, judgements, strict=True))
