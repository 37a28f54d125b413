"""Advantages by their names in configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from lit_rl.advantages import (
    Baseline,
    BatchMean,
    GroupMean,
    LeaveOneOut,
    MaxRewards,
    NoBaseline,
    RowAdvantages,
    RunningMean,
)
from lit_rl.functional.advantages import Scale
from lit_rl.types import Sampling

BaselineName = Literal["group_mean", "leave_one_out", "batch_mean", "none", "max_rewards"]
RunningName = Literal["none", "mean", "exponential"]
Deltas = Literal["rewards", "centered_rewards", "normalized_rewards", "max_rewards"]

_BASELINES: dict[str, Callable[[Scale], RowAdvantages]] = {
    "group_mean": GroupMean,
    "leave_one_out": LeaveOneOut,
    "batch_mean": BatchMean,
    "none": lambda scale_by: NoBaseline(),
    "max_rewards": lambda scale_by: MaxRewards(),
}
_DELTAS: dict[str, Callable[[], RowAdvantages]] = {
    "rewards": NoBaseline,
    "centered_rewards": lambda: GroupMean(scale_by="none"),
    "normalized_rewards": lambda: GroupMean(scale_by="std", eps=1e-5),
    "max_rewards": MaxRewards,
}


def baseline_of(baseline: RowAdvantages | BaselineName, scale_by: Scale | None) -> RowAdvantages:
    """GRPO's baseline as an object.

    Raises:
        ValueError: ``scale_by`` beside a class, which has its own.
    """
    if not isinstance(baseline, RowAdvantages):
        return _BASELINES[baseline](scale_by or "std")
    if scale_by is not None:
        kind = type(baseline).__name__
        raise ValueError(
            f"scale_by={scale_by} goes with a baseline that is given by name, got it beside the class {kind}: give the "
            f"class what it takes, as baseline: {{class_path: {kind}, init_args: {{...}}}}"
        )
    return baseline


def deltas_of(deltas: RowAdvantages | Deltas | None) -> RowAdvantages | None:
    """REINFORCE's deltas as an object."""
    return _DELTAS[deltas]() if isinstance(deltas, str) else deltas


def running_of(baseline: Baseline | RunningName, decay: float) -> Baseline:
    """REINFORCE's baseline as an object.

    Raises:
        ValueError: a baseline that divides by a standard deviation, which rewards-to-go are not.
    """
    if isinstance(baseline, Baseline):
        if baseline.is_scaled:
            raise ValueError(
                f"rewards-to-go are not scaled, got the baseline {type(baseline).__name__} with scale_by=std: give it "
                "scale_by: none, or give it as deltas"
            )
        return baseline
    match baseline:
        case "none":
            return NoBaseline()
        case "mean":
            return BatchMean(scale_by="none")
        case "exponential":
            return RunningMean(decay)


def require_group(advantages: RowAdvantages, sampling: Sampling, argument: str) -> None:
    """Check whether a problem has enough completions to compare.

    Args:
        advantages: what compares them.
        sampling: how training samples.
        argument: what the user calls them.

    Raises:
        ValueError: it has fewer.
    """
    if sampling.num_samples < advantages.smallest_group:
        raise ValueError(
            f"{argument} compares completions of one problem: num_samples must be {advantages.smallest_group} or "
            f"more, got {sampling.num_samples}"
        )
