"""A small world for a service robot, checks in it, and programs for it."""

from __future__ import annotations

from typing import Any

from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.execution import Outcome
from lit_rl.execution.sandbox import Sandbox

STATE = {
    "locations": ["kitchen", "hall", "start_loc"],
    "objects": {"kitchen": ["cup", "plate"]},
    "agents": {"hall": [{"name": "ann", "answers": ["yes", "no"]}]},
    "robot_location": "start_loc",
}
SAID_HI = ["exists", "trace", ["Say", "hi"]]


def worlds(*checks: Any, should_timeout: bool = False, timeout_seconds: float = 1.0) -> RobotWorlds:
    tests = tuple(RobotTest(STATE, should_timeout, check) for check in (checks or (True,)))
    return RobotWorlds(tests, timeout_seconds)


def program(*lines: str) -> str:
    return "def task_program():\n" + "".join(f"    {line}\n" for line in lines)


def judge(sandbox: Sandbox, source: str, check: Any = None) -> Outcome:
    (outcome,) = sandbox.judge_many([(source, check or worlds())])
    return outcome
