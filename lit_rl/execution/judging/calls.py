"""Literal asserts and call tests: the program's process answers calls, the supervisor compares."""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lit_rl.execution.check_base import FaultyCheck
from lit_rl.execution.checks import AssertTests, CallTests
from lit_rl.execution.judging.answers import Answers, calls_of_asserts
from lit_rl.execution.judging.assert_plan import AssertPlan, Call, plan_asserts
from lit_rl.execution.judging.child_files import Child, read_whole
from lit_rl.execution.judging.failed_cases import failed_assert, failed_call
from lit_rl.execution.judging.graded import judge_graded
from lit_rl.execution.judging.jobs import JobReport, ZygoteClient
from lit_rl.execution.judging.verdicts import ended_early, how_it_ended, outcome_of, verdict_of_error
from lit_rl.execution.outcome import FailedCase, Outcome, Verdict
from lit_rl.execution.wire import plain


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


_MARSHALLED = frozenset((bool, bytes, complex, float, int, str, type(None), type(...)))
_MARSHALLED_DEEP = _MARSHALLED | {dict, list, tuple}


def judge_plan(client: ZygoteClient, program: str, check: AssertTests, plan: AssertPlan) -> Outcome | None:
    """Have the program's process make the calls of a plan; make the plan's comparisons here.

    Returns:
        ``None`` if a grader must compare: a comparison failed over an object of the program, whose operators only a
        grader can use, or may be slow.
    """
    with _child(program, plan.calls) as child:
        report = client.run([child], check.timeout_seconds)
        answers = _answers(client, program, child, report, len(plan.calls))
        if answers.compares_large(plan):
            return None
        cases = answers.of_plan(plan)
        if answers.failed_over_an_object(plan, cases):
            return None
        outcome = _outcome(answers, cases, calls_of_asserts(plan), child, report)
        return _telling(outcome, lambda: failed_assert(answers, cases, plan, check.test))


def judge_calls(client: ZygoteClient, program: str, check: CallTests) -> Outcome:
    """Make one call per case, in order, in one process; compare the values here."""
    if not program.strip():
        return Outcome(Verdict.NO_PROGRAM)
    calls = calls_of(check)
    with _child(program, calls, check.in_place) as child:
        report = client.run([child], check.timeout_seconds, max(1, len(calls)))
        answers = _answers(client, program, child, report, len(calls))
        cases = answers.of_calls(check)
        outcome = _outcome(answers, cases, [(index,) for index in range(len(calls))], child, report)
        return _telling(outcome, lambda: failed_call(answers, cases, calls, check))


def _telling(outcome: Outcome, failed_case: Callable[[], FailedCase | None]) -> Outcome:
    """An outcome with the case that failed, if one did."""
    return outcome if outcome.passed else replace(outcome, failed_case=failed_case())


def calls_of(check: CallTests) -> list[Call]:
    """The calls that a program is asked to make, one per case."""
    return [Call(check.entry_point, args, {}) for args, _ in check.cases]


def _child(program: str, calls: Sequence[Call], in_place: bool = False) -> Child:
    packed = [_packed(call) for call in calls]
    return Child({"mode": "calls", "source": program, "calls": packed, "in_place": in_place})


def _packed(call: Call) -> Any:
    """A call as the program's process reads it."""
    args, kwargs = list(call.args), dict(call.kwargs)
    if _marshals(args) and _marshals(kwargs):
        return marshal.dumps((call.name, args, kwargs))
    return call.name, plain.to_tree(args, _refuse), plain.to_tree(kwargs, _refuse)


def _marshals(value: Any) -> bool:
    """Whether marshal preserves a value: it turns an array into bytes, and loses the order of a set."""
    kind = type(value)
    if kind is dict:
        return _marshals(list(value)) and _marshals(list(value.values()))
    if kind is not list and kind is not tuple:
        return kind in _MARSHALLED
    kinds = set(map(type, value))
    return kinds <= _MARSHALLED or (kinds <= _MARSHALLED_DEEP and all(map(_marshals, value)))


def _refuse(value: Any) -> list[Any]:
    raise FaultyCheck(f"a test's argument must be plain data, got {type(value).__name__}")


def _answers(client: ZygoteClient, program: str, child: Child, report: JobReport, num_calls: int) -> Answers:
    status = report.children[0].status
    return Answers(
        read_whole(child.channel),
        num_calls,
        how_it_ended(client, child, report),
        lambda error: verdict_of_error(client, program, error, status),
    )


def _outcome(
    answers: Answers, cases: list[Verdict], made: Sequence[Sequence[int]], child: Child, report: JobReport
) -> Outcome:
    verdict, error = answers.overall(cases, made)
    if verdict is Verdict.EXCEPTION and not error:
        error = ended_early(report.children[0].status)
    return outcome_of(verdict, cases, child, report, error)
