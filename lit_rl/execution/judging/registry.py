"""From a program and its check to an outcome. Runs in the supervisor."""

from __future__ import annotations

from importlib import import_module

from lit_rl.execution.checks import AssertTests, BuildAndRun, CallTests, Check, InventedWorlds, RobotWorlds, StdioTests
from lit_rl.execution.judging.assert_plan import plan_asserts
from lit_rl.execution.judging.calls import judge_calls, judge_plan
from lit_rl.execution.judging.graded import judge_graded
from lit_rl.execution.judging.jobs import ZygoteClient
from lit_rl.execution.judging.stdio import judge_stdio
from lit_rl.execution.outcome import Outcome, Verdict


def judge(client: ZygoteClient, program: str, check: Check) -> Outcome:
    """What happens when ``program`` is run against ``check``.

    Raises:
        TypeError: for a check that is not judged by running a program.
    """
    program = program.removeprefix("\ufeff")
    if isinstance(check, RobotWorlds | InventedWorlds):
        # Loaded when needed: it brings the simulator along.
        judge_robot = import_module("lit_rl.execution.judging.robot_worlds").judge_robot
        outcome: Outcome = judge_robot(client, program, check)
        return outcome
    if isinstance(check, BuildAndRun):
        judge_build = import_module("lit_rl.execution.judging.build").judge_build_and_run
        built: Outcome = judge_build(program, check, client.settings.temporary_folder)
        return built
    if not program.strip():
        return Outcome(Verdict.NO_PROGRAM)
    if isinstance(check, AssertTests):
        plan = None if check.in_place or check.allow_objects else plan_asserts(check.test, check.entry_point)
        if plan is not None:
            return judge_plan(client, program, check, plan)
        return judge_graded(client, program, check)
    if isinstance(check, CallTests):
        return judge_calls(client, program, check)
    if isinstance(check, StdioTests):
        return judge_stdio(client, program, check)
    raise TypeError(f"{type(check).__name__} is not judged by running a program")
