"""The environment that never answers: each problem gets one turn."""

from __future__ import annotations

from collections.abc import Sequence

from lit_rl.rollout.environment import Attempt, Environment
from lit_rl.types import Problem


class SingleTurn(Environment):
    """The policy answers once."""

    def __init__(self) -> None:
        super().__init__(max_turns=1)

    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        """Nothing."""
        return None
