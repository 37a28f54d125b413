"""How callbacks see rollouts: one call after each, with everything that was computed."""

from __future__ import annotations

from typing import Any, Protocol

import lightning.pytorch as pl
from torch import nn

from lit_rl.models.policy import Policy
from lit_rl.rewards.composite import Composite
from lit_rl.rollout.records import FinishedRollout
from lit_rl.rollout.sampler import Sampler
from lit_rl.training.progress import Clock, Progress
from lit_rl.types import Sampling


class TrainedModule(Protocol):
    """The face of a :class:`lit_rl.modules.PolicyModule` towards callbacks, reports and diagnoses."""

    policy: Policy
    rewards: Composite | None
    sampler: Sampler
    sampling: Sampling | None
    update: Any
    clock: Clock
    seed: int
    metric_prefix: str

    @property
    def progress(self) -> Progress:
        """The phase that the run is in now."""

    @property
    def validation_sampling(self) -> dict[str, Sampling]:
        """How validation samples, by name."""

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """What learns, by name."""


class RolloutWatcher(Protocol):
    """A callback that sees each training rollout.

    It is called on every rank, inside the training step: ``module.log`` works there. What it gets are the objects that
    the update used; it must not change them.
    """

    def on_rollout_end(self, trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
        """Called after the updates of a rollout.

        Args:
            trainer: the trainer.
            module: what it trains; ``module.clock.count`` already counts this rollout.
            finished: this rank's rollout and what was made of it.
        """


def notify_callbacks(trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
    """Call ``on_rollout_end`` of every callback that has it, in the order of the trainer's callbacks."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]  # set by a connector
        watcher: RolloutWatcher | None = callback if hasattr(callback, "on_rollout_end") else None
        if watcher is not None:
            watcher.on_rollout_end(trainer, module, finished)
