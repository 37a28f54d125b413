"""Corrections: how much a token counts that the weights being trained did not sample. A weight on any loss."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from lit_rl.bounds import require_above
from lit_rl.functional.corrections import band_weights, require_band, sequence_weights
from lit_rl.functional.ratios import importance_weights


class Correction(ABC):
    """Weights of tokens by p / q; one of your own implements :meth:`weights`.

    p is the policy when a rollout's updates begin, by the training forward; q is what the sampler reported. The weight
    multiplies the policy's loss of a token, whichever loss that is, and carries no gradient. KL and entropy are not
    weighed. A token that weighs nothing still counts in the mean.
    """

    @abstractmethod
    def weights(self, logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> Tensor:
        """[n, T] weights, unitless; what stands outside the mask does not matter.

        Args:
            logprobs: [n, T] nats, of p.
            sampler_logprobs: [n, T] nats, of q.
            mask: [n, T] bool, tokens that count.
        """


class TruncatedWeights(Correction):
    """p / q, cut to a largest value.

    Args:
        cap: largest weight.

    Source:
        Ionides 2008, https://doi.org/10.1198/106186008X320456
    """

    def __init__(self, cap: float = 2.0) -> None:
        require_above(0, cap=cap)
        self.cap = cap

    def weights(self, logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> Tensor:
        """[n, T] weights up to the cap."""
        return importance_weights(logprobs, sampler_logprobs, cap=self.cap)


class MaskedBand(Correction):
    """p / q inside a band, 0 outside it.

    Args:
        low: smallest weight that is kept, at most 1.
        high: largest, at least 1.

    Source:
        IcePop: Ling Team 2025, https://arxiv.org/abs/2510.18855
    """

    def __init__(self, low: float = 0.5, high: float = 2.0) -> None:
        require_band(low, high)
        self.low, self.high = low, high

    def weights(self, logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> Tensor:
        """[n, T] weights in the band, 0 elsewhere."""
        return band_weights(logprobs, sampler_logprobs, low=self.low, high=self.high)


class SequenceMask(Correction):
    """Whole completions, by the geometric mean of p / q over their tokens: kept in a band, else dropped.

    Args:
        low: smallest mean that is kept, at most 1.
        high: largest, at least 1.
        cap: weigh the tokens of a completion that is kept by p / q up to this; ``None`` weighs them all 1.
    """

    def __init__(self, low: float = 0.5, high: float = 2.0, cap: float | None = None) -> None:
        require_band(low, high)
        require_above(0, cap=cap)
        self.low, self.high, self.cap = low, high, cap

    def weights(self, logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> Tensor:
        """[n, T] weights of the completions in the band, 0 for the others."""
        return sequence_weights(logprobs, sampler_logprobs, mask, low=self.low, high=self.high, cap=self.cap)
