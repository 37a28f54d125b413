"""Importance weights from the sampler's own log-probabilities."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from lit_rl.bounds import require_above
from lit_rl.functional.policy_losses import importance_sampling_loss
from lit_rl.functional.ratios import BeyondCap
from lit_rl.losses.base import Loss, Tokens


class ImportanceSampling(Loss):
    """Log-probability times advantage times p / q, q being what the sampler reported.

    Args:
        cap: largest weight; ``None`` for none.
        beyond_cap: weights above the cap are cut to it (``truncate``) or their tokens dropped (``mask``).

    Source:
        truncation: Ionides 2008, https://doi.org/10.1198/106186008X320456
    """

    reads_sampler_logprobs: ClassVar[bool] = True

    def __init__(self, cap: float | None = None, beyond_cap: BeyondCap = "truncate") -> None:
        require_above(0, cap=cap)
        self.cap = cap
        self.beyond_cap: BeyondCap = beyond_cap

    def token_losses(self, tokens: Tokens) -> Tensor:
        """[n, T] weighted log-probability times advantage, negative."""
        return importance_sampling_loss(
            tokens.logprobs,
            tokens.sampler_logprobs.to(tokens.logprobs.dtype),
            tokens.advantages,
            cap=self.cap,
            beyond_cap=self.beyond_cap,
            level=tokens.level,
            mask=tokens.mask,
        )
