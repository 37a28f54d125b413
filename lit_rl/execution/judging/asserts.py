"""Python test code: taken apart where it only compares literal calls, else run by a grader."""

from __future__ import annotations

from lit_rl.execution.checks import AssertTests
from lit_rl.execution.judging.assert_plan import AssertPlan, plan_asserts
from lit_rl.execution.judging.calls import judge_plan
from lit_rl.execution.judging.graded import judge_graded
from lit_rl.execution.judging.jobs import ZygoteClient
from lit_rl.execution.outcome import Outcome, Verdict


def judge_asserts(client: ZygoteClient, program: str, check: AssertTests) -> Outcome:
    """Calls of a plan if there is one, two processes otherwise."""
    if not program.strip():
        return Outcome(Verdict.NO_PROGRAM)
    plan = plan_of(check)
    outcome = None if plan is None else judge_plan(client, program, check, plan)
    return outcome or judge_graded(client, program, check)


def plan_of(check: AssertTests) -> AssertPlan | None:
    """The plan of a check's tests, or ``None`` if they need a grader."""
    return None if check.in_place or check.allow_objects else plan_asserts(check.test, check.entry_point)
