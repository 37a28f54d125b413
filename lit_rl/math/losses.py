"""Losses of tokens, and corrections: factors for tokens that an older policy, or another engine, sampled.

A loss of the policy is a class with one method, which returns one number per token. A correction is such a class too;
its numbers multiply any such loss. :class:`lit_rl.modules.Objective` adds mask, mean, KL and entropy.

Letters: n rows of a micro-batch, T completion tokens. Log-probabilities are nats; a loss has the unit of the
advantage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from lit_rl.errors import ArgumentError
from lit_rl.math.masking import masked_mean
from lit_rl.math.ratios import RatioLevel, importance_weights, log_ratio
from lit_rl.signature_check import ArgumentChecks, PositiveFloat, PositiveShare, Share, ValueLimit

__all__ = [
    "CISPO",
    "Clipped",
    "Correction",
    "ImportanceSampling",
    "Loss",
    "MaskedBand",
    "PolicyGradient",
    "SequenceMask",
    "Tokens",
    "TruncatedWeights",
    "Unclipped",
]

AtLeastOne = Annotated[float, ValueLimit("at least 1", lambda value: value >= 1)]


@dataclass(frozen=True)
class Tokens:
    """Inputs of a loss.

    Args:
        logprobs: [n, T] nats of the sampled tokens under the policy. Carries the gradient.
        old_logprobs: [n, T] nats before the first update; see ``Experience.old_logprobs``.
        sampler_logprobs: [n, T] nats that the sampler itself reported; see :attr:`Loss.reads_sampler_logprobs`.
        advantages: [n, T] or [n, 1]. No gradient.
        mask: [n, T] bool, tokens that count.
        level: level of the ratio, see :func:`lit_rl.math.ratios.log_ratio`.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    sampler_logprobs: Tensor
    advantages: Tensor
    mask: Tensor
    level: RatioLevel = "token"

    def __post_init__(self) -> None:
        fits = self.advantages.shape in (self.logprobs.shape, (self.logprobs.shape[0], 1))
        if not fits or self.advantages.requires_grad:
            raise ArgumentError(
                "advantages",
                f"constants [n, T] or [n, 1] beside logprobs {[*self.logprobs.shape]}",
                f"{[*self.advantages.shape]}{' with a gradient' if self.advantages.requires_grad else ''}",
                "one per completion is advantages[:, None]",
            )

    @property
    def log_ratio(self) -> Tensor:
        """Log ratio [n, T] of policy to old policy, nats, at the objective's level; carries the gradient."""
        return log_ratio(self.logprobs, self.old_logprobs, level=self.level, mask=self.mask)


class Loss(ArgumentChecks, ABC):
    """Base class of a policy's loss; subclasses implement :meth:`token_losses`.

    YAML's ``init_args`` are the constructor's arguments.
    """

    reads_sampler_logprobs: ClassVar[bool] = False
    """True if the sampler's log-probabilities are compared with the policy's. Sampling with top-k or top-p is then
    refused, because filtered probabilities are spread over fewer tokens."""

    affects_every_token: ClassVar[bool] = False
    """True if tokens with advantage 0 move weights too. If not, rows without an advantage skip the forward pass."""

    @abstractmethod
    def token_losses(self, tokens: Tokens) -> Tensor:
        """Return the loss [n, T] of each token, in units of the advantage; values outside the mask do not matter."""

    def metrics(self, tokens: Tokens) -> dict[str, Tensor]:
        """Return means over the tokens that count, to log without gradient, such as ``policy/clip_fraction``."""
        return {}


@dataclass(frozen=True)
class PolicyGradient(Loss):
    """Plain policy gradient: imitate each token in proportion to its advantage (``naive`` in the lecture).

        loss = -A * logprobs

    On-policy its gradient is that of the expected reward. For later updates on the same samples, use a loss with a
    ratio.

    Source:
        REINFORCE: Williams 1992, https://doi.org/10.1007/BF00992696

    Example:
        >>> new = torch.tensor([[-0.5, -2.0]])
        >>> tokens = Tokens(new, new, new, advantages=torch.tensor([[2.0]]), mask=torch.ones(1, 2).bool())
        >>> PolicyGradient().token_losses(tokens)
        tensor([[1., 4.]])
    """

    def token_losses(self, tokens: Tokens) -> Tensor:
        return -tokens.advantages * tokens.logprobs


@dataclass(frozen=True)
class Unclipped(Loss):
    """Ratio times advantage, without any clip.

        loss = -ratio * A,   ratio = exp(tokens.log_ratio)

    The ratio in the lecture divides log-probabilities; this ratio divides probabilities.

    Source:
        conservative policy iteration: Schulman et al. 2017, eq. 6, https://arxiv.org/abs/1707.06347

    Example:
        >>> new, old = torch.tensor([[0.5, 0.0]]), torch.zeros(1, 2)
        >>> Unclipped().token_losses(Tokens(new, old, old, torch.ones(1, 1), torch.ones(1, 2).bool()))
        tensor([[-1.6487, -1.0000]])
    """

    def token_losses(self, tokens: Tokens) -> Tensor:
        return -tokens.log_ratio.exp() * tokens.advantages


@dataclass(frozen=True)
class Clipped(Loss):
    """The clipped surrogate of PPO and GRPO: no gradient once the ratio has left its range.

        ratio = exp(tokens.log_ratio)
        loss  = -min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A)
        loss  = min(loss, -dual_clip * A)        where A < 0, with dual_clip

    The gradient of a token vanishes once its ratio has left the clip range in the direction its advantage pushes. If
    A < 0, this does not bound a ratio far above 1, but ``dual_clip`` does (the two-sided clip).

    Args:
        clip_low: distance of the ratio's lower bound from 1; 1 means no lower bound.
        clip_high: distance of the ratio's upper bound from 1; larger than ``clip_low`` is DAPO's clip-higher.
        dual_clip: largest ratio that counts where the advantage is negative; must be above 1, ``None`` for no limit.

    Source:
        Schulman et al. 2017, eq. 7, https://arxiv.org/abs/1707.06347
        separate bounds: Yu et al. 2025, eq. 10, https://arxiv.org/abs/2503.14476
        dual clip: Ye et al. 2020, https://arxiv.org/abs/1912.09729
        ratios of sequences: Zheng et al. 2025, eq. 5, https://arxiv.org/abs/2507.18071

    Example:
        >>> new, old = torch.tensor([[0.5, 0.0]]), torch.zeros(1, 2)  # ratios 1.65 and 1.00
        >>> tokens = Tokens(new, old, old, advantages=torch.ones(1, 1), mask=torch.ones(1, 2).bool())
        >>> Clipped().token_losses(tokens), Clipped().metrics(tokens)
        (tensor([[-1.2000, -1.0000]]), {'policy/clip_fraction': tensor(0.5000)})
    """

    clip_low: PositiveShare = 0.2
    clip_high: PositiveFloat = 0.2
    dual_clip: Annotated[float, ValueLimit("a number above 1", lambda clip: clip > 1)] | None = None

    def token_losses(self, tokens: Tokens) -> Tensor:
        ratio = tokens.log_ratio.exp()
        clipped = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        objective = torch.minimum(ratio * tokens.advantages, clipped * tokens.advantages)
        if self.dual_clip is not None:
            bounded = torch.maximum(objective, self.dual_clip * tokens.advantages)
            objective = torch.where(tokens.advantages < 0, bounded, objective)
        return -objective

    def metrics(self, tokens: Tokens) -> dict[str, Tensor]:
        """Return the share of tokens whose gradient the clip removed; 0 on a rollout's first update but for stale rows.

        mean over tokens of [ratio > 1 + clip_high and A > 0] or [A < 0 and (ratio < 1 - clip_low or > dual_clip)]
        """
        ratio = tokens.log_ratio.detach().exp()
        too_high = (ratio > 1 + self.clip_high) & (tokens.advantages > 0)
        too_low = (ratio < 1 - self.clip_low) & (tokens.advantages < 0)
        if self.dual_clip is not None:
            too_high = too_high | (ratio > self.dual_clip) & (tokens.advantages < 0)
        return {"policy/clip_fraction": masked_mean((too_high | too_low).to(ratio.dtype), tokens.mask)}


@dataclass(frozen=True)
class CISPO(Loss):
    """Policy gradient with a clipped importance weight, which keeps every token's gradient.

        loss = -w * A * logprobs,   w = stop_gradient(clip(ratio, 1 - clip_low, 1 + clip_high))

    Unlike in the clipped surrogate, no token loses its gradient: tokens that became likelier are still trained.

    Args:
        clip_high: distance of the weight's upper bound from 1. The paper tunes it and names no value.
        clip_low: distance of the weight's lower bound from 1; ``None`` for no bound, as in the paper's runs.

    Source:
        MiniMax 2025, eq. 4 and 5, https://arxiv.org/abs/2506.13585

    Example:
        >>> new, old = torch.tensor([[-1.0]]), torch.tensor([[-2.0]])  # ratio 2.72, weight 1.2
        >>> CISPO(clip_high=0.2).token_losses(Tokens(new, old, old, torch.ones(1, 1), torch.ones(1, 1).bool()))
        tensor([[1.2000]])
    """

    clip_high: PositiveFloat
    clip_low: PositiveShare | None = None

    def token_losses(self, tokens: Tokens) -> Tensor:
        weights = tokens.log_ratio.detach().exp()
        weights = weights.clamp(0.0 if self.clip_low is None else 1 - self.clip_low, 1 + self.clip_high)
        return -weights * tokens.advantages * tokens.logprobs


@dataclass(frozen=True)
class ImportanceSampling(Loss):
    """Policy gradient with plain importance weights p / q, where the sampler itself reported q (TIS with a cap).

        loss = -w * A * logprobs,   w = importance_weights(logprobs, sampler_logprobs)

    Without a cap, the gradient of this loss is that of -(p / q) * A; the value is not.

    Args:
        cap: largest weight; ``None`` for none.

    Source:
        truncation: Ionides 2008, https://doi.org/10.1198/106186008X320456

    Example:
        >>> policy, sampler = torch.tensor([[0.5]]).log(), torch.tensor([[0.1]]).log()  # weight 5
        >>> tokens = Tokens(policy, policy, sampler, advantages=torch.ones(1, 1), mask=torch.ones(1, 1).bool())
        >>> ImportanceSampling(cap=2.0).token_losses(tokens)
        tensor([[1.3863]])
    """

    reads_sampler_logprobs: ClassVar[bool] = True

    cap: PositiveFloat | None = None

    def token_losses(self, tokens: Tokens) -> Tensor:
        weights = importance_weights(
            tokens.logprobs,
            tokens.sampler_logprobs.to(tokens.logprobs.dtype),
            cap=self.cap,
            level=tokens.level,
            mask=tokens.mask,
        )
        return -weights * tokens.advantages * tokens.logprobs


class Correction(ArgumentChecks, ABC):
    """Factor for each token's loss, from p / q; a subclass implements :meth:`weights`.

    p is the policy's probability when a rollout's updates begin, from the training forward; q is the probability that
    the sampler reported, with older weights or with the same weights computed in another way. The weight multiplies a
    token's policy loss, whichever loss that is, and the token's KL to the reference; the weight carries no gradient.
    The entropy is not weighted. A token with weight 0 still counts in the mean.
    """

    @abstractmethod
    def weights(self, tokens: Tokens) -> Tensor:
        """Return weights [n, T], unitless; values outside the mask do not matter.

        Args:
            tokens: ``old_logprobs`` are those of p, ``sampler_logprobs`` those of q.
        """


@dataclass(frozen=True)
class TruncatedWeights(Correction):
    """p / q, cut to a largest value: truncated importance sampling (TIS).

        w = min(p / q, cap)

    Args:
        cap: largest weight.
        level: ``token`` for the ratio of each token; ``sequence_product`` for that of the whole completion, which is
            unbiased without the cap; ``sequence`` for the geometric mean of the tokens' ratios. See
            :func:`lit_rl.math.ratios.log_ratio`.

    Source:
        Ionides 2008, https://doi.org/10.1198/106186008X320456

    Example:
        >>> policy, sampler = torch.tensor([[0.8, 0.3]]).log(), torch.tensor([[0.2, 0.4]]).log()  # 4, 3/4
        >>> tokens = Tokens(policy, policy, sampler, torch.ones(1, 1), torch.ones(1, 2).bool())
        >>> TruncatedWeights().weights(tokens), TruncatedWeights(5.0, "sequence_product").weights(tokens)
        (tensor([[2.0000, 0.7500]]), tensor([[3., 3.]]))
    """

    cap: PositiveFloat = 2.0
    level: RatioLevel = "token"

    def weights(self, tokens: Tokens) -> Tensor:
        return _sampler_mismatch_weights(tokens, self.cap, self.level)


@dataclass(frozen=True)
class MaskedBand(Correction):
    """p / q if it lies in a band, else 0: masked importance sampling (MIS), IcePop.

        w = p / q if low <= p / q <= high else 0

    Per token this is IcePop; at ``sequence_product`` it is MIS of whole completions, usually with ``low`` 0.

    Args:
        low: smallest weight that is kept, at most 1.
        high: largest weight that is kept, at least 1; both defaults are IcePop's.
        level: ``token`` for the ratio of each token; ``sequence_product`` for that of the whole completion;
            ``sequence`` for the geometric mean of the tokens' ratios. See :func:`lit_rl.math.ratios.log_ratio`.
        negative_only: drop only tokens with a negative advantage; other tokens outside the band get the band's nearest
            border as weight.

    Source:
        IcePop: Ling Team 2025, https://arxiv.org/abs/2510.18855

    Example:
        >>> policy, sampler = torch.tensor([[0.8, 0.3]]).log(), torch.tensor([[0.2, 0.4]]).log()
        >>> tokens = Tokens(policy, policy, sampler, torch.ones(1, 1), torch.ones(1, 2).bool())
        >>> MaskedBand(high=2.0).weights(tokens), MaskedBand(high=2.0, negative_only=True).weights(tokens)
        (tensor([[0.0000, 0.7500]]), tensor([[2.0000, 0.7500]]))
    """

    low: Share = 0.5
    high: AtLeastOne = 5.0
    level: RatioLevel = "token"
    negative_only: bool = False

    def weights(self, tokens: Tokens) -> Tensor:
        weights = _sampler_mismatch_weights(tokens, None, self.level)
        kept = _in_band_mask(weights, self, tokens)
        return torch.where(kept, weights.clamp(self.low, self.high), torch.zeros_like(weights))


@dataclass(frozen=True)
class SequenceMask(Correction):
    """Keep completions whose mean ratio lies in a band, and drop the others as a whole.

        g_i  = exp((1 / n_i) sum_t m_it log(p_it / q_it))       geometric mean over the completion's n_i tokens
        w_it = (min(p_it / q_it, cap) or, without a cap, 1) if low <= g_i <= high else 0

    With ``negative_only``, ``low: 0.6`` and ``high: .inf`` this is the off-policy sequence mask of DeepSeek-V3.2: a
    completion that the sampler liked much better than the policy is not pushed down further. -log g_i estimates the KL
    of the sampler to the policy in nats per token, so the paper's threshold d is ``low`` = exp(-d). The paper compares
    with the policy of each update, not with the policy before the updates.

    Args:
        low: smallest mean that is kept, at most 1.
        high: largest mean that is kept, at least 1.
        cap: largest weight p / q of the tokens of a completion that is kept; ``None`` gives all of them weight 1.
        negative_only: drop only tokens with a negative advantage.

    Source:
        negative_only: DeepSeek-AI 2025 (V3.2), https://arxiv.org/abs/2512.02556

    Example:
        >>> policy = torch.tensor([[0.8, 0.1], [0.4, 0.2]]).log()
        >>> sampler = torch.tensor([[0.2, 0.4], [0.1, 0.1]]).log()  # means 1 and sqrt(8)
        >>> tokens = Tokens(policy, policy, sampler, torch.ones(2, 1), torch.ones(2, 2).bool())
        >>> SequenceMask(low=0.5, high=2.0).weights(tokens)
        tensor([[1., 1.],
                [0., 0.]])
    """

    low: Share = 0.5
    high: AtLeastOne = 2.0
    cap: PositiveFloat | None = None
    negative_only: bool = False

    def weights(self, tokens: Tokens) -> Tensor:
        mean = _sampler_mismatch_weights(tokens, None, "sequence")
        kept = _in_band_mask(mean, self, tokens)
        weights = torch.ones_like(mean) if self.cap is None else _sampler_mismatch_weights(tokens, self.cap, "token")
        return torch.where(kept, weights, torch.zeros_like(weights))


def _sampler_mismatch_weights(tokens: Tokens, cap: float | None, level: RatioLevel) -> Tensor:
    """Return p / q [n, T], limited by the cap, as constants."""
    sampled = tokens.sampler_logprobs.to(tokens.old_logprobs.dtype)
    return importance_weights(tokens.old_logprobs, sampled, cap=cap, level=level, mask=tokens.mask)


def _in_band_mask(ratio: Tensor, band: MaskedBand | SequenceMask, tokens: Tokens) -> Tensor:
    """Return [n, T] bool: True for tokens whose ratio lies in the band, or to which the band does not apply."""
    inside = (ratio >= band.low) & (ratio <= band.high)
    return inside | (tokens.advantages >= 0) if band.negative_only else inside
