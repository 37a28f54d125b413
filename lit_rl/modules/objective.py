"""The policy's loss per token: surrogate, ratio, KL to the reference, and entropy.

Letters: n rows of a micro-batch, T completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from lit_rl.arguments import ArgumentError, UsageError, require_above, require_at_least, shown, typed_group
from lit_rl.functional.kl import KLKind, adaptive_kl_coef, kl_estimate, kl_penalised_rewards
from lit_rl.functional.masking import AggregateMode, masked_mean
from lit_rl.functional.ratios import RatioLevel, approximate_kl
from lit_rl.losses import (
    CISPO,
    ClipCov,
    Clipped,
    Correction,
    ImportanceSampling,
    Loss,
    PolicyGradient,
    Tokens,
    TruncatedWeights,
)
from lit_rl.training.ranks import sum_over_ranks
from lit_rl.types import Experience

KLPlace = Literal["loss", "reward"]
_WIDEST_SEQUENCE_CLIP = 0.05

APPROXIMATE_KL = "policy/approximate_kl"
"""Metric of each update: nats per token between the policy and ``old_logprobs``, where the rollout's updates began."""


class Logprobs(NamedTuple):
    """[N, T] nats of the old policy and of the reference, 0 in rows that were left out; ``None`` where unread."""

    old: Tensor | None
    ref: Tensor | None


@typed_group
@dataclass(frozen=True)
class Objective:
    """Loss that the policy minimises.

    Args:
        loss: what a token's log-probability and advantage cost: a class of :mod:`lit_rl.losses` or one of your own.
        ratio_level: ratio of each ``token``, of the ``sequence`` (GSPO, length-normalised) or its product
            (``sequence_product``: probability of the whole completion; use it with ``aggregate: sequence_mean``, and
            with ``sequence_sum`` where ``loss`` is ``CISPO`` or ``ImportanceSampling``).
        kl_coef: weight of the KL to the reference; 0 needs no reference at all.
        kl_kind: its estimator; see :func:`lit_rl.functional.kl.kl_estimate` for what each one's gradient is. ``None``
            for the one whose gradient is that of the KL: ``k1`` in the reward and ``k3_weighted`` in the loss.
        kl_in: ``loss`` adds the KL to the loss, ``reward`` subtracts it from each token's reward; ``None`` for
            ``reward`` in PPO, whose critic then predicts it, and ``loss`` in every other algorithm.
        target_kl: move ``kl_coef`` so that the KL to the reference stays near this (nats per completion); ``None``
            leaves it. Needs the KL in the reward.
        entropy_coef: weight of an entropy bonus; a negative one drives the entropy down.
        clip_cov: leave out tokens that lower the entropy most, see :class:`lit_rl.losses.ClipCov`.
        correction: weigh each token's loss by its probability when the rollout's updates begin over its probability
            under the sampler, by a class such as :class:`lit_rl.losses.TruncatedWeights` (TIS) or
            :class:`lit_rl.losses.MaskedBand` (MIS, IcePop); ``None`` for no weights. The old policy of the loss's ratio
            is then the one at that beginning, for stale rows too. ``auto`` is ``TruncatedWeights`` where other weights
            may have sampled, by an engine that holds its own or by ``staleness``, and no weights elsewhere.
    """

    loss: Loss = Clipped()  # noqa: RUF009  # frozen
    ratio_level: RatioLevel = "token"
    kl_coef: float = 0.0
    kl_kind: KLKind | None = None
    kl_in: KLPlace | None = None
    target_kl: float | None = None
    entropy_coef: float = 0.0
    clip_cov: ClipCov | None = None
    correction: Correction | Literal["auto"] | None = "auto"

    def __post_init__(self) -> None:
        require_at_least(0, self, kl_coef=self.kl_coef)
        if isinstance(self.correction, Correction) and self.loss.reads_sampler_logprobs:
            raise UsageError(
                f"{type(self.loss).__name__} weighs by the sampler's probabilities itself, got it beside the "
                f"correction {type(self.correction).__name__}: leave one of them out"
            )
        require_above(0, self, target_kl=self.target_kl)
        if self.kl_in == "reward" and self.kl_kind not in (None, "k1"):
            raise UsageError(
                f"kl_kind {self.kl_kind} in the reward has not the gradient of the KL, and far from the reference the "
                "opposite one: set kl_kind to k1, or kl_in to loss"
            )
        if self.target_kl is not None and (self.kl_coef == 0 or self.kl_in == "loss"):
            raise UsageError(
                f"target_kl moves the KL coefficient of the reward, got kl_coef={self.kl_coef} and kl_in={self.kl_in}: "
                "set kl_coef above 0 and kl_in to reward"
            )

    def with_defaults(self, kl_in: KLPlace, *, is_off_policy: bool) -> Objective:
        """Fill in what depends on the algorithm and on what samples.

        Args:
            kl_in: place of the KL by default.
            is_off_policy: whether other weights than the policy's may sample, from the whole distribution.
        """
        filled = self if self.kl_in is not None else replace(self, kl_in=kl_in)
        if self.correction != "auto":
            return filled
        weigh = is_off_policy and not self.loss.reads_sampler_logprobs
        return replace(filled, correction=TruncatedWeights() if weigh else None)

    def check(self, aggregate: AggregateMode, steps: int, kl_in: KLPlace = "loss") -> list[str]:
        """Compare the parts with each other and with the update that they are for.

        Args:
            aggregate: how token losses become one number.
            steps: optimizer steps of one rollout.
            kl_in: where the algorithm has the KL by default.

        Returns:
            Warnings: settings that are legal and probably unintended, each on one line with what to set.

        Raises:
            UsageError: the combination has a wrong gradient.
        """
        name = type(self.loss).__name__
        if self.kl_coef and self.kl_in != "reward" and self.kl_estimator == "k1":
            raise UsageError(
                "objective.kl_kind k1 in the loss has an expected gradient of 0 under the policy that sampled: set it "
                "to k3_weighted, or objective.kl_in to reward"
            )
        if self.ratio_level == "sequence_product":
            # Each of T token losses holds the ratio of the whole completion, so their sum has its gradient T times.
            wanted = "sequence_sum" if isinstance(self.loss, CISPO | ImportanceSampling) else "sequence_mean"
            ours = type(self.loss).__module__ == Loss.__module__
            if aggregate != wanted and (ours or aggregate not in ("sequence_mean", "sequence_sum")):
                raise UsageError(
                    f"objective.ratio_level sequence_product with {name} and update.aggregate {aggregate} multiplies "
                    f"the gradient of a completion by its length: set update.aggregate to {wanted}"
                )
        doubts = []
        if isinstance(self.loss, Clipped) and self.loss.clip_high >= 1:
            doubts.append(
                f"objective.loss.clip_high is the distance of the upper bound from 1, got {self.loss.clip_high:g}: "
                f"ratios up to {1 + self.loss.clip_high:g} count; write 0.28 for a bound of 1.28"
            )
        if self.ratio_level == "sequence":
            if aggregate != "sequence_mean":
                doubts.append(
                    f"objective.ratio_level sequence is GSPO's, which weighs completions alike, and update.aggregate "
                    f"is {aggregate}: set it to sequence_mean"
                )
            if isinstance(self.loss, Clipped) and max(self.loss.clip_low, self.loss.clip_high) > _WIDEST_SEQUENCE_CLIP:
                doubts.append(
                    f"objective.loss clips at {self.loss.clip_low:g} and {self.loss.clip_high:g}, which a "
                    "length-normalised ratio hardly reaches: GSPO has clip_low 0.0003 and clip_high 0.0004"
                )
        if isinstance(self.loss, PolicyGradient) and steps > 1:
            doubts.append(
                f"objective.loss PolicyGradient has no ratio, so only the first of the {steps} updates of a rollout is "
                "on-policy: set update.epochs and update.minibatches to 1, or the loss to Clipped"
            )
        if self.entropy_coef < 0:
            doubts.append(
                f"objective.entropy_coef is {self.entropy_coef:g}, which drives the entropy down: set it above 0 for a "
                "bonus"
            )
        unread = [f"kl_kind is {self.kl_kind}"] * (self.kl_kind is not None)
        unread += [f"kl_in is {self.kl_in}"] * (self.kl_in not in (None, kl_in))
        if unread and not self.kl_coef:
            doubts.append(f"objective.{' and '.join(unread)}, but kl_coef is 0, so there is no KL: set it above 0")
        return doubts

    @property
    def kl_estimator(self) -> KLKind:
        """Estimator of the KL to the reference."""
        return self.kl_kind or ("k1" if self.kl_in == "reward" else "k3_weighted")

    @property
    def compares_with_sampler(self) -> str:
        """Name of the part that reads the sampler's log-probabilities, empty if none does."""
        if isinstance(self.correction, Correction):
            return type(self.correction).__name__
        return type(self.loss).__name__ if self.loss.reads_sampler_logprobs else ""

    @property
    def penalises_rewards(self) -> bool:
        """True if the KL to the reference is subtracted from the rewards."""
        return self.kl_coef != 0 and self.kl_in == "reward"

    @property
    def pulls_on_every_token(self) -> bool:
        """True if rows whose advantages are all 0 have gradients too, of a KL or an entropy bonus."""
        with_kl = self.kl_coef != 0 and self.kl_in != "reward"
        return with_kl or self.reads_entropy or self.loss.pulls_on_every_token

    @property
    def reads_entropy(self) -> bool:
        """True if there is an entropy bonus."""
        return self.entropy_coef != 0

    def token_loss(
        self,
        logprobs: Tensor,
        old_logprobs: Tensor,
        entropy: Tensor | None,
        micro: Experience,
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
        loss = self.loss.token_losses(tokens)
        who = f"{type(self.loss).__name__}.token_losses"
        if not isinstance(loss, Tensor) or loss.shape != logprobs.shape:
            got = str(tuple(loss.shape)) if isinstance(loss, Tensor) else shown(loss)
            raise ArgumentError(who, f"one loss per token, {tuple(logprobs.shape)}", got)
        if logprobs.requires_grad and not loss.requires_grad:
            raise ArgumentError(who, "losses with a gradient", "none", "compute them from tokens.logprobs as it is")
        metrics = {APPROXIMATE_KL: approximate_kl(logprobs.detach(), old_logprobs, mask)}
        metrics |= self.loss.metrics(tokens)
        if isinstance(self.correction, Correction):
            weights = self._weights(self.correction, tokens)
            loss = weights * loss
            metrics["correction/weight"] = masked_mean(weights, mask)
            metrics["correction/dropped_fraction"] = masked_mean((weights == 0).to(weights.dtype), mask)
        if micro.ref_logprobs is not None:
            kl = kl_estimate(logprobs, micro.ref_logprobs, kind=self.kl_estimator, old_logprobs=old_logprobs)
            metrics["policy/kl_to_reference"] = masked_mean(kl.detach(), mask)
            if self.kl_in != "reward":
                loss = loss + self.kl_coef * kl
        if entropy is not None:
            metrics["policy/entropy"] = masked_mean(entropy.detach(), mask)
            loss = loss - self.entropy_coef * entropy
        metrics["policy/loss"] = masked_mean(loss.detach(), mask)
        return loss, metrics

    @staticmethod
    def _weights(correction: Correction, tokens: Tokens) -> Tensor:
        """[n, T] weights of the tokens, constants."""
        weights, wanted = correction.weights(tokens), tuple(tokens.logprobs.shape)
        if weights.shape != wanted:
            who = f"{type(correction).__name__}.weights"
            raise ArgumentError(who, f"one weight per token, {wanted}", str(tuple(weights.shape)))
        return weights.detach()


HORIZON_COMPLETIONS = 10_000
"""Speed of an adaptive coefficient: it changes by at most its own size per this many completions."""


class KLPenalty:
    """Subtracts the KL from the credit of each token; with a target the coefficient follows it.

    Args:
        objective: with its coefficient, and whether the KL belongs into the reward.

    Attributes:
        coef: reward units per nat, as it is now.

    Source:
        adaptive coefficient: Ziegler et al. 2019, section 2.2, https://arxiv.org/abs/1909.08593
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.coef = objective.kl_coef

    def penalise(self, credit: Tensor, logprobs: Logprobs, mask: Tensor) -> Tensor:
        """Token rewards [N, T], 0 outside the mask; all ranks call together.

        Args:
            credit: [N, T] reward units.
            logprobs: of the N rows, under old policy and reference.
            mask: [N, T] bool, tokens that have a reward.
        """
        if not self.objective.penalises_rewards:
            return credit * mask
        old, ref = logprobs
        assert old is not None and ref is not None
        token_rewards = kl_penalised_rewards(credit.to(old.dtype), old, ref, mask, coef=self.coef)
        if self.objective.target_kl is not None:
            self._adapt(old - ref, mask, self.objective.target_kl)
        return token_rewards

    def _adapt(self, log_ratio: Tensor, mask: Tensor, target: float) -> None:
        """Move the coefficient towards the target, the same on all ranks."""
        kl = (log_ratio * mask).sum()
        total = sum_over_ranks(torch.stack([kl, mask.any(-1).sum().to(kl.dtype)]))
        self.coef = adaptive_kl_coef(
            self.coef,
            float(total[0] / total[1].clamp(min=1)),
            target_kl=target,
            num_completions=int(total[1]),
            horizon_completions=HORIZON_COMPLETIONS,
        )
