"""Gap between sampler and trainer: measured on every rollout, and examined where it is too large.

Letters: N rows, T completion tokens, n rows that are compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, isfinite, log
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from lit_rl.arguments import LitRLError, require_above, require_at_least, typed_group
from lit_rl.execution.checks import ReferenceText
from lit_rl.models.policy import Policy
from lit_rl.training.ranks import Means, world_size
from lit_rl.types import Completions, Problem, Sampling

GAP, LARGEST = "sampling/logprob_gap/mean", "sampling/logprob_gap/max"
_RATIO = "sampling/importance_ratio/mean"
_SQUARE = "sampling/importance_ratio/mean_square"  # not logged: it becomes the effective sample size
_FILTERED = 0.99
_LEFT = 0.1
"""A cause fits if less than this share of the gap is left without it."""
_MOST_SHIFTS, _TELLING = 8, 3
"""Other rows that are tried for one, and tokens of a row that can tell it from another."""


class SamplerMismatchError(LitRLError, RuntimeError):
    """An engine with weights of its own does not sample what the policy would."""


@typed_group
@dataclass(frozen=True)
class SamplerCheck:
    """Compare an engine's log-probabilities with the trainer's after weights arrived, before learning from rows.

    Engines that sample with the policy's own weights are not asked. Nor is a gap judged where top-p or top-k filter
    what is sampled, since there is always one then.

    Args:
        rows: rows of each rank that are compared; each costs the forward pass of a row.
        largest_gap: mean distance (nats a token) that rounding explains. Seen are 0.00001 in float32; bfloat16 gives
            about 0.01.
        stop: end the run when the gap is larger, instead of warning once.
    """

    rows: int = 4
    largest_gap: float = 0.05
    stop: bool = False

    def __post_init__(self) -> None:
        require_at_least(1, self, rows=self.rows)
        require_above(0, self, largest_gap=self.largest_gap)


def add_mismatch(means: Means, logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor) -> None:
    """Add distance and ratio of trainer and sampler over some tokens.

    Args:
        means: added to.
        logprobs: [n, T] nats, of the trainer with the weights that sampled.
        sampler_logprobs: [n, T] nats, as the sampler reported them.
        mask: [n, T] bool, tokens that count.
    """
    difference = (logprobs - sampler_logprobs.to(logprobs))[mask].double()
    if not difference.numel():
        return
    gap, ratios, count = difference.abs(), difference.exp(), difference.numel()
    means.add_sum(GAP, gap.sum(), count)
    means.add_largest(LARGEST, float(gap.max()))
    means.add_sum(_RATIO, ratios.sum(), count)
    means.add_sum(_SQUARE, ratios.square().sum(), count)
    means.add_smallest("sampling/importance_ratio/min", float(ratios.min()))
    means.add_largest("sampling/importance_ratio/max", float(ratios.max()))


def with_effective_size(values: dict[str, float]) -> dict[str, float]:
    """Put the effective sample size in place of the mean square of the ratio: (sum w)^2 / (n sum w^2), in (0, 1].

    Source:
        Kong 1992, A note on importance sampling using standardized weights
    """
    square = values.pop(_SQUARE, 0.0)
    if square > 0:
        values["sampling/effective_sample_size"] = values[_RATIO] ** 2 / square
    return values


def compare(policy: Policy, completions: Completions, sampling: Sampling, num_rows: int) -> tuple[Means, Completions]:
    """Compare some rows, evenly spread, with the policy as it is; all ranks call together.

    Args:
        policy: in eval mode.
        completions: N rows; N may be 0.
        sampling: how they were sampled.
        num_rows: rows to compare.

    Returns:
        What was found, and the n rows.
    """
    means = Means()
    chosen = sorted({i * len(completions) // num_rows for i in range(num_rows)}) if len(completions) else []
    some = completions.select(chosen).trim()
    with torch.no_grad():
        if chosen:
            logprobs = policy.logprobs(some, sampling.temperature)
            add_mismatch(means, logprobs, some.sampler_logprobs, some.completion_mask)
        elif isinstance(policy, FSDPModule):  # the others wait for this rank's share of the weights
            policy.logprobs(
                policy.codec.as_completions([Problem("probe", "a", ReferenceText(""))], ["a"], policy.device)
            )
    return means, some


def judge(
    check: SamplerCheck, policy: Policy, means: Means, some: Completions, sampling: Sampling, *, warn: bool
) -> bool:
    """Warn or stop if the gap is too large; all ranks call together.

    Args:
        check: what is too large, and what follows.
        policy: as it was compared.
        means: what :func:`compare` found.
        some: the rows that were compared.
        sampling: how they were sampled.
        warn: whether to warn; not a second time.

    Returns:
        Whether the gap is too large.

    Raises:
        SamplerMismatchError: it is, and ``check.stop`` is set.
    """
    gap = means.reduce(policy.device).get(GAP, 0.0)
    if gap <= check.largest_gap or sampling.top_k or sampling.top_p < 1:
        return False
    if not (warn or check.stop):
        return True
    said = (
        f"sampler and trainer differ by {gap:.2g} nats a token (at most {check.largest_gap:g} is rounding): "
        f"{likely_cause_of_gap(policy, some, sampling, gap)}; see lit-rl docs engines#when-sampler-and-trainer-differ"
    )
    if check.stop:
        raise SamplerMismatchError(said)
    warnings.warn(said, stacklevel=2)
    return True


class Tried(NamedTuple):
    """One change, and what it left of the distance between sampler and trainer.

    Args:
        change: what was changed, in a few words.
        gap: what is left, nats per token.
        meaning: what it means if this is little, and what to do then.
    """

    change: str
    gap: float
    meaning: str = ""


def likely_cause_of_gap(policy: Policy, some: Completions, sampling: Sampling, gap: float) -> str:
    """Name the cause of a gap if one fits: numbers that are not what they should be, another temperature, a filter."""
    left = "other weights (stale, another model), another dtype, or other prompt ids (chat template)"
    if not len(some) or world_size() > 1:
        return f"the cause was not looked for: compare the engine's weights, dtype and prompt ids; likely {left}"
    with torch.no_grad():
        found = [*misreported(policy, some, sampling.temperature), *_at_temperature_1(policy, some, sampling)]
        fits = next((one for one in found if one.gap < _LEFT * gap or not isfinite(gap)), None)
        higher = some.sampler_logprobs >= policy.logprobs(some, sampling.temperature)
    mask = some.completion_mask
    if fits is not None:
        return fits.meaning
    if float(higher[mask].float().mean()) > _FILTERED and int(mask.sum()) > 16:
        return "every token is likelier to the sampler, as under a filter of its own (top-p, top-k, min-p)"
    return (
        "no known cause fits (numbers that are shifted, constant, or of another row or temperature; a filter); that "
        f"leaves {left}"
    )


def _at_temperature_1(policy: Policy, some: Completions, sampling: Sampling) -> Iterator[Tried]:
    if sampling.temperature not in (0, 1):
        said = f"the engine reports log-probabilities at temperature 1 instead of {sampling.temperature:g}"
        yield Tried("temperature 1", _distance(policy.logprobs(some, 1.0), some), said)


def misreported(policy: Policy, some: Completions, temperature: float) -> Iterator[Tried]:
    """Try ways in which an engine reports something else than the log-probability of its token.

    Args:
        policy: in eval mode.
        some: n rows.
        temperature: of the sampling.
    """
    own, mask = policy.logprobs(some, temperature), some.completion_mask
    said = some.sampler_logprobs.to(own)
    before, reported = _distance(own, some), said[mask]
    if not own[mask].isfinite().all():
        todo = "its weights are broken, not the engine: start again with a lower learning rate"
        yield Tried("finite numbers of the trainer", 0.0, f"the policy's own log-probabilities are not finite: {todo}")
    if not isfinite(before):
        return
    if len(reported) > 1 and float(reported.std()) == 0:
        value = float(reported[0])
        todo = "have it return the log-probability of each sampled token"
        yield Tried("no constant", 0.0, f"constant: the engine reports {value:.3g} for every token: {todo}")
        return
    for unit, values in (
        ("logarithms to base 2", own / log(2)),
        ("logarithms to base 10", own / log(10)),
    ):
        yield Tried(unit, _distance(values, some), f"the engine reports {unit}: have it report natural logarithms")
    for change, later, earlier in (("the token after", own, said), ("the token before", said, own)):
        both = mask[:, 1:] & mask[:, :-1]
        gap = float((later[:, 1:] - earlier[:, :-1])[both].abs().mean()) if both.any() else before
        meaning = f"shifted by one: the engine reports for each token the log-probability of {change}"
        yield Tried(f"numbers of {change}", gap, f"{meaning}; look at where its list begins")
    yield from _of_other_rows(policy, some, temperature, own)


def _of_other_rows(policy: Policy, some: Completions, temperature: float, own: Tensor) -> Iterator[Tried]:
    """Try the numbers, then the prompts, of the other rows, up to a few."""
    mask, said = some.completion_mask, some.sampler_logprobs.to(own)

    def apart(values: Tensor, counted: Tensor) -> Tensor:
        """[n] nats per token; infinite where too few tokens tell one row from another."""
        number = counted.sum(-1)
        distances = ((values - said).abs() * counted).sum(-1) / number.clamp(min=1)
        return distances.masked_fill(number < _TELLING, inf)

    nearest = {"log-probabilities": apart(own, mask), "answers": apart(own, mask)}
    for shift in range(1, min(len(some), _MOST_SHIFTS)):
        numbers = apart(own.roll(shift, 0), mask & mask.roll(shift, 0))
        names = ("prompt_ids", "prompt_mask", "group_ids")
        other = replace(some, **{name: getattr(some, name).roll(shift, 0) for name in names})
        answers = apart(policy.logprobs(other, temperature), mask)
        nearest = {
            "log-probabilities": torch.minimum(nearest["log-probabilities"], numbers),
            "answers": torch.minimum(nearest["answers"], answers),
        }
    for name, distances in nearest.items():
        meaning = f"rows permuted: the engine's {name} are those of other requests; look at where it sets their row"
        known = distances[distances.isfinite()]
        yield Tried(f"{name} of other rows", float(known.mean()) if len(known) else inf, meaning)


def _distance(logprobs: Tensor, some: Completions) -> float:
    """Mean distance from the sampler's numbers, nats per token."""
    return float((logprobs - some.sampler_logprobs.to(logprobs))[some.completion_mask].abs().mean())
