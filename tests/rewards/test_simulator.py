import pytest
from support.completions import problem, reward_of

from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rewards import SimulatorReward

WORLDS = RobotWorlds((RobotTest({"locations": []}, False, []),))
PROGRAM = "def task_program():\n    go_to('küche')\n    pick('Öl')\n"


def ended(robot_verdict: str | None, verdict: Verdict = Verdict.EXCEPTION, line: int | None = None) -> Outcome:
    return Outcome(verdict, robot_verdict=robot_verdict, line=line, scores={"conjuncts": 0.75})


def test_grades_rise_along_the_taxonomy() -> None:
    verdicts = ["python_error", "robot_execution_error", "completion_error", "success"]
    values = [reward_of(SimulatorReward(), PROGRAM, ended(verdict)).rewards.item() for verdict in verdicts]
    assert values == pytest.approx([0.0, 0.3, 0.6, 1.0])
    no_program = SimulatorReward(grades={"python_error": -1.0})
    assert reward_of(no_program, "", Outcome(Verdict.NO_PROGRAM)).rewards.tolist() == [-1.0]
    conjuncts = SimulatorReward(mode="conjuncts")
    assert reward_of(conjuncts, PROGRAM, ended("completion_error")).rewards.tolist() == [0.75]
    assert reward_of(conjuncts, PROGRAM, Outcome(Verdict.SYNTAX_ERROR)).rewards.tolist() == [0.0]
    assert not reward_of(SimulatorReward(), PROGRAM, Outcome(Verdict.INFRASTRUCTURE_FAILURE)).valid.item(), "no zero"


def test_the_refused_call_pays() -> None:
    output = reward_of(SimulatorReward(), "a\nb", ended("robot_execution_error", line=2))
    # 1 spread over three letters, and -0.7 on b
    assert output.credit[0].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3 - 0.7, 0.0])


def test_wrong_arguments_and_tasks_are_named() -> None:
    with pytest.raises(ValueError, match="needs robot worlds, but its check is AssertTests"):
        SimulatorReward().check_problem(problem())
    SimulatorReward().check_problem(problem(WORLDS))
    with pytest.raises(ValueError, match=r"grades must not fall from python_error to .* got \[0.9, 0.3, 0.6, 1.0\]"):
        SimulatorReward(grades={"python_error": 0.9})
    with pytest.raises(ValueError, match=r"SimulatorReward\.mode: expected one of .graded., .conjuncts., got 'x'"):
        SimulatorReward(mode="x")  # type: ignore[arg-type]
