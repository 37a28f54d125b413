"""Reward of a robot's program, from its run in simulated worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lit_rl.data.robots.robot_checks import RobotCheck
from lit_rl.errors import UsageError
from lit_rl.rewards.program_tests import merge_grades
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.rewards.token_credit import score_charging_failed_line, valueless_score_if_unjudged
from lit_rl.signature_check import FiniteFloat
from lit_rl.types import Completions, Judgement, Problem

GRADES: Final[Mapping[str, float]] = {
    "python_error": 0.0,
    "robot_execution_error": 0.3,
    "completion_error": 0.6,
    "success": 1.0,
}


class SimulatorReward(RewardTerm):
    """Reward for a service robot's program, from its run in a simulated world.

    Each robot verdict has a grade, in the order Python error < execution error < completion error < success; a
    completion without a program counts as a Python error.

    The call that the world refused, or the line of a Python error, is charged ``value - value of a success``;
    the value of a success is spread evenly over the program.

    Args:
        grades: grades by robot verdict that replace the default ones; they should not fall in that order.
    """

    default_name = "simulator"

    def __init__(
        self, weight: float = 1.0, name: str | None = None, grades: dict[str, FiniteFloat] | None = None
    ) -> None:
        super().__init__(weight, name)
        self.grades = merge_grades(self, GRADES, grades)

    def check_problem(self, problem: Problem) -> None:
        if not isinstance(problem.check, RobotCheck):
            raise UsageError(f"SimulatorReward needs robot worlds, but the check is {type(problem.check).__name__}")

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        values = [self.grades[judgement.outcome.robot_verdict or "python_error"] for judgement in judgements]
        rows = zip(completions.texts, judgements, values, strict=True)
        return [
            valueless_score_if_unjudged(judgement)
            or score_charging_failed_line(text, judgement, value, self.grades["success"])
            for text, judgement, value in rows
        ]
