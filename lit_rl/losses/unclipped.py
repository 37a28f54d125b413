"""Ratio times advantage."""

from __future__ import annotations

from torch import Tensor

from lit_rl.functional.policy_losses import unclipped_loss
from lit_rl.losses.base import Loss, Tokens


class Unclipped(Loss):
    """Ratio times advantage, without any clip.

    Source:
        conservative policy iteration: Schulman et al. 2017, eq. 6, https://arxiv.org/abs/1707.06347
    """

    def token_losses(self, tokens: Tokens) -> Tensor:
        """[n, T] ratio times advantage, negative."""
        return unclipped_loss(
            tokens.logprobs, tokens.old_logprobs, tokens.advantages, level=tokens.level, mask=tokens.mask
        )
