"""Reward of a robot's program: its run in simulated worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from lit_rl.data.robots.robot_checks import RobotCheck
from lit_rl.errors import UsageError
from lit_rl.execution.interface import Outcome
from lit_rl.rewards.program_tests import merge_grades
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.rewards.token_credit import score_charging_line, texts_and_judgements, valueless_score_if_unjudged
from lit_rl.signature_check import FiniteFloat
from lit_rl.types import Completions, Judgement, Problem

Mode = Literal["graded", "conjuncts"]

GRADES: Final[Mapping[str, float]] = {
    "python_error": 0.0,
    "robot_execution_error": 0.3,
    "completion_error": 0.6,
    "success": 1.0,
}


class SimulatorReward(RewardTerm):
    """Reward for a service robot's program, from its run in a simulated world.

    ``graded`` gives each robot verdict its grade, in the order Python error < execution error < completion
    error < success; a completion without a program counts as a Python error. ``conjuncts`` gives the share of
    the task's conditions that its trace meets (the outcome's score ``conjuncts``).

    The call that the world refused, or the line of a Python error, is charged ``value - value of a success``;
    the value of a success is spread evenly over the program.

    Args:
        mode: ``graded`` or ``conjuncts``.
        grades: grades by robot verdict that replace the default ones; along that order, they should not fall.
    """

    default_name = "simulator"

    def __init__(
        self,
        weight: float = 1.0,
        name: str | None = None,
        mode: Mode = "graded",
        grades: dict[str, FiniteFloat] | None = None,
    ) -> None:
        super().__init__(weight, name)
        self.mode = mode
        self.grades = merge_grades(self, GRADES, grades)

    def check_problem(self, problem: Problem) -> None:
        if not isinstance(problem.check, RobotCheck):
            raise UsageError(f"SimulatorReward needs robot worlds, but the check is {type(problem.check).__name__}")

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        full = self.grades["success"] if self.mode == "graded" else 1.0
        return [
            valueless_score_if_unjudged(judgement)
            or score_charging_line(text, judgement, self._outcome_value(judgement.outcome), full)
            for text, judgement in texts_and_judgements(completions, judgements)
        ]

    def _outcome_value(self, outcome: Outcome) -> float:
        if self.mode == "graded":
            return self.grades[outcome.robot_verdict or "python_error"]
        # A program that never ran met no condition.
        return outcome.scores.get("conjuncts", 1.0 if outcome.passed else 0.0)
