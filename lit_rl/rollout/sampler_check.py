"""Gap between sampler and trainer: measured on every rollout, with a warning where it is too large.

Letters: N rows, T completion tokens, n rows that are compared.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from lit_rl.errors import LitRLError
from lit_rl.execution.checks import ReferenceText
from lit_rl.models.policy import Policy
from lit_rl.signature_check import PositiveFloat, PositiveInt, typed_dataclass
from lit_rl.training.ranks import Means
from lit_rl.types import Completions, Problem, Sampling

GAP, LARGEST = "sampling/logprob_gap/mean", "sampling/logprob_gap/max"
_RATIO = "sampling/importance_ratio/mean"
_SQUARE = "sampling/importance_ratio/mean_square"  # not logged: it becomes the effective sample size


class SamplerMismatchError(LitRLError, RuntimeError):
    """An engine with its own weights does not sample as the policy would."""


@typed_dataclass
@dataclass(frozen=True)
class SamplerCheck:
    """Compare an engine's log-probabilities with the trainer's after weights arrived, before learning from rows.

    Engines that sample with the policy's own weights are not asked. Nor is a gap judged if top-p or top-k filter
    tokens, because then there is always a gap.

    Args:
        rows: rows of each rank that are compared; each costs the forward pass of a row.
        largest_gap: mean distance (nats a token) that rounding explains. Seen are 0.00001 in float32; bfloat16 gives
            about 0.01.
        stop: end the run when the gap is larger, instead of warning once.
    """

    rows: PositiveInt = 4
    largest_gap: PositiveFloat = 0.05
    stop: bool = False


def add_mismatch(means: Means, logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> None:
    """Add the log-probability gap and the ratio of trainer to sampler over some tokens to ``means``.

    Both are [n, T] nats under the weights that sampled.
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


def check_gap(
    check: SamplerCheck, policy: Policy, completions: Completions, sampling: Sampling, *, warn: bool
) -> tuple[Means, bool]:
    """Compare some rows, evenly spread, with the policy as it is; warn or stop if the gap is too large.

    All ranks call together, also one without rows, the policy in eval mode. Return what was found, and whether the gap
    is too large.
    """
    means, count = Means(), len(completions)
    rows = (torch.arange(check.rows if count else 0) * count // check.rows).unique()
    some = completions.select(rows).trim()
    with torch.no_grad():
        if count:
            logprobs = policy.logprobs(some, sampling.temperature)
            add_mismatch(means, logprobs, some.sampler_logprobs, some.completion_mask)
        elif isinstance(policy, FSDPModule):  # the others wait for this rank's share of the weights
            policy.logprobs(
                policy.codec.as_completions([Problem("probe", "a", ReferenceText(""))], ["a"], policy.device)
            )
    gap = means.reduce(policy.device).get(GAP, 0.0)
    if gap <= check.largest_gap or sampling.filters:
        return means, False
    cause = "likely other weights (stale, another model), another dtype, temperature or filter, or other prompt ids"
    if math.isnan(gap):
        cause = "the policy's own log-probabilities are not finite: start again with a lower learning rate"
    message = (
        f"sampler and trainer differ by {gap:.2g} nats a token (at most {check.largest_gap:g} is rounding): {cause}; "
        "see lit-rl docs engines#when-sampler-and-trainer-differ"
    )
    if check.stop:
        raise SamplerMismatchError(message)
    if warn:
        warnings.warn(message, stacklevel=2)
    return means, True
