"""An environment that asks some rows again, and what sees whether it did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lit_rl.modules import GRPO
from lit_rl.rollout import Attempt, Environment, Rollout
from lit_rl.types import Problem


class AsksAgain(Environment):
    """Asks again where a turn has an even number of characters, and the problem is one of those it asks about.

    Args:
        problems: last digits of the task ids that it asks about; ``None`` for all.
    """

    def __init__(self, problems: str | None = None) -> None:
        super().__init__(max_turns=2)
        self.problems = problems
        self.num_answers = 0

    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        asked = self.problems is None or problem.task_id[-1] in self.problems
        if not asked or len(attempts[-1].text) % 2:
            return None
        self.num_answers += 1
        return "again?"


class Watches:
    """Keeps the numbers of turns of each rollout that is learned from."""

    def make_experience(self, rollout: Rollout, rewards: Any) -> Any:
        self.seen: list[list[int]] = [*getattr(self, "seen", []), [len(turns) for turns in rollout.completions.turns]]
        self.rollout = rollout
        self.experience = super().make_experience(rollout, rewards)  # type: ignore[misc]
        return self.experience


class WatchedGRPO(Watches, GRPO): ...
