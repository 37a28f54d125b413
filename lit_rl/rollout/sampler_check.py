"""The gap between sampler and trainer: its metrics, and the settings of the check that runs after weights arrived.

Letters: T completion tokens, n rows compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from lit_rl.errors import LitRLError
from lit_rl.signature_check import PositiveFloat, PositiveInt, checked_dataclass
from lit_rl.training.ranks import Means

GAP, LARGEST = "sampling/logprob_gap/mean", "sampling/logprob_gap/max"
_RATIO = "sampling/importance_ratio/mean"
_SQUARE = "sampling/importance_ratio/mean_square"  # not logged: it becomes the effective sample size


class SamplerMismatchError(LitRLError, RuntimeError):
    """An engine with its own weights does not sample as the policy would."""


@checked_dataclass
@dataclass(frozen=True)
class SamplerCheck:
    """Settings of the check of an engine's log-probabilities against the trainer's, after weights arrived.

    The check runs before learning from rows. Engines that sample with the policy's own weights are not checked. No gap
    is judged if top-p or top-k filter tokens, because then there is always a gap.

    Args:
        rows: rows of each rank that are compared; each costs the forward pass of a row.
        largest_gap: mean distance (nats per token) that rounding explains. Float32 gave 0.00001; bfloat16 gives about
            0.01.
        stop: end the run when the gap is larger, instead of warning once.
    """

    rows: PositiveInt = 4
    largest_gap: PositiveFloat = 0.05
    stop: bool = False


def add_sampler_mismatch(means: Means, logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> None:
    """Add the log-probability gap and the ratio of trainer to sampler over some tokens to ``means``.

    Both log-probabilities are [n, T] nats under the weights that sampled.
    """
    difference = (logprobs - sampler_logprobs.to(logprobs))[mask].double()
    if not difference.numel():
        return
    gap, ratios, count = difference.abs(), difference.exp(), difference.numel()
    means.add_sum(GAP, gap.sum(), count)
    means.add_extreme(LARGEST, float(gap.max()), max)
    means.add_sum(_RATIO, ratios.sum(), count)
    means.add_sum(_SQUARE, ratios.square().sum(), count)
    means.add_extreme("sampling/importance_ratio/min", float(ratios.min()), min)
    means.add_extreme("sampling/importance_ratio/max", float(ratios.max()), max)


def add_effective_sample_size(values: dict[str, float]) -> dict[str, float]:
    """Put the effective sample size in place of the mean square of the ratio: (sum w)^2 / (n sum w^2), in (0, 1].

    Source:
        Kong 1992, A note on importance sampling using standardized weights
    """
    square = values.pop(_SQUARE, 0.0)
    if square > 0:
        values["sampling/effective_sample_size"] = values[_RATIO] ** 2 / square
    return values
