"""Checks of service-robot programs, with worlds as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from lit_rl.data.robots.robot_program import code_span
from lit_rl.execution.interface import Check
from lit_rl.execution.program import ExtractedProgram, Extraction, WantedProgram, program_in_span
from lit_rl.signature_check import PositiveInt, Seconds, ValueLimit, checked_dataclass


class RobotCheck(Check):
    """A service robot's program, run in simulated worlds; outcomes carry a ``robot_verdict``."""

    def extract(
        self, text: str, wanted: WantedProgram | None = None, extraction: Extraction = "answer"
    ) -> ExtractedProgram | None:
        """Return the first Python block, or the whole text, as RoboEval reads completions."""
        start, end = code_span(text)
        return program_in_span(text, start, end, fenced=start > 0)


@dataclass(frozen=True)
class RobotTest:
    """One world and what must be true of the robot's trace in it (plain JSON data).

    Args:
        state: ``locations``, ``objects``, ``agents``, ``robot_location``.
        should_timeout: whether a time-out is no fault; the check then runs on the trace collected so far.
        check: formula over the trace, as JSON lists.
    """

    state: dict[str, Any]
    should_timeout: bool
    check: Any


@checked_dataclass
@dataclass(frozen=True)
class RobotWorlds(RobotCheck):
    """Check of service-robot programs: ``task_program()`` is run in each world, and its trace is checked.

    Args:
        tests: the worlds, run in order.
        timeout_seconds: CPU seconds for one world.
    """

    tests: Annotated[tuple[RobotTest, ...], ValueLimit("at least one", len, "every program would pass")]
    timeout_seconds: Seconds = 1.0

    judged_by: ClassVar[str] = "lit_rl.data.robots.robot_judge:judge_robot_worlds"

    @property
    def num_tests(self) -> int:
        return len(self.tests)


@checked_dataclass
@dataclass(frozen=True)
class InventedWorlds(RobotCheck):
    """Check without a given world: each run invents a world, which the robot's program must not contradict.

    Args:
        num_worlds: number of runs, each in a new world.
        seed: seed of the worlds; the same seed and program give the same runs.
        timeout_seconds: CPU seconds for one run.

    Source:
        RoboSim: Hu et al. 2024, "Robo-Instruct", https://arxiv.org/abs/2405.20179 (100 runs of 2 s)
    """

    num_worlds: PositiveInt = 100
    seed: int = 0
    timeout_seconds: Seconds = 2.0

    judged_by: ClassVar[str] = "lit_rl.data.robots.robot_judge:judge_invented_worlds"

    @property
    def num_tests(self) -> int:
        return self.num_worlds
