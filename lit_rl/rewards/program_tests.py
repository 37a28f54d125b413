"""Reward for passing the program's tests: the main reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, Literal

from lit_rl.errors import UsageError
from lit_rl.execution.checks import Check
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.rewards.token_credit import score_charging_failed_line, valueless_score_if_unjudged
from lit_rl.signature_check import FiniteFloat
from lit_rl.types import Completions, Judgement, Problem

Mode = Literal["all", "fraction", "graded"]

GRADES: Final[Mapping[str, float]] = {
    Verdict.NO_PROGRAM: -1.0,
    Verdict.SYNTAX_ERROR: -1.0,
    Verdict.EXCEPTION: -0.6,
    Verdict.TIMED_OUT: -0.6,
    Verdict.OUT_OF_MEMORY: -0.6,
    Verdict.OUTPUT_LIMIT: -0.6,
    Verdict.WRONG_ANSWER: -0.3,
    Verdict.PASSED: 1.0,
}


class TestsReward(RewardTerm):
    """Reward for passing the tests.

    ``all`` gives 1 if every test passed, else 0. ``fraction`` gives passed tests over all tests, and never 1
    without the verdict passed; ``docs/sandbox.md`` says what one test is. If the check scores groups of tests,
    or its checker gives points, ``fraction`` is the mean of these scores.
    ``graded`` gives each verdict its grade.

    If the failing line is known, that line gets ``value - value of a pass``, and the value of a pass is spread evenly
    over the program. Otherwise the value is spread evenly.

    Args:
        mode: ``all``, ``fraction`` or ``graded``.
        grades: grades by verdict that replace the default ones; read by ``graded`` only.

    Source:
        default grades: Le et al. 2022 (CodeRL), eq. 4, https://arxiv.org/abs/2207.01780; limits that were
        exceeded count as failures at run time.
    """

    __test__ = False  # the name does not make it a test of pytest
    default_name = "tests"

    def __init__(
        self,
        weight: float = 1.0,
        name: str | None = None,
        mode: Mode = "all",
        grades: dict[str, FiniteFloat] | None = None,
    ) -> None:
        super().__init__(weight, name)
        self.mode = mode
        if type(self) is TestsReward:
            self.needs_every_case = mode == "fraction"
        self.grades = merge_grades(self, GRADES, grades)

    def check_problem(self, problem: Problem) -> None:
        if problem.check.num_tests == 0:
            raise UsageError(f"TestsReward needs tests, but the check is {type(problem.check).__name__}")

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        full = self.grades[Verdict.PASSED] if self.mode == "graded" else 1.0
        scores = []
        for text, judgement in zip(completions.texts, judgements, strict=True):
            score = valueless_score_if_unjudged(judgement)
            if score is None:
                value = self._reward_of_outcome(judgement.problem.check, judgement.outcome)
                score = score_charging_failed_line(text, judgement, value, full, at_once=self.mode == "all")
            scores.append(score)
        return scores

    def _reward_of_outcome(self, check: Check, outcome: Outcome) -> float:
        if self.mode == "graded":
            return self.grades[outcome.verdict]
        if self.mode == "all" or outcome.passed:
            return float(outcome.passed)
        if check.stages:
            return fmean(outcome.scores.get(stage, 0.0) for stage in check.stages)
        passed = sum(case is Verdict.PASSED for case in outcome.cases)
        # A program that died after its last test still failed: the death counts as one more test.
        return passed / max(check.num_tests, len(outcome.cases), passed + 1)


def merge_grades(
    owner: RewardTerm, defaults: Mapping[str, float], given: Mapping[str, float] | None
) -> dict[str, float]:
    """Return the default grades, with the given grades in their place."""
    for key in given or ():
        if key not in defaults:
            known = ", ".join(defaults)
            raise UsageError(f"{type(owner).__name__}.grades has an unknown verdict {key!r}: use {known}")
    return {**defaults, **(given or {})}
