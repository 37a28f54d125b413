"""Judges of literal asserts and call tests: the program's process answers calls, the supervisor compares answers."""

from __future__ import annotations

import marshal
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from lit_rl.execution.checks import AssertTests, CallTests
from lit_rl.execution.interface import FailedCase, FaultyCheck, Outcome, Verdict
from lit_rl.execution.judging.asserts.assert_plan import Assertion, AssertPlan, Call, plan_asserts
from lit_rl.execution.judging.graded import judge_with_grader
from lit_rl.execution.judging.supervising.child_files import ChildFiles, read_whole
from lit_rl.execution.judging.supervising.jobs import JobReport, ZygoteClient
from lit_rl.execution.judging.verdicts import (
    describe_exit,
    outcome_of_child,
    parse_exception_line,
    verdict_of_child,
    verdict_of_error,
)
from lit_rl.execution.wire import plain
from lit_rl.execution.wire.bounded_json import describe_not_carried
from lit_rl.execution.wire.program_messages import Description, whole_lines
from lit_rl.execution.wire.value_text import call_text, shorten_text, value_text

_MARSHALLED = frozenset((bool, bytes, complex, float, int, str, type(None), type(...)))
_MARSHALLED_DEEP = _MARSHALLED | {dict, list, tuple}
_MAX_SHOWN_LENGTH = 1 << 20  # bytes of an answer that is read once more to be shown
_MAX_CALLS = 10


def judge_asserts(client: ZygoteClient, program: str, check: AssertTests) -> Outcome:
    """Judge by the calls of a plan if the tests have a plan, and by two processes otherwise."""
    if not program.strip():
        return Outcome(Verdict.NO_PROGRAM)
    plan = assert_plan_of(check)
    if plan is None:
        return judge_with_grader(client, program, check)
    try:
        return judge_by_plan(client, program, check, plan) or judge_with_grader(client, program, check)
    except FaultyCheck as fault:  # found by a grader, which only the program made necessary
        return Outcome(Verdict.WRONG_ANSWER, stderr=str(fault))


def assert_plan_of(check: AssertTests) -> AssertPlan | None:
    """Return the plan of a check's tests, or ``None`` if the tests need a grader."""
    return None if check.in_place or check.allow_objects else plan_asserts(check.test, check.entry_point)


def judge_by_plan(client: ZygoteClient, program: str, check: AssertTests, plan: AssertPlan) -> Outcome | None:
    """Make the calls of a plan in the program's process, and its comparisons here.

    Returns:
        ``None`` if a grader must compare, because a comparison may be slow, or because one failed over an object of
        the program, whose operators only a grader can use.
    """
    with _make_child_files(program, plan.calls) as child:
        report = client.run([child], check.timeout_seconds)
        answers = _read_answers(client, program, child, report, len(plan.calls))
        if answers.compares_long_answers(plan):
            return None
        cases = answers.verdicts_of_plan(plan)
        if answers.failed_on_program_object(plan, cases):
            return None
        outcome = _outcome_of_calls(answers, cases, [one.calls for one in plan.assertions], child, report)
        failed = None if outcome.passed else failed_assert(answers, cases, plan, check.test)
        return replace(outcome, failed_case=failed)


def judge_python_calls(client: ZygoteClient, program: str, check: CallTests) -> Outcome:
    """Make one call per case, in order, in one process; compare the values here."""
    if not program.strip():
        return Outcome(Verdict.NO_PROGRAM)
    calls = case_calls(check)
    with _make_child_files(program, calls, check.in_place) as child:
        report = client.run([child], check.timeout_seconds, check.cpu_limit_factor)
        answers = _read_answers(client, program, child, report, len(calls))
        cases = answers.verdicts_of_calls(check)
        outcome = _outcome_of_calls(answers, cases, [(index,) for index in range(len(calls))], child, report)
        return outcome if outcome.passed else replace(outcome, failed_case=failed_call(answers, cases, calls, check))


def case_calls(check: CallTests) -> list[Call]:
    """Return the calls that a program is asked to make, one per case."""
    return [Call(check.entry_point, args, {}) for args, _ in check.cases]


def _make_child_files(program: str, calls: Sequence[Call], in_place: bool = False) -> ChildFiles:
    packed: list[Any] = []
    for call in calls:
        args, kwargs = list(call.args), dict(call.kwargs)
        if _survives_marshal(args) and _survives_marshal(kwargs):
            packed.append(marshal.dumps((call.name, args, kwargs)))
        else:
            packed.append(
                (call.name, plain.to_json_tree(args, refuse_object), plain.to_json_tree(kwargs, refuse_object))
            )
    return ChildFiles({"mode": "calls", "source": program, "calls": packed, "in_place": in_place})


def _survives_marshal(value: Any) -> bool:
    """Return whether marshal preserves a value; marshal turns an array into bytes, and loses the order of a set."""
    kind = type(value)
    if kind is dict:
        return _survives_marshal(list(value)) and _survives_marshal(list(value.values()))
    if kind is not list and kind is not tuple:
        return kind in _MARSHALLED
    kinds = set(map(type, value))
    return kinds <= _MARSHALLED or (kinds <= _MARSHALLED_DEEP and all(map(_survives_marshal, value)))


def refuse_object(value: Any) -> list[Any]:
    """Refuse an argument of the tests, or an answer of a host, that cannot be given to another process."""
    raise FaultyCheck(f"a test's argument must be plain data, got {type(value).__name__}")


def _read_answers(
    client: ZygoteClient, program: str, child: ChildFiles, report: JobReport, num_calls: int
) -> CallAnswers:
    status = report.children[0].status
    return CallAnswers(
        read_whole(child.channel),
        num_calls,
        verdict_of_child(client, child, report),
        lambda error: verdict_of_error(client, program, error, status),
    )


def _outcome_of_calls(
    answers: CallAnswers, cases: list[Verdict], made: Sequence[Sequence[int]], child: ChildFiles, report: JobReport
) -> Outcome:
    verdict, error = answers.verdict_and_error(cases, made)
    if verdict is Verdict.EXCEPTION and not error:
        error = describe_exit(report.children[0].status)
    return outcome_of_child(verdict, cases, child, report, error)


class CallAnswers:
    """Values by position of the call, and reasons for missing values; a value is read when it is compared.

    Args:
        content: what the program's process wrote: a line for its start, and a line per call; an object is an exception.
        num_calls: number of calls that were to be made; lines after the lines of these calls are not read.
        ended: the verdict, if the end of the process alone decides it.
        judge_error: returns the verdict on a program that describes an exception, which is the program's own word.
        read: reads the value in a line of another language's driver; by default, lines come from Python's driver.
    """

    def __init__(
        self,
        content: bytes,
        num_calls: int,
        ended: Verdict | None,
        judge_error: Callable[[Description], Verdict],
        read: Callable[[bytes], Any] | None = None,
    ) -> None:
        self._lines = whole_lines(content, num_calls + 1)
        self._ended = ended
        self._judge_error = judge_error
        self._read = read
        self._refused: dict[int, plain.NotCarried] = {}
        self.start_error = parse_exception_line(self._lines[0]) if self._lines else None

    def value(self, index: int, expected: Any = None) -> Any:
        try:
            line = self._lines[index + 1]
            return self._read(line) if self._read else plain.loads(line, beside_large=_is_slow_to_compare(expected))
        except plain.NotCarried as error:
            self._refused[index] = error
            raise

    def compares_long_answers(self, plan: AssertPlan) -> bool:
        """Return whether an assert compares long answers with each other, which can be slow and is a grader's work."""
        compared = (assertion.calls for assertion in plan.assertions if len(assertion.calls) > 1)
        return any(
            len(self._lines.get(index + 1, b"")) > plain.DIGITS_BESIDE_OTHERS for calls in compared for index in calls
        )

    def error(self, index: int) -> Description | None:
        """Return why a call gave no value: its exception, an earlier end of the program, or a value not carried."""
        refused = self._refused.get(index)
        return self._exception_of_call(index) or (None if refused is None else describe_not_carried(refused))

    def _exception_of_call(self, index: int) -> Description | None:
        line = self._lines.get(index + 1)
        return self.start_error or (None if line is None else parse_exception_line(line))

    def text(self, index: int) -> str:
        """Return the value of a call as text; empty if it returned nothing."""
        line = self._lines.get(index + 1)
        if line is None or line.startswith(b"{"):
            return ""
        if len(line) > _MAX_SHOWN_LENGTH:
            return f"<a value of {len(line)} bytes>"
        try:
            return value_text(self.value(index))
        except plain.NotPlain:
            return ""

    def first_failed(self, cases: Sequence[Verdict]) -> int | None:
        """Return the index of the first case that did not pass; ``None`` if the start or all cases together failed."""
        if not self._lines or self.start_error or self._ended in (Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_LIMIT):
            return None
        return _first_failed_index(cases)

    def verdict_if_missing(self, index: int) -> Verdict | None:
        """Return the verdict that explains a missing value; ``None`` if the value was returned."""
        if self._ended in (Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_LIMIT):
            return self._ended
        if self.start_error:
            return self._verdict_of_failed_start
        if error := self._exception_of_call(index):
            return self._judge_error({**error, "stage": "run"})
        if index + 1 in self._lines:
            return None
        return self._ended or Verdict.EXCEPTION

    @cached_property
    def _verdict_of_failed_start(self) -> Verdict | None:
        """The verdict on a program that ended before the first call, determined once for all calls."""
        return self._judge_error(self.start_error) if self.start_error else None

    def verdicts_of_plan(self, plan: AssertPlan) -> list[Verdict]:

        def holds(assertion: Assertion) -> bool:
            return assertion.holds({index: self.value(index) for index in assertion.calls})

        missing = (filter(None, map(self.verdict_if_missing, assertion.calls)) for assertion in plan.assertions)
        return [
            next(bad, None) or _verdict_of_comparison(holds, one)
            for bad, one in zip(missing, plan.assertions, strict=True)
        ]

    def failed_on_program_object(self, plan: AssertPlan, cases: Sequence[Verdict]) -> bool:
        """Return whether the first failed assert compared something other than plain data."""
        for assertion, verdict in zip(plan.assertions, cases, strict=True):
            if verdict is Verdict.WRONG_ANSWER:
                try:
                    return any(_holds_object(self.value(index)) for index in assertion.calls)
                except plain.NotPlain:
                    return False
            if verdict is not Verdict.PASSED:
                return False
        return False

    def verdicts_of_calls(self, check: CallTests) -> list[Verdict]:

        def holds(index: int, expected: Any) -> bool:
            value = self.value(index, expected)
            return value_matches(value, expected, check) or (check.in_list and value_matches(value, [expected], check))

        return [
            self.verdict_if_missing(index) or _verdict_of_comparison(holds, index, one)
            for index, (_, one) in enumerate(check.cases)
        ]

    def verdict_and_error(
        self, cases: Sequence[Verdict], calls: Sequence[Sequence[int]]
    ) -> tuple[Verdict, Description | None]:
        """Return the verdict of the first case that did not pass, and the exception that explains the verdict."""
        bad = _first_failed_index(cases)
        if bad is None:
            return Verdict.PASSED, None
        return cases[bad], next(filter(None, map(self.error, calls[bad])), self.start_error)


def _first_failed_index(cases: Sequence[Verdict]) -> int | None:
    return next((index for index, verdict in enumerate(cases) if verdict is not Verdict.PASSED), None)


def _is_slow_to_compare(expected: Any) -> bool:
    """Return whether an expected value is as long as an int that is slow to compare with values of some types."""
    try:
        return len(marshal.dumps(expected)) > plain.DIGITS_BESIDE_OTHERS // 2
    except ValueError:  # not of a type that marshal knows
        return False


def _holds_object(value: Any) -> bool:
    """Return whether a value is an object of the program's, or holds one at any depth."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_holds_object(item) for item in value)
    return isinstance(value, plain.Opaque)


def value_matches(value: Any, expected: Any, check: CallTests) -> bool:
    """Return whether a value is the expected one: same kind of container, numbers equal or within tolerance."""
    if check.as_evalplus:
        return bool(value == expected) or _is_close_like_evalplus(value, expected, check.tolerance)
    if hasattr(value, "shape") and isinstance(expected, list | tuple):  # numpy's array where lists are expected
        value = value.tolist()
    if isinstance(expected, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return _is_close(value, expected, check.tolerance)
    if isinstance(expected, list | tuple) and (
        type(value) is type(expected)
        or (isinstance(value, tuple) and isinstance(expected, tuple))  # one may be a named tuple
        or (isinstance(value, list | tuple) and check.as_json)
    ):
        return len(value) == len(expected) and all(
            value_matches(item, other, check) for item, other in zip(value, expected, strict=True)
        )
    if isinstance(expected, dict) and isinstance(value, dict):
        if check.as_json:
            value, expected = _with_text_keys(value), _with_text_keys(expected)
        return value.keys() == expected.keys() and all(
            value_matches(value[key], expected[key], check) for key in expected
        )
    return bool(value == expected)


def _with_text_keys(values: dict[Any, Any]) -> dict[Any, Any]:
    """Return a dict as JSON stores it, if all of its keys are numbers; return any other dict as it is."""
    numbers = all(type(key) in (int, float) for key in values)
    return {repr(key): value for key, value in values.items()} if numbers else values


def _is_close(value: float, expected: float, tolerance: float) -> bool:
    if value == expected or (math.isnan(expected) and value != value):
        return True
    return tolerance > 0 and math.isclose(value, expected, rel_tol=tolerance, abs_tol=tolerance)


def _is_close_like_evalplus(value: Any, expected: Any, tolerance: float) -> bool:
    """Compare as ``np.testing.assert_allclose`` does, if EvalPlus uses that function for values of this kind."""
    values, numbers = (list(one) if isinstance(one, list | tuple) else [one] for one in (value, expected))
    are_floats = bool(numbers) and all(isinstance(number, float) for number in numbers)
    slack = tolerance or (1e-6 if are_floats else 0.0)
    if not slack or type(value) is not type(expected) or len(values) != len(numbers):
        return False
    if not all(isinstance(one, int | float | complex) for one in (*values, *numbers)):
        return False
    return all(
        one == other or abs(one - other) <= slack + 1e-7 * abs(other) < math.inf
        for one, other in zip(values, numbers, strict=True)
    )


def _verdict_of_comparison(comparison: Callable[..., bool], *arguments: Any) -> Verdict:
    try:
        return Verdict.PASSED if comparison(*arguments) else Verdict.WRONG_ANSWER
    except Exception:  # comparing 3 with None and the like: the value is not what was asked for
        return Verdict.WRONG_ANSWER


def failed_call(
    answers: CallAnswers, cases: Sequence[Verdict], calls: Sequence[Call], check: CallTests
) -> FailedCase | None:
    """Return the first case whose call did not return the expected value."""
    index = answers.first_failed(cases)
    if index is None:
        return None
    return FailedCase(index + 1, _call_text(calls[index]), value_text(check.cases[index][1]), answers.text(index))


def failed_assert(answers: CallAnswers, cases: Sequence[Verdict], plan: AssertPlan, test: str) -> FailedCase | None:
    """Return the first assert of a plan that does not hold; ``test`` is the source from which the plan was made."""
    failed = answers.first_failed(cases)
    if failed is None:
        return None
    assertion = plan.assertions[failed]
    made = assertion.calls[:_MAX_CALLS]
    call = "; ".join(_call_text(plan.calls[index]) for index in made)
    actual = "; ".join(filter(None, map(answers.text, made)))
    return FailedCase(failed + 1, shorten_text(call), assertion.wanted_text(test), shorten_text(actual))


def _call_text(call: Call) -> str:
    return call_text(call.name, call.args, dict(call.kwargs))
