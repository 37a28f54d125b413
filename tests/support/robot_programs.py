"""Run our own robot programs in this process; others run in the sandbox only."""

from __future__ import annotations

from lit_rl.data.robots.robot_program import prepare
from lit_rl.data.robots.service_robot import FUNCTIONS, RobotError, ServiceRobot
from lit_rl.data.robots.trace_checks import holds


def trace_of(program: str, state: dict) -> list:
    """Actions of the robot in a world."""
    robot = ServiceRobot(state)
    names = {name: getattr(robot, name) for name in FUNCTIONS}
    exec(compile(prepare(program).source + "\n\ntask_program()", "reference", "exec"), names)
    return robot.trace


def succeeds(program: str, tests) -> bool:
    """Return whether the condition of every world holds."""
    try:
        return all(holds(test.check, trace_of(program, test.state)) for test in tests)
    except RobotError:
        return False
