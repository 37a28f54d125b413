"""Rewards of a robot's program: its run in simulated worlds, and the share of its errands that are done."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from lit_rl.arguments import UsageError
from lit_rl.data.robots.robot_checks import RobotCheck, RobotWorlds
from lit_rl.data.robots.trace_checks import holds_or_false
from lit_rl.execution.interface import Outcome
from lit_rl.rewards.places import Places, blame_line, rows, unjudged
from lit_rl.rewards.program_tests import merge_grades
from lit_rl.rewards.term import RewardTerm, Span, TermScore
from lit_rl.types import Completions, Judgement, Problem

Mode = Literal["graded", "conjuncts"]

GRADES: Final[Mapping[str, float]] = {
    "python_error": 0.0,
    "robot_execution_error": 0.3,
    "completion_error": 0.6,
    "success": 1.0,
}
_BROKEN_OFF = ("python_error", "robot_execution_error")


class SimulatorReward(RewardTerm):
    """Reward for a service robot's program, from its run in a simulated world.

    ``graded`` gives each robot verdict its grade, in the order Python error < execution error < completion
    error < success; a completion without a program counts as a Python error. ``conjuncts`` gives the share of
    the task's conditions that its trace meets (the outcome's score ``conjuncts``).

    The call that the world refused, or the line of a Python error, loses the reward: it gets
    ``value - value of a success``, the rest is spread evenly.

    Args:
        weight: factor in the reward.
        name: name in logs.
        mode: ``graded`` or ``conjuncts``.
        grades: grades by robot verdict that replace the default ones; they must not fall along that order.

    Raises:
        ValueError: an unknown mode or verdict, or a grade that is not a number or breaks the order.
    """

    default_name = "simulator"

    def __init__(
        self,
        weight: float = 1.0,
        name: str | None = None,
        mode: Mode = "graded",
        grades: dict[str, float] | None = None,
    ) -> None:
        super().__init__(weight, name)
        self.mode = mode
        self.grades = merge_grades(self, GRADES, grades)
        ordered = list(self.grades.values())
        if ordered != sorted(ordered):
            raise UsageError(f"SimulatorReward.grades must not fall from {' to '.join(GRADES)}, got {ordered}")

    def check_problem(self, problem: Problem) -> None:
        """Raise ValueError if the problem has no worlds."""
        if not isinstance(problem.check, RobotCheck):
            raise UsageError(f"SimulatorReward needs robot worlds, but its check is {type(problem.check).__name__}")

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions; none where the sandbox failed."""
        full = self.grades["success"] if self.mode == "graded" else 1.0
        return [
            unjudged(judgement) or blame_line(text, judgement, self._value(judgement.outcome), full)
            for text, judgement in rows(completions, judgements)
        ]

    def _value(self, outcome: Outcome) -> float:
        if self.mode == "graded":
            return self.grades[outcome.robot_verdict or "python_error"]
        # A program that never ran met no condition.
        return outcome.scores.get("conjuncts", 1.0 if outcome.passed else 0.0)


class ErrandsReward(RewardTerm):
    """Share of the errands that a robot's program does, 0 to 1.

    An errand is done if its condition holds in every world that the program was run in. One that is not done loses
    its share of the reward. In a program that broke off, the line where it did loses the shares of all that are not
    done. In a program that ran to its end each errand's own lines lose it: from the first that names a room, thing
    or person of this errand to the one before the next that names one of another errand. An errand that the program
    never names has no place.

    Args:
        weight: factor in the reward.
        name: name in logs.
    """

    default_name = "errands"

    def check_problem(self, problem: Problem) -> None:
        """Raise ValueError if the problem is not one of several errands."""
        if not isinstance(problem.check, RobotWorlds) or "errands" not in problem.fields:
            raise UsageError("ErrandsReward needs a task of several errands: set RobotTasks.num_errands to 2 or more")

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions; none where the sandbox failed or the problem has no errands."""
        return [unjudged(judgement) or _score(text, judgement) for text, judgement in rows(completions, judgements)]


def _score(text: str, judgement: Judgement) -> TermScore:
    outcome, errands = judgement.outcome, judgement.problem.fields.get("errands")
    if not errands or not isinstance(judgement.problem.check, RobotWorlds):
        return TermScore(None, reason="the problem has no errands")
    done = [_is_done(number, judgement.problem.check, outcome) for number in range(len(errands))]
    value = sum(done) / len(done)
    if judgement.program is None or outcome.robot_verdict in _BROKEN_OFF:
        return blame_line(text, judgement, value, 1.0)
    places = Places(text, judgement.program)
    found = _lines(judgement.program.source, [errand["names"] for errand in errands])
    missing = [lines for lines, is_done in zip(found, done, strict=True) if lines and not is_done]
    spans = (_span(places, first, last, -1 / len(done)) for first, last in missing)
    return TermScore(value, tuple(span for span in spans if span is not None))


def _is_done(number: int, check: RobotWorlds, outcome: Outcome) -> bool:
    """Return whether the errand's part of the condition holds in every world that was started."""
    # A world's condition is ["and", ...] with a formula for each errand, in their order.
    pairs = list(zip(check.tests, outcome.traces, strict=False))
    return bool(pairs) and all(holds_or_false(test.check[1 + number], trace) for test, trace in pairs)


def _lines(source: str, names: Sequence[Sequence[str]]) -> list[tuple[int, int] | None]:
    """The first and the last line of each errand, counted from 1; ``None`` for one that is never named."""
    patterns = [re.compile("|".join(rf"\b{re.escape(name)}\b" for name in of_one), re.IGNORECASE) for of_one in names]
    lines = re.split(r"\r\n|\r|\n", source.rstrip())
    naming = [[i for i, line in enumerate(lines) if pattern.search(line)] for pattern in patterns]
    starts = sorted({i for of_one in naming for i in of_one} | {len(lines)})
    # A line without any name is about the same thing as the one before it.
    return [(of_one[0] + 1, min(i for i in starts if i > of_one[-1])) if of_one else None for of_one in naming]


def _span(places: Places, first: int, last: int, value: float) -> Span | None:
    """From the beginning of a line to the end of another, without the blank ones at its end."""
    found = [span for line in range(first, last + 1) if (span := places.line_span(line, value)) is not None]
    return replace(found[0], end=found[-1].end) if found else None
