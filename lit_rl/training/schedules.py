"""Learning-rate schedules of runs that resume, or are made longer.

A schedule of torch is a function of the training steps that are done; only ``ReduceLROnPlateau`` depends on what was
measured. So a start builds its schedule anew and steps the schedule to where the run is. The state in a checkpoint is
of no use: it holds the arguments too, and loading it would bring back the old length.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts, CyclicLR, ReduceLROnPlateau

from lit_rl.errors import UsageError
from lit_rl.training.progress import StepCounter

Make = Callable[[Optimizer], Any]

MEASURED = ("best", "num_bad_epochs", "cooldown_counter", "last_epoch", "_last_lr")
"""State of a ``ReduceLROnPlateau`` that comes from measurements."""

_LOOKED_AHEAD = 100_000
"""Largest number of steps of a schedule that a start tries out, in about a second."""

_ENDED = 0.05
"""A schedule has ended when its rate is below this share of its highest rate."""

_ROUNDING = 1e-9


def plateau_states_to_load(states: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the part of the schedules' states in a checkpoint that is loaded: measurements, but no arguments."""
    return [{key: one[key] for key in MEASURED} for one in states if "num_bad_epochs" in one]


def build_schedule_at_step(make: Make, optimizer: Optimizer, clock: StepCounter) -> Any:
    """Build a schedule and step it to where the run is, after checking how it continues until the run's end."""
    schedule, rates = _schedule_and_rate_history(make, optimizer, min(clock.limit or 0, _LOOKED_AHEAD))
    if isinstance(schedule, ReduceLROnPlateau):
        return None
    cycles = isinstance(schedule, CyclicLR | CosineAnnealingWarmRestarts)
    for of_group in zip(*rates, strict=True):
        if fault := _learning_rate_fault(of_group, clock, cycles=cycles):
            raise UsageError(f"update.lr_scheduler: {type(schedule).__name__} {fault}")
    return _schedule_and_rate_history(make, optimizer, clock.count)[0]


def _schedule_and_rate_history(make: Make, optimizer: Optimizer, steps: int) -> tuple[Any, list[list[float]]]:
    """Return the schedule after some steps from its start, and the rates of all groups at each step."""
    for group in optimizer.param_groups:
        # Where OneCycleLR was, initial_lr is the small rate that a cycle begins with.
        group["lr"] = group.pop("max_lr", group.pop("initial_lr", group["lr"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about steps of the schedule without steps of the optimizer
        schedule = make(optimizer)
        rates = [[float(group["lr"]) for group in optimizer.param_groups]]
        for _ in range(0 if isinstance(schedule, ReduceLROnPlateau) else steps):
            schedule.step()
            rates.append([float(group["lr"]) for group in optimizer.param_groups])
    return schedule, rates


def _learning_rate_fault(rates: Sequence[float], clock: StepCounter, *, cycles: bool) -> str:
    """Say what is wrong with the rates of one group, from the first step of the run to its last."""
    lowest = min(range(len(rates)), key=rates.__getitem__)
    if rates[lowest] < -_ROUNDING * max(rates):
        return f"makes a rate negative ({rates[lowest]:.3g}) after {lowest} {clock.unit}s: give it the run's length"
    ended = clock.planned or 0
    if not 0 < ended < len(rates) - 1:
        return ""
    peak, last, rest = max(rates[: ended + 1]), rates[ended], max(rates[ended:-1])
    if last >= _ENDED * peak or cycles or 0 < rest <= _ENDED * peak:
        return ""
    continues = f"rise again to {rest:.2g}" if rest else "stay there"
    return (
        f"fell from {peak:.2g} to {last:.2g} in the {ended} {clock.unit}s planned before, and would {continues} in "
        f"those up to {clock.limit}: give the schedule the run's new length"
    )
