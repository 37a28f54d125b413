"""The reward of a robot's program by how its run ended."""

from __future__ import annotations

import pytest
from support.completions import reward_of

from lit_rl.data import SimulatorReward
from lit_rl.execution.interface import Outcome, Verdict

PROGRAM = "def task_program():\n    go_to('küche')\n    pick('Öl')\n"


def ended(robot_verdict: str | None, verdict: Verdict = Verdict.EXCEPTION, line: int | None = None) -> Outcome:
    return Outcome(verdict, robot_verdict=robot_verdict, line=line)


def test_grades_rise_along_the_taxonomy() -> None:
    verdicts = ["python_error", "robot_execution_error", "completion_error", "success"]
    values = [reward_of(SimulatorReward(), PROGRAM, ended(verdict)).rewards.item() for verdict in verdicts]
    assert values == pytest.approx([0.0, 0.3, 0.6, 1.0])
    no_program = SimulatorReward(grades={"python_error": -1.0})
    assert reward_of(no_program, "", Outcome(Verdict.NO_PROGRAM)).rewards.tolist() == [-1.0]
    assert reward_of(SimulatorReward(), PROGRAM, Outcome(Verdict.SYNTAX_ERROR)).rewards.tolist() == [0.0]
    assert not reward_of(SimulatorReward(), PROGRAM, Outcome(Verdict.INFRASTRUCTURE_FAILURE)).valid.item(), "no zero"
