"""CISPO: clip the importance weight, keep every token's gradient."""

from __future__ import annotations

from torch import Tensor

from lit_rl.bounds import require_above, require_clip
from lit_rl.functional.policy_losses import cispo_loss
from lit_rl.losses.base import Loss, Tokens


class CISPO(Loss):
    """Log-probability times advantage times a clipped ratio that carries no gradient.

    Args:
        clip_high: distance of the weight's upper bound from 1. The paper tunes it and names no value.
        clip_low: distance of its lower bound from 1; ``None`` for none, as in the paper's runs.

    Source:
        MiniMax 2025, eq. 4 and 5, https://arxiv.org/abs/2506.13585
    """

    def __init__(self, clip_high: float, clip_low: float | None = None) -> None:
        require_above(0, clip_high=clip_high)
        require_clip(clip_low=clip_low)
        self.clip_high, self.clip_low = clip_high, clip_low

    def token_losses(self, tokens: Tokens) -> Tensor:
        """[n, T] weighted log-probability times advantage, negative."""
        return cispo_loss(
            tokens.logprobs,
            tokens.old_logprobs,
            tokens.advantages,
            clip_high=self.clip_high,
            clip_low=self.clip_low,
            level=tokens.level,
            mask=tokens.mask,
        )
