"""Progress of a run in training steps, its phase within a step, and the seconds of each phase."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Literal

from lit_rl.errors import UsageError

Unit = Literal["rollout", "update"]


class StepCounter:
    """Counts the training steps of a run: the x-axis of its curves, and its end.

    Args:
        unit: one training step is a rollout, with any number of updates, or one update.
        limit: number of steps after which the run ends; ``None`` leaves the end to the trainer.

    Attributes:
        count: steps that are done.
        planned: limit of the start before, ``None`` without one; a larger :attr:`limit` makes the run longer.
    """

    def __init__(self, unit: Unit, limit: int | None = None) -> None:
        self.unit: Unit = unit
        self.limit = limit
        self.count = 0
        self.planned: int | None = None

    @property
    def is_over(self) -> bool:
        """True if the run has reached its limit."""
        return self.limit is not None and self.count >= self.limit

    @property
    def steps_left(self) -> int | None:
        """Steps until the limit; ``None`` without one."""
        return None if self.limit is None else self.limit - self.count

    def save(self, checkpoint: dict[str, Any]) -> None:
        """Store the limit and the count, unless Lightning itself stores the count as the number of updates."""
        checkpoint["planned"] = self.planned
        if self.unit == "rollout":
            checkpoint["rollout_step"] = self.count

    def load(self, checkpoint: Mapping[str, Any]) -> None:
        """Restore the limit and the count."""
        self.planned = checkpoint.get("planned")
        self.count = checkpoint.get("rollout_step" if self.unit == "rollout" else "global_step", 0)

    def require_same_unit(self, checkpoint: Mapping[str, Any], algorithm: str) -> None:
        """Raise unless the checkpoint's run counted in this run's unit, rollouts or updates."""
        of_rollouts = "rollout_step" in checkpoint
        if of_rollouts != (self.unit == "rollout"):
            counted = "counts rollouts" if of_rollouts else "counts no rollouts"
            raise UsageError(
                f"the checkpoint {counted}, so {algorithm} cannot resume from it: run lit-rl export on the run, and "
                "give the exported folder as model.policy.model"
            )


Phase = Literal["waiting", "sampling", "judging", "rewarding", "preparing", "updating"]
"""``judging`` is the wait for verdicts after the last token; ``preparing`` computes log-probabilities, values
and advantages; ``waiting`` is the time between two rollouts: loading data, callbacks, logging, checkpoints."""


class RolloutProgress:
    """Plain numbers that change while a rollout runs; another thread may read them at any time.

    Each rank has its own and counts its own rows.

    Attributes:
        purpose: ``training``, ``validation/<sampling>`` or ``predict``; empty before the first :meth:`begin`.
        phase: what is being done.
        rows: rows requested so far; this grows when groups are sampled again.
        open_rows: number of requested rows that are still being written.
        turns: turns that are finished and handed to the judge.
        tokens: tokens of these turns.
        steps: steps of the engine, such as one token for each running row.
        update: optimizer steps done, out of this rollout's ``updates``.
        part: micro-batches done, out of the current update's ``parts``.
        seconds: seconds of each finished phase since the last :meth:`begin`.
        queue_seconds: seconds that each judged program waited: from submission to verdict, less its run time.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.phase: Phase = "waiting"
        self._since = self._started = clock()
        self._reset_counters("")

    @property
    def num_judged(self) -> int:
        """Number of :attr:`turns` that have a verdict."""
        return len(self._verdicts)

    @property
    def elapsed(self) -> float:
        """Seconds since the last :meth:`begin`."""
        return self._clock() - self._started

    def begin(self, purpose: str) -> None:
        """Start counting from zero, in the phase ``sampling``."""
        is_first = not self.purpose
        self.enter_phase("sampling")
        waited = 0.0 if is_first else self.seconds.get("waiting", 0.0)
        self._reset_counters(purpose)
        self.seconds["waiting"] = waited

    def enter_phase(self, phase: Phase) -> None:
        """Switch to a phase; does nothing if it is the current one."""
        if phase != self.phase:
            now = self._clock()
            self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + now - self._since
            self.phase, self._since = phase, now

    def end_and_take_seconds(self) -> dict[Phase, float]:
        """Stop; return the seconds of each phase, including the wait before the start."""
        self.enter_phase("waiting")
        seconds = dict(self.seconds)
        self.seconds.clear()
        return seconds

    def add_turn(self, tokens: int, outcome: Future[Any]) -> None:
        """Count a finished turn, and its verdict as soon as it is known."""
        self.turns += 1
        self.tokens += tokens
        runs, submitted, verdicts, waits = not outcome.done(), self._clock(), self._verdicts, self.queue_seconds

        def count(outcome: Future[Any]) -> None:  # called by one of several threads
            verdicts.append(None)  # atomic, unlike += 1
            if runs and not outcome.cancelled() and outcome.exception() is None:
                waits.append(max(0.0, self._clock() - submitted - getattr(outcome.result(), "wall_seconds", 0.0)))

        outcome.add_done_callback(count)

    def _reset_counters(self, purpose: str) -> None:
        self.purpose = purpose
        self.rows = self.open_rows = self.turns = self.tokens = self.steps = 0
        self.update = self.updates = self.part = self.parts = 0
        self.seconds: dict[Phase, float] = {}
        # New lists: a late verdict belongs to the previous rollout.
        self._verdicts: list[None] = []
        self.queue_seconds: list[float] = []
        self._started = self._since
