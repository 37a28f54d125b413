"""The policy's loss per token: surrogate, ratio, KL to the reference, and entropy.

Letters: n rows of a micro-batch, T completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from torch import Tensor

from lit_rl.errors import ArgumentError, UsageError
from lit_rl.math.kl import KLKind, kl_estimate, kl_penalised_rewards
from lit_rl.math.losses import (
    CISPO,
    Clipped,
    Correction,
    ImportanceSampling,
    Loss,
    Tokens,
    TruncatedWeights,
)
from lit_rl.math.masking import AggregateMode, masked_mean
from lit_rl.math.ratios import RatioLevel, approximate_kl
from lit_rl.signature_check import NonNegativeFloat, checked_dataclass
from lit_rl.types import Experience

KLPlacement = Literal["loss", "reward"]

APPROXIMATE_KL = "policy/approximate_kl"
"""Metric of each update: nats per token between the policy and ``old_logprobs``, where the rollout's updates began."""


class OldAndReferenceLogprobs(NamedTuple):
    """Log-probabilities [N, T] of old policy and reference, nats; 0 in rows left out, ``None`` if not needed."""

    old: Tensor | None
    ref: Tensor | None


@checked_dataclass
@dataclass(frozen=True)
class Objective:
    """Loss that the policy minimises.

    Args:
        loss: class that makes a token's loss, of :mod:`lit_rl.math.losses` or your own. By default the ratio is clipped
            to [1 - ``clip_low``, 1 + ``clip_high``]: tokens with a ratio above it and a positive advantage, or below it
            and a negative one, have no gradient; ``policy/clip_fraction`` counts them.
        ratio_level: ratio of each ``token``, of the ``sequence`` (GSPO, length-normalised), or of the whole
            completion's probabilities (``sequence_product``: use it with ``aggregate: sequence_mean``, and with
            ``sequence_sum`` where ``loss`` is ``CISPO`` or ``ImportanceSampling``).
        kl_coef: weight of the KL to the reference; 0 needs no reference at all.
        kl_kind: estimator of the KL; :func:`lit_rl.math.kl.kl_estimate` explains the gradients of all kinds. ``None``
            for an unbiased gradient: ``k1`` in the reward and ``k3_weighted`` in the loss, w * (r - 1 - log r) with r =
            reference / policy and w = policy / old policy.
        kl_in: ``loss`` adds the KL to the loss, ``reward`` subtracts it from each token's reward; ``None`` for
            ``reward`` in PPO, whose critic then predicts the KL, and ``loss`` in every other algorithm.
        entropy_coef: weight of an entropy bonus; a negative one drives the entropy down.
        correction: weight of each token's loss, the token's probability before the rollout's updates divided by that
            under the sampler, through a class such as :class:`lit_rl.math.losses.TruncatedWeights` (TIS) or
            :class:`lit_rl.math.losses.MaskedBand` (MIS, IcePop); ``None`` for no weights. With a correction, the old
            policy of the ratio is the policy before the updates, for stale rows too. ``auto`` is ``TruncatedWeights``
            if the engine holds its own weights or ``staleness`` is 1. It is ``None`` in other runs, and if ``loss`` or
            a filter of the samples (``top_k``, ``top_p``) stands in the way.
    """

    loss: Loss = Clipped()  # noqa: RUF009  # frozen
    ratio_level: RatioLevel = "token"
    kl_coef: NonNegativeFloat = 0.0
    kl_kind: KLKind | None = None
    kl_in: KLPlacement | None = None
    entropy_coef: float = 0.0
    correction: Correction | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.correction, Correction) and self.loss.reads_sampler_logprobs:
            raise UsageError(
                f"{type(self.loss).__name__} already applies importance weights, so the correction "
                f"{type(self.correction).__name__} would apply them twice: take another loss, or no correction"
            )
        if self.kl_in == "reward" and self.kl_kind not in (None, "k1"):
            raise UsageError(
                f"kl_kind {self.kl_kind} in the reward has a gradient that is not the KL's and may be opposite to it: "
                "set kl_kind to k1, or kl_in to loss"
            )

    def with_defaults(self, kl_in: KLPlacement, *, is_off_policy: bool) -> Objective:
        """Fill in the settings that depend on the algorithm and on the sampler."""
        filled = self if self.kl_in is not None else replace(self, kl_in=kl_in)
        if self.correction != "auto":
            return filled
        weigh = is_off_policy and not self.loss.reads_sampler_logprobs
        return replace(filled, correction=TruncatedWeights() if weigh else None)

    def refuse_uncorrected_kl_penalty(self) -> None:
        """Refuse a KL penalty in the reward that would use log-probabilities of older weights, not the policy's."""
        if self.subtracts_kl_from_rewards and self.correction is None:
            raise UsageError(
                "objective.kl_in reward with rows of older weights needs a correction; without one, the sampler's KL "
                "is penalised: set objective.correction, or kl_in to loss"
            )

    def refuse_wrong_aggregate(self, aggregate: AggregateMode) -> None:
        """Refuse combinations with the update's aggregate that have a wrong gradient."""
        if self.kl_coef and self.kl_in != "reward" and self.effective_kl_estimator == "k1":
            raise UsageError(
                "objective.kl_kind k1 in the loss has an expected gradient of 0: set "
                "objective.kl_kind to k3_weighted, or objective.kl_in to reward"
            )
        if self.ratio_level == "sequence_product":
            # Each of T token losses holds the whole completion's ratio, so their sum has the ratio's gradient T times.
            wanted = "sequence_sum" if isinstance(self.loss, CISPO | ImportanceSampling) else "sequence_mean"
            ours = type(self.loss).__module__ == Loss.__module__
            if aggregate != wanted and (ours or aggregate not in ("sequence_mean", "sequence_sum")):
                raise UsageError(
                    f"objective.ratio_level sequence_product with {type(self.loss).__name__} and update.aggregate "
                    f"{aggregate} multiplies the gradient of a completion by its length: set update.aggregate to "
                    f"{wanted}"
                )

    @property
    def effective_kl_estimator(self) -> KLKind:
        """Estimator of the KL to the reference."""
        return self.kl_kind or ("k1" if self.kl_in == "reward" else "k3_weighted")

    @property
    def sampler_logprobs_reader_name(self) -> str:
        """Name of the part that reads the sampler's log-probabilities, empty if none does."""
        if isinstance(self.correction, Correction):
            return type(self.correction).__name__
        return type(self.loss).__name__ if self.loss.reads_sampler_logprobs else ""

    @cached_property
    def subtracts_kl_from_rewards(self) -> bool:
        """True if the KL to the reference is subtracted from the rewards."""
        return self.kl_coef != 0 and self.kl_in == "reward"

    def token_rewards(self, credit: Tensor, logprobs: OldAndReferenceLogprobs, mask: Tensor) -> Tensor:
        """Return the tokens' rewards [N, T]: their credit, minus the KL if it is in the reward; 0 outside the mask."""
        if not self.subtracts_kl_from_rewards:
            return credit * mask
        old, ref = logprobs
        assert old is not None and ref is not None
        return kl_penalised_rewards(credit.to(old.dtype), old, ref, mask, coef=self.kl_coef)

    @cached_property
    def affects_every_token(self) -> bool:
        """True if even rows whose advantages are all 0 have gradients, from a KL or an entropy bonus."""
        with_kl = self.kl_coef != 0 and self.kl_in != "reward"
        return with_kl or self.has_entropy_bonus or self.loss.affects_every_token

    @cached_property
    def has_entropy_bonus(self) -> bool:
        """True if there is an entropy bonus."""
        return self.entropy_coef != 0

    def token_losses_and_metrics(
        self,
        logprobs: Tensor,
        old_logprobs: Tensor,
        entropy: Tensor | None,
        micro: Experience,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of every token, and means to log.

        Args:
            logprobs: [n, T] nats. Carries the gradient.
            old_logprobs: [n, T] nats under the policy before the rollout's updates, or the sampler's own for stale rows
                without a correction. No gradient.
            entropy: [n, T] nats, if there is a bonus. Carries the gradient.
            micro: n rows.

        Returns:
            [n, T] loss and scalar means over the tokens that count.
        """
        mask = micro.loss_mask
        tokens = Tokens(
            logprobs, old_logprobs, micro.completions.sampler_logprobs, micro.advantages, mask, self.ratio_level
        )
        loss = self.loss.token_losses(tokens)
        who = f"{type(self.loss).__name__}.token_losses"
        if loss.shape != logprobs.shape or (logprobs.requires_grad and not loss.requires_grad):
            got = f"{tuple(loss.shape)} {'with' if loss.requires_grad else 'without'} a gradient"
            raise ArgumentError(who, f"losses {tuple(logprobs.shape)}, with the gradient of tokens.logprobs", got)
        metrics = {APPROXIMATE_KL: approximate_kl(logprobs.detach(), old_logprobs, mask)}
        metrics |= self.loss.metrics(tokens)
        kl_weights: Tensor | float = 1.0  # from the sampler to where the updates began; kl_estimate goes on from there
        if isinstance(self.correction, Correction):
            weights = self.correction.weights(tokens).detach()
            shapes = tuple(loss.shape), (len(loss), 1)
            if weights.shape not in shapes:
                who, got = f"{type(self.correction).__name__}.weights", str(tuple(weights.shape))
                raise ArgumentError(who, f"{shapes[0]} or {shapes[1]}", got)
            weights = weights.expand_as(loss)
            loss = weights * loss
            kl_weights = weights
            metrics["correction/weight"] = masked_mean(weights, mask)
            metrics["correction/dropped_fraction"] = masked_mean((weights == 0).to(weights.dtype), mask)
        if micro.ref_logprobs is not None:
            kl = kl_estimate(logprobs, micro.ref_logprobs, kind=self.effective_kl_estimator, old_logprobs=old_logprobs)
            kl = kl_weights * kl
            metrics["policy/kl_to_reference"] = masked_mean(kl.detach(), mask)
            if self.kl_in != "reward":
                loss = loss + self.kl_coef * kl
        if entropy is not None:
            metrics["policy/entropy"] = masked_mean(entropy.detach(), mask)
            loss = loss - self.entropy_coef * entropy
        metrics["policy/loss"] = masked_mean(loss.detach(), mask)
        return loss, metrics
