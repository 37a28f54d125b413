"""Checks, before a run, whether the metric that picks the best checkpoint will ever be measured."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from lightning_utilities.core.rank_zero import rank_zero_warn


def warn_of_monitor(trainer: Any, pl_module: Any, monitor: str | None) -> None:
    """Warn about a validation that never runs, or a metric that nothing known logs; modules may log more.

    Args:
        trainer: the trainer that will fit.
        pl_module: the module to fit.
        monitor: the metric that says which checkpoint is the best, if there is one.
    """
    if trainer.limit_val_batches == 0:
        if monitor is not None:
            rank_zero_warn(f"monitor {monitor} needs validation, and there is none: limit_val_batches is 0")
        return
    _warn_of_interval(trainer, pl_module)
    known = [
        name
        for callback in trainer.callbacks
        if hasattr(callback, "metric_names")
        for name in callback.metric_names(trainer, pl_module)
    ]
    if monitor is None or not known or monitor in known:
        return
    near = get_close_matches(monitor, known, n=1, cutoff=0.0)
    rank_zero_warn(f"monitor {monitor} is none of the metrics that are known before the run: did you mean {near[0]}?")


def _warn_of_interval(trainer: Any, pl_module: Any) -> None:
    every = trainer.val_check_interval
    if trainer.check_val_every_n_epoch is not None or not isinstance(every, int):
        return
    clock = pl_module.clock
    if clock.limit is not None and every > clock.limit:
        rank_zero_warn(
            f"validation every {every} {clock.unit}s, and the run has {clock.limit}: it runs once, at the end. "
            "Lower val_check_interval for a curve"
        )
