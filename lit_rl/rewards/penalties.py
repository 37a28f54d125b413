"""Penalties for the form of an answer: no program, many tokens.

Tokens are those that the policy chose, EOS included. A row of several turns costs what all its turns cost together:
otherwise a policy could write as much as it likes in one turn and hand in a short program in the next. What the
environment says costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lit_rl.errors import ArgumentError, UsageError
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.signature_check import NonNegativeFloat, PositiveInt
from lit_rl.types import Completions, Judgement, Problem


class FormatReward(RewardTerm):
    """Reward of -1 for a completion without a fenced program, 0 with one: a penalty, never a bonus.

    With the default weight a badly formatted completion loses 0.1, so that it stays below a well formatted
    one that fails its tests.

    Args:
        fence: whether the program must be in a fenced block; False accepts any program.
    """

    default_name = "format"
    needs_every_case = False

    def __init__(self, weight: float = 0.1, name: str | None = None, fence: bool = True) -> None:
        super().__init__(weight, name)
        self.fence = fence

    def check_problem(self, problem: Problem) -> None:
        if self.fence and problem.continues_program:
            raise UsageError(
                "FormatReward expects a fenced block, but in completion form there is none: set fence to False, or the "
                "task's form to instruct"
            )

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        good = [j.program is not None and (j.program.fenced or not self.fence) for j in judgements]
        return [TermScore(0.0 if ok else -1.0) for ok in good]


class LengthPenalty(RewardTerm):
    """``-alpha * tokens / 100``: each hundred tokens cost ``alpha``.

    Args:
        alpha: cost of 100 tokens, at least 0.
    """

    default_name = "length"
    needs_every_case = False

    def __init__(self, weight: float = 1.0, name: str | None = None, alpha: NonNegativeFloat = 0.01) -> None:
        super().__init__(weight, name)
        self.alpha = alpha

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return [TermScore(-self.alpha * tokens / 100) for tokens in completions.lengths.tolist()]


class OverlongPenalty(RewardTerm):
    """A penalty that grows over the last tokens before the limit, instead of falling at it (soft overlong).

        0                                              tokens <= max - buffer
        (max - buffer - tokens) / buffer               in between
        -1                                             tokens >= max

    Args:
        max_tokens: the sampler's token limit; with several turns, the limit of all turns together.
        buffer_tokens: tokens before the limit in which the penalty grows, in [1, max_tokens].

    Source:
        Yu et al. 2025 (DAPO), eq. 13, https://arxiv.org/abs/2503.14476
    """

    default_name = "overlong"
    needs_every_case = False

    def __init__(
        self, max_tokens: PositiveInt, buffer_tokens: PositiveInt, weight: float = 1.0, name: str | None = None
    ) -> None:
        super().__init__(weight, name)
        if buffer_tokens > max_tokens:
            raise ArgumentError("OverlongPenalty.buffer_tokens", f"at most {max_tokens}", str(buffer_tokens))
        self.max_tokens = max_tokens
        self.buffer_tokens = buffer_tokens

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        values = (self.max_tokens - self.buffer_tokens - completions.lengths).to(torch.float32) / self.buffer_tokens
        return [TermScore(value) for value in values.clamp(-1.0, 0.0).tolist()]
