"""How far a run is: rollouts, or updates where nothing is sampled to train on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from lit_rl.arguments import UsageError, require_at_least

Unit = Literal["rollout", "update"]


class Clock:
    """Counts the training steps of a run: the x-axis of its curves, and its end.

    Args:
        unit: one training step is a rollout, with any number of updates, or one update.
        limit: steps after which the run ends; ``None`` leaves it to the trainer.

    Attributes:
        count: steps that are done.
    """

    def __init__(self, unit: Unit, limit: int | None = None) -> None:
        require_at_least(1, **{f"max_{unit}s": limit})
        self.unit: Unit = unit
        self.limit = limit
        self.count = 0

    @property
    def is_over(self) -> bool:
        """Whether the run has reached its limit."""
        return self.limit is not None and self.count >= self.limit

    @property
    def left(self) -> int | None:
        """Steps until the limit; ``None`` without one."""
        return None if self.limit is None else self.limit - self.count

    def save(self, checkpoint: dict[str, Any]) -> None:
        """Store the count; Lightning stores the number of updates itself."""
        if self.unit == "rollout":
            checkpoint["rollout_step"] = self.count

    def load(self, checkpoint: Mapping[str, Any]) -> None:
        """Restore the count."""
        self.count = checkpoint.get("rollout_step" if self.unit == "rollout" else "global_step", 0)

    def require_same_unit(self, checkpoint: Mapping[str, Any], algorithm: str) -> None:
        """Check whether the run of a checkpoint counted the same thing.

        Raises:
            ValueError: it did not, so this run cannot resume from it.
        """
        of_rollouts = "rollout_step" in checkpoint
        if of_rollouts != (self.unit == "rollout"):
            counted = "counts rollouts" if of_rollouts else "counts no rollouts"
            raise UsageError(
                f"the checkpoint {counted}, so {algorithm} cannot resume from it: export it (lit-rl export) and start "
                "from the folder, as model.policy.model"
            )
