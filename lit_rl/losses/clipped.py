"""The clipped surrogate of PPO and GRPO."""

from __future__ import annotations

from torch import Tensor

from lit_rl.bounds import require_above, require_clip
from lit_rl.functional.policy_losses import clipped_surrogate_loss
from lit_rl.functional.ratios import clip_fraction
from lit_rl.losses.base import Loss, Tokens


class Clipped(Loss):
    """Ratio times advantage, without gradient once the ratio has left its range.

    Args:
        clip_low: distance of the ratio's lower bound from 1; 1 means no lower bound.
        clip_high: distance of its upper bound from 1; larger than ``clip_low`` is DAPO's clip-higher.
        dual_clip: largest ratio that counts where the advantage is negative, above 1 + ``clip_high``; ``None``: any.

    Source:
        Schulman et al. 2017, eq. 7, https://arxiv.org/abs/1707.06347
        dual clip: Ye et al. 2020, https://arxiv.org/abs/1912.09729
    """

    def __init__(self, clip_low: float = 0.2, clip_high: float = 0.2, dual_clip: float | None = None) -> None:
        require_clip(clip_low=clip_low)
        require_above(0, clip_high=clip_high)
        require_above(1 + clip_high, dual_clip=dual_clip)
        self.clip_low, self.clip_high, self.dual_clip = clip_low, clip_high, dual_clip

    def token_losses(self, tokens: Tokens) -> Tensor:
        """[n, T] clipped surrogate."""
        return clipped_surrogate_loss(
            tokens.logprobs,
            tokens.old_logprobs,
            tokens.advantages,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            dual_clip=self.dual_clip,
            level=tokens.level,
            mask=tokens.mask,
        )

    def metrics(self, tokens: Tokens) -> dict[str, Tensor]:
        """Share of tokens whose gradient the clip took away."""
        fraction = clip_fraction(
            tokens.logprobs.detach(),
            tokens.old_logprobs,
            tokens.advantages,
            tokens.mask,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            level=tokens.level,
        )
        return {"policy/clip_fraction": fraction}
