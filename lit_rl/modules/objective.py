"""The policy's loss per token: which surrogate, which ratio, and what holds the policy near its reference.

Letters: n rows of a micro-batch, T completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from lit_rl.bounds import require_above, require_at_least
from lit_rl.functional.kl import KLKind, kl_estimate
from lit_rl.functional.masking import masked_mean
from lit_rl.functional.policy_losses import (
    cispo_loss,
    clipped_surrogate_loss,
    importance_sampling_loss,
    policy_gradient_loss,
    unclipped_loss,
)
from lit_rl.functional.ratios import BeyondCap, RatioLevel, approximate_kl, clip_fraction
from lit_rl.types import Experience

Loss = Literal["clipped", "unclipped", "naive", "cispo", "importance_sampling"]


@dataclass(frozen=True)
class Objective:
    """What the policy minimises.

    Args:
        loss: ``clipped`` (PPO, GRPO), ``unclipped`` (ratio times advantage), ``naive`` (plain policy gradient, no
            ratio), ``cispo`` (clipped weight, every token keeps its gradient) or ``importance_sampling``
            (p / q with the sampler's own log-probabilities).
        ratio_level: ratio of each ``token``, of the ``sequence`` (GSPO, length-normalised) or its product
            (``sequence_product``: probability of the whole completion; use it with ``aggregate: sequence_mean``, and
            with ``sequence_sum`` where ``loss`` is ``cispo`` or ``importance_sampling``).
        clip_low: distance of the ratio's lower bound from 1.
        clip_high: distance of its upper bound from 1; larger than ``clip_low`` is DAPO's clip-higher.
        dual_clip: bound of the ratio where the advantage is negative (two-sided); ``None`` for none.
        importance_cap: largest importance weight of ``importance_sampling``; ``None`` for none.
        beyond_cap: weights above the cap are cut to it (``truncate``) or their tokens dropped (``mask``).
        kl_coef: weight of the KL to the reference; 0 needs no reference at all.
        kl_kind: its estimator; see :func:`lit_rl.functional.kl.kl_estimate` for what each one's gradient is.
        kl_in: ``loss`` adds the KL to the loss, ``reward`` takes it off each token's reward.
        entropy_coef: weight of an entropy bonus.
    """

    loss: Loss = "clipped"
    ratio_level: RatioLevel = "token"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    importance_cap: float | None = None
    beyond_cap: BeyondCap = "truncate"
    kl_coef: float = 0.0
    kl_kind: KLKind = "k3"
    kl_in: Literal["loss", "reward"] = "loss"
    entropy_coef: float = 0.0

    def __post_init__(self) -> None:
        if self.kl_coef < 0:
            raise ValueError(f"kl_coef must be >= 0, got {self.kl_coef}: a negative one drives the policy away")
        require_at_least(0, clip_high=self.clip_high)
        require_above(0, clip_low=self.clip_low)
        require_above(1, dual_clip=self.dual_clip)
        require_above(0, importance_cap=self.importance_cap)
        if self.clip_low >= 1 and self.loss == "clipped":
            raise ValueError(
                f"clip_low must be below 1, got {self.clip_low}: ratios are above 0, so nothing would be clipped; "
                "0.2 is usual"
            )

    @property
    def pulls_on_every_token(self) -> bool:
        """Whether rows without an advantage move weights too."""
        return (self.kl_coef != 0 and self.kl_in == "loss") or self.entropy_coef != 0

    def token_loss(
        self, logprobs: Tensor, old_logprobs: Tensor, entropy: Tensor | None, micro: Experience
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Loss of every token, and means to log.

        Args:
            logprobs: [n, T] nats. Carries the gradient.
            old_logprobs: [n, T] nats. No gradient.
            entropy: [n, T] nats, if there is a bonus. Carries the gradient.
            micro: n rows.

        Returns:
            [n, T] loss and scalar means over the tokens that count.
        """
        mask = micro.loss_mask
        loss = self._surrogate(logprobs, old_logprobs, micro)
        metrics = {"policy/approximate_kl": approximate_kl(logprobs.detach(), old_logprobs, mask)}
        if self.loss == "clipped":
            metrics["policy/clip_fraction"] = clip_fraction(
                logprobs.detach(),
                old_logprobs,
                micro.advantages,
                mask,
                clip_low=self.clip_low,
                clip_high=self.clip_high,
                level=self.ratio_level,
            )
        if micro.ref_logprobs is not None:
            kl = kl_estimate(logprobs, micro.ref_logprobs, kind=self.kl_kind)
            metrics["policy/kl_to_reference"] = masked_mean(kl.detach(), mask)
            if self.kl_in == "loss":
                loss = loss + self.kl_coef * kl
        if entropy is not None:
            metrics["policy/entropy"] = masked_mean(entropy.detach(), mask)
            loss = loss - self.entropy_coef * entropy
        return loss, metrics

    def _surrogate(self, logprobs: Tensor, old_logprobs: Tensor, micro: Experience) -> Tensor:
        advantages, mask, level = micro.advantages, micro.loss_mask, self.ratio_level
        match self.loss:
            case "naive":
                return policy_gradient_loss(logprobs, advantages)
            case "unclipped":
                return unclipped_loss(logprobs, old_logprobs, advantages, level=level, mask=mask)
            case "cispo":
                return cispo_loss(
                    logprobs,
                    old_logprobs,
                    advantages,
                    clip_low=self.clip_low,
                    clip_high=self.clip_high,
                    level=level,
                    mask=mask,
                )
            case "importance_sampling":
                return importance_sampling_loss(
                    logprobs,
                    micro.completions.sampler_logprobs.to(logprobs.dtype),
                    advantages,
                    cap=self.importance_cap,
                    beyond_cap=self.beyond_cap,
                    level=level,
                    mask=mask,
                )
            case "clipped":
                return clipped_surrogate_loss(
                    logprobs,
                    old_logprobs,
                    advantages,
                    clip_low=self.clip_low,
                    clip_high=self.clip_high,
                    dual_clip=self.dual_clip,
                    level=level,
                    mask=mask,
                )
