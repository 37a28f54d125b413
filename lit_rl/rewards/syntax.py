"""Reward for the first place where a Python program breaks the grammar."""

from __future__ import annotations

from collections.abc import Sequence

from lit_rl.rewards.python_prefix import find_rejected_token, has_no_code
from lit_rl.rewards.term import ALL_TEXT, RewardTerm, TermScore
from lit_rl.rewards.token_credit import (
    SourceMap,
    utf8_bytes,
    valueless_score_unless_python,
)
from lit_rl.types import Completions, Judgement


class SyntaxReward(RewardTerm):
    """Reward of -1 on the first lexical token that the grammar rejects; 0 for a program without such a token.

    The grammar is that of the running interpreter, see :mod:`lit_rl.rewards.python_prefix`. A completion that the token
    limit cut inside its program is judged as a prefix: its end is not an error. A completion without a program, or with
    only comments in it, gets -1 without a span, so that an empty answer gains nothing.
    """

    default_name = "syntax"
    needs_every_case = False
    reads_python = True

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        rows = zip(completions.texts, judgements, completions.truncated.tolist(), strict=True)
        return [valueless_score_unless_python(judged) or _score_syntax(text, judged, cut) for text, judged, cut in rows]


def _score_syntax(text: str, judgement: Judgement, truncated: bool) -> TermScore:
    program = judgement.program
    if program is None:
        return TermScore(-1.0)
    prefix = truncated and program.end >= len(utf8_bytes(text).rstrip())
    place = _find_syntax_error(program.source, prefix)
    if place is None:
        return TermScore(-1.0 if has_no_code(program.source) and not prefix else 0.0)
    for_good = _find_syntax_error(program.source, True) == place  # a program that only ends too early can go on
    span = SourceMap(text, program).text_span(*place, -1.0, place[1] if for_good else ALL_TEXT)
    return TermScore(-1.0, () if span is None else (span,))


def _find_syntax_error(source: str, prefix: bool) -> tuple[int, int] | None:
    place = find_rejected_token(source, prefix=prefix)
    return place and (len(utf8_bytes(source[: place[0]])), len(utf8_bytes(source[: place[1]])))
