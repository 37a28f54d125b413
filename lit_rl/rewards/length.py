"""Penalties for length, in tokens that the policy chose, EOS included.

A row of several turns costs what all its turns cost together: else a policy could write as much as it likes in one turn
and hand in a short program in the next. What the environment says costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lit_rl.arguments import require_number
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement


class LengthPenalty(RewardTerm):
    """``-alpha * tokens / 100``: each hundred tokens cost ``alpha``.

    Args:
        weight: factor in the reward.
        name: name in logs.
        alpha: cost of 100 tokens, at least 0.

    Raises:
        ValueError: ``alpha`` is not a number, or is negative.
    """

    default_name = "length"

    def __init__(self, weight: float = 1.0, name: str | None = None, alpha: float = 0.01) -> None:
        super().__init__(weight, name)
        self.alpha = require_number(self, "alpha", alpha, low=0.0)

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions, without places."""
        return [TermScore(-self.alpha * tokens / 100) for tokens in completions.lengths.tolist()]


class OverlongPenalty(RewardTerm):
    """A penalty that grows over the last tokens before the limit, instead of falling at it (soft overlong).

        0                                              tokens <= max - buffer
        (max - buffer - tokens) / buffer               in between
        -1                                             tokens >= max

    Args:
        max_tokens: the sampler's token limit; with several turns, what all of them together may take.
        buffer_tokens: tokens before the limit in which the penalty grows, in [1, max_tokens].
        weight: factor in the reward.
        name: name in logs.

    Raises:
        ValueError: a limit that is not in range.

    Source:
        Yu et al. 2025 (DAPO), eq. 13, https://arxiv.org/abs/2503.14476
    """

    default_name = "overlong"

    def __init__(self, max_tokens: int, buffer_tokens: int, weight: float = 1.0, name: str | None = None) -> None:
        super().__init__(weight, name)
        self.max_tokens = int(require_number(self, "max_tokens", max_tokens, low=1))
        self.buffer_tokens = int(require_number(self, "buffer_tokens", buffer_tokens, 1, max_tokens))

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions, without places."""
        free = self.max_tokens - self.buffer_tokens
        values = (free - completions.lengths).to(torch.float32) / self.buffer_tokens
        return [TermScore(value) for value in values.clamp(-1.0, 0.0).tolist()]
