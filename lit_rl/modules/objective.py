"""The policy's loss per token: which surrogate, which ratio, and what keeps the policy near its reference.

Letters: n rows of a micro-batch, T completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from torch import Tensor

from lit_rl.functional.kl import KLKind, kl_estimate, kl_penalised_rewards
from lit_rl.functional.masking import masked_mean
from lit_rl.functional.ratios import BeyondCap, RatioLevel, approximate_kl
from lit_rl.losses import (
    CISPO,
    Clipped,
    Correction,
    ImportanceSampling,
    Loss,
    PolicyGradient,
    Tokens,
    Unclipped,
)
from lit_rl.types import Experience

APPROXIMATE_KL = "policy/approximate_kl"
"""Metric of each update: nats per token between the policy and the one that sampled."""

LossName = Literal["clipped", "unclipped", "naive", "cispo", "importance_sampling"]

_CLASSES: dict[str, type[Loss]] = {
    "clipped": Clipped,
    "unclipped": Unclipped,
    "naive": PolicyGradient,
    "cispo": CISPO,
    "importance_sampling": ImportanceSampling,
}
_ARGUMENTS: dict[str, dict[str, str]] = {
    "clipped": {"clip_low": "clip_low", "clip_high": "clip_high", "dual_clip": "dual_clip"},
    "cispo": {"clip_low": "clip_low", "clip_high": "clip_high"},
    "importance_sampling": {"importance_cap": "cap", "beyond_cap": "beyond_cap"},
}
"""What each loss that is given by name takes from the objective, and what its class calls it."""

_OF_NAMES = ("clip_low", "clip_high", "dual_clip", "importance_cap", "beyond_cap")
_UNLESS_GIVEN: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.2, "beyond_cap": "truncate"}
"""Values that hold unless given. Configurations written before 0.3 hold them beside every loss."""


@dataclass(frozen=True)
class Objective:
    """What the policy minimises.

    Args:
        loss: a class of :mod:`lit_rl.losses` or one of your own, with arguments of its own; or by name ``clipped``
            (PPO, GRPO), ``unclipped`` (ratio times advantage), ``naive`` (plain policy gradient, no ratio), ``cispo``
            (clipped weight, every token keeps its gradient) or ``importance_sampling`` (p / q with the sampler's own
            log-probabilities).
        ratio_level: ratio of each ``token``, of the ``sequence`` (GSPO, length-normalised) or its product
            (``sequence_product``: probability of the whole completion; use it with ``aggregate: sequence_mean``, and
            with ``sequence_sum`` where ``loss`` is ``cispo`` or ``importance_sampling``).
        clip_low: of ``clipped`` and ``cispo`` by name: distance of the ratio's lower bound from 1; ``None`` for 0.2.
        clip_high: distance of its upper bound from 1; ``None`` for 0.2. Larger than ``clip_low`` is DAPO's clip-higher.
        dual_clip: of ``clipped`` by name: bound of the ratio where the advantage is negative (two-sided); ``None`` for
            none.
        importance_cap: of ``importance_sampling`` by name: largest importance weight; ``None`` for none.
        beyond_cap: weights above the cap are cut to it (``truncate``) or their tokens dropped (``mask``); ``None`` for
            ``truncate``.
        kl_coef: weight of the KL to the reference; 0 needs no reference at all.
        kl_kind: its estimator; see :func:`lit_rl.functional.kl.kl_estimate` for what each one's gradient is.
        kl_in: ``loss`` adds the KL to the loss, ``reward`` subtracts it from each token's reward.
        entropy_coef: weight of an entropy bonus.
        correction: weigh each token's loss by how likely it is now over how likely the sampler found it, by a class
            such as :class:`lit_rl.losses.TruncatedWeights`; ``None`` for no weights. Ratios in the loss are then those
            to the policy at the beginning of the rollout's updates, for rows that older weights sampled too.
    """

    loss: Loss | LossName = "clipped"
    ratio_level: RatioLevel = "token"
    clip_low: float | None = None
    clip_high: float | None = None
    dual_clip: float | None = None
    importance_cap: float | None = None
    beyond_cap: BeyondCap | None = None
    kl_coef: float = 0.0
    kl_kind: KLKind = "k3"
    kl_in: Literal["loss", "reward"] = "loss"
    entropy_coef: float = 0.0
    correction: Correction | None = None

    def __post_init__(self) -> None:
        if self.kl_coef < 0:
            raise ValueError(f"kl_coef must be >= 0, got {self.kl_coef}: a negative one drives the policy away")
        if self.correction is not None and self.surrogate.reads_sampler_logprobs:
            raise ValueError(
                f"{type(self.surrogate).__name__} weighs by the sampler's probabilities itself, got it beside the "
                f"correction {type(self.correction).__name__}: leave one of them out"
            )
        _ = self.surrogate

    @cached_property
    def surrogate(self) -> Loss:
        """The loss as an object.

        Raises:
            ValueError: an argument that the loss does not have, or a value out of range.
        """
        given = {name: value for name in _OF_NAMES if (value := getattr(self, name)) is not None}
        if isinstance(self.loss, Loss):
            if given:
                name, kind = next(iter(given)), type(self.loss).__name__
                raise ValueError(
                    f"{name} goes with a loss that is given by name, got it beside the class {kind}: give the class "
                    f"what it takes, as loss: {{class_path: {kind}, init_args: {{...}}}}"
                )
            return self.loss
        taken = _ARGUMENTS.get(self.loss, {})
        for name, value in given.items():
            if name not in taken and value != _UNLESS_GIVEN.get(name):
                losses = " and ".join(loss for loss, names in _ARGUMENTS.items() if name in names)
                raise ValueError(f"{name} is an argument of the losses {losses}, got {value} beside loss {self.loss}")
        values = _UNLESS_GIVEN | given
        return _CLASSES[self.loss](**{own: values[name] for name, own in taken.items() if name in values})

    @property
    def compares_with_sampler(self) -> str:
        """Name of what reads the sampler's log-probabilities, empty if nothing does."""
        if self.correction is not None:
            return type(self.correction).__name__
        return type(self.surrogate).__name__ if self.surrogate.reads_sampler_logprobs else ""

    @property
    def penalises_rewards(self) -> bool:
        """Whether the KL to the reference is subtracted from the rewards."""
        return self.kl_coef != 0 and self.kl_in == "reward"

    @property
    def pulls_on_every_token(self) -> bool:
        """Whether rows without an advantage move weights too."""
        with_kl = self.kl_coef != 0 and self.kl_in == "loss"
        return with_kl or self.entropy_coef != 0 or self.surrogate.pulls_on_every_token

    def penalised(
        self,
        credit: Tensor,
        old_logprobs: Tensor | None,
        ref_logprobs: Tensor | None,
        mask: Tensor,
        coef: float | None = None,
    ) -> Tensor:
        """Subtract the KL to the reference from the credit of each token, if it belongs there.

        Args:
            credit: [N, T] reward units.
            old_logprobs: [N, T] nats under the policy that sampled; not ``None`` if the KL is in the reward.
            ref_logprobs: [N, T] nats under the reference; likewise.
            mask: [N, T] bool, tokens that have a reward.
            coef: reward units per nat; ``None`` for ``kl_coef``.

        Returns:
            [N, T] token rewards, 0 outside the mask.
        """
        if not self.penalises_rewards:
            return credit * mask
        assert old_logprobs is not None and ref_logprobs is not None
        return kl_penalised_rewards(
            credit.to(old_logprobs.dtype),
            old_logprobs,
            ref_logprobs,
            mask,
            coef=self.kl_coef if coef is None else coef,
            kind=self.kl_kind,
        )

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

        Raises:
            ValueError: a loss of the user's own returned something that is not [n, T].
        """
        mask = micro.loss_mask
        tokens = Tokens(
            logprobs, old_logprobs, micro.completions.sampler_logprobs, micro.advantages, mask, self.ratio_level
        )
        loss = self.surrogate.token_losses(tokens)
        if loss.shape != logprobs.shape:
            raise ValueError(
                f"{type(self.surrogate).__name__}.token_losses must return one loss per token, "
                f"{tuple(logprobs.shape)}, got {tuple(loss.shape)}"
            )
        metrics = {APPROXIMATE_KL: approximate_kl(logprobs.detach(), old_logprobs, mask)}
        metrics |= self.surrogate.metrics(tokens)
        if self.correction is not None:
            weights = self._weights(self.correction, tokens)
            loss = weights * loss
            metrics["correction/weight"] = masked_mean(weights, mask)
            metrics["correction/dropped_fraction"] = masked_mean((weights == 0).to(weights.dtype), mask)
        if micro.ref_logprobs is not None:
            kl = kl_estimate(logprobs, micro.ref_logprobs, kind=self.kl_kind)
            metrics["policy/kl_to_reference"] = masked_mean(kl.detach(), mask)
            if self.kl_in == "loss":
                loss = loss + self.kl_coef * kl
        if entropy is not None:
            metrics["policy/entropy"] = masked_mean(entropy.detach(), mask)
            loss = loss - self.entropy_coef * entropy
        metrics["policy/loss"] = masked_mean(loss.detach(), mask)
        return loss, metrics

    @staticmethod
    def _weights(correction: Correction, tokens: Tokens) -> Tensor:
        """[n, T] weights of the tokens, constants."""
        sampled = tokens.sampler_logprobs.to(tokens.old_logprobs.dtype)
        weights = correction.weights(tokens.old_logprobs, sampled, tokens.mask)
        if weights.shape != sampled.shape:
            raise ValueError(
                f"{type(correction).__name__}.weights must return one weight per token, {tuple(sampled.shape)}, got "
                f"{tuple(weights.shape)}"
            )
        return weights.detach()
