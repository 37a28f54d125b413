"""The first place where a program breaks the grammar of its language."""

from __future__ import annotations

from collections.abc import Sequence

from lit_rl.rewards.grammars import TooCostly, first_error, grammar
from lit_rl.rewards.places import Places, check_language, rows, unread, utf8
from lit_rl.rewards.python_prefix import first_rejected, is_blank
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement, Problem, StopReason


class SyntaxReward(RewardTerm):
    """-1 on the first lexical token that the grammar rejects; 0 for a program without one.

    Python: the grammar of the running interpreter, see :mod:`lit_rl.rewards.python_prefix`. C and C++: the
    first ERROR or MISSING node of tree-sitter, an approximation. A completion that the token limit cut inside
    its program is judged as a prefix: its end is not an error. A completion without a program, or with nothing
    but comments in it, gets -1 without a place, so that an empty answer earns nothing; so does a text
    on which the parser would work far longer than on a program of its length.

    Args:
        weight: factor in the reward.
        name: name in logs.
    """

    default_name = "syntax"

    def check_problem(self, problem: Problem) -> None:
        """Raise ValueError if the problem's language has no grammar here."""
        check_language("SyntaxReward", problem)
        if problem.check.language != "python":
            grammar(problem.check.language, "SyntaxReward")

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions."""
        cut = [reason is StopReason.LENGTH for reason in completions.stop_reasons]
        pairs = zip(rows(completions, judgements), cut, strict=True)
        return [unread(judgement) or _score(text, judgement, truncated) for (text, judgement), truncated in pairs]


def _score(text: str, judgement: Judgement, truncated: bool) -> TermScore:
    program = judgement.program
    if program is None:
        return TermScore(-1.0)
    language = judgement.problem.check.language
    prefix = truncated and program.end >= len(utf8(text).rstrip())
    try:
        place = _first_wrong(program.source, language, prefix)
    except TooCostly:  # no program keeps a parser busy for so long
        return TermScore(-1.0)
    if place is None:
        blank = language == "python" and is_blank(program.source)
        return TermScore(-1.0 if blank and not prefix else 0.0)
    span = Places(text, program).span(*place, -1.0)
    return TermScore(-1.0, () if span is None else (span,))


def _first_wrong(source: str, language: str, prefix: bool) -> tuple[int, int] | None:
    """Bytes of the first wrong place of a source."""
    if language != "python":
        return first_error(utf8(source), language, "SyntaxReward", prefix=prefix)
    place = first_rejected(source, prefix=prefix)
    return place and (len(utf8(source[: place[0]])), len(utf8(source[: place[1]])))
