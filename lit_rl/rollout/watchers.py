"""How callbacks see rollouts: one call after each, with everything that was computed."""

from __future__ import annotations

from typing import Any, Protocol

import lightning.pytorch as pl

from lit_rl.rollout.records import FinishedRollout


class RolloutWatcher(Protocol):
    """A callback that sees each training rollout.

    It is called on every rank, inside the training step: ``module.log`` works there. What it gets are the objects that
    the update used; it must not change them.
    """

    def on_rollout_end(self, trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
        """Called after the updates of a rollout.

        Args:
            trainer: the trainer.
            module: what it trains; ``module.rollout_step`` already counts this rollout.
            finished: this rank's rollout and what was made of it.
        """


def tell_watchers(trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
    """Call ``on_rollout_end`` of every callback that has it, in the order of the trainer's callbacks."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]  # set by a connector
        watcher: RolloutWatcher | None = callback if hasattr(callback, "on_rollout_end") else None
        if watcher is not None:
            watcher.on_rollout_end(trainer, module, finished)
