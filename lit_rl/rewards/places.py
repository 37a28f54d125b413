"""Where a place in a program stands in the completion that it was taken from.

Parsers and linters read the whole program, prefix included; credit belongs to what the policy wrote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lit_rl.execution.checks import Language
from lit_rl.execution.outcome import Verdict
from lit_rl.rewards.base import Span, TermScore
from lit_rl.types import Completions, Judgement, Problem, Program

_NEWLINE = re.compile(rb"\r\n|\r|\n")
LANGUAGES: Final = ("python", "c", "cpp")


class Places:
    """Offsets in a program's source, as spans of the completion's text.

    ``known`` says whether places can be told at all.

    Args:
        text: the completion.
        program: the program found in it.
    """

    def __init__(self, text: str, program: Program) -> None:
        self.source = program.source.encode()
        written = text.encode()[program.start : program.end]
        # Source that was changed on its way out of the completion has no places; its terms spread evenly.
        self.known = self.source.endswith(written)
        self._prefix = len(self.source) - len(written)
        self._start = program.start
        self._lines = [0, *(match.end() for match in _NEWLINE.finditer(self.source))]

    def span(self, start: int, end: int, value: float) -> Span | None:
        """Bytes ``start`` to ``end`` of the source; ``None`` if no part of them is in the completion."""
        if not self.known or max(end, start + 1) <= self._prefix:
            return None
        shift = self._start - self._prefix
        return Span(max(start, self._prefix) + shift, max(end, self._prefix) + shift, value)

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a 1-based line and a 0-based column in characters; past the end for later lines."""
        if line > len(self._lines):
            return len(self.source)
        begin = self._lines[line - 1]
        end = self._lines[line] if line < len(self._lines) else len(self.source)
        return begin + len(self.source[begin:end].decode(errors="replace")[:column].encode())

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
        raise ValueError(f"{term} reads {', '.join(known)}, but its programs are written in {language!r}")


def unread(judgement: Judgement, known: Sequence[str] = LANGUAGES) -> TermScore | None:
    """The score of a program that a term cannot parse: none. ``None`` where it can; a validation task may be any."""
    language = judgement.problem.check.language
    return None if language in known else TermScore(None, reason=f"the term does not read {language}")


def rows(completions: Completions, judgements: Sequence[Judgement]) -> list[tuple[str, Judgement]]:
    """Text and judgement of each row."""
    return list(zip(completions.texts, judgements, strict=True))
