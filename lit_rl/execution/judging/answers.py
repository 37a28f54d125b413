"""What came back from calls of a program, compared with what a test wants. Runs beside the tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lit_rl.execution.checks import CallTests
from lit_rl.execution.judging.assert_plan import AssertPlan
from lit_rl.execution.judging.verdicts import description_of, verdict_of_error
from lit_rl.execution.outcome import Verdict
from lit_rl.execution.wire import plain


class Answers:
    """Values by position of the call, and why the others are missing.

    Args:
        lines: what the program's process wrote: one for its start, one a call; an object is an exception.
        ended: the verdict that the end of the process alone decides, if it does.
    """

    def __init__(self, lines: Sequence[bytes], ended: Verdict | None) -> None:
        self.values: dict[int, Any] = {}
        self.errors: dict[int, dict[str, Any]] = {}
        self.start_error = description_of(lines[0]) if lines else None
        self._ended = ended
        for index, line in enumerate(lines[1:]):
            error = description_of(line)
            if error is not None:
                self.errors[index] = error
                continue
            try:
                self.values[index] = plain.loads(line)
            except plain.NotPlain:
                self.values[index] = plain.Opaque("unreadable")

    def missing(self, index: int) -> Verdict | None:
        """Why the value of a call is missing, or ``None`` if it is there."""
        if self._ended in (Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_LIMIT):
            return self._ended
        if self.start_error:
            return verdict_of_error(self.start_error)
        if index in self.errors:
            return verdict_of_error(self.errors[index])
        if index in self.values:
            return None
        return self._ended or Verdict.EXCEPTION

    def of_plan(self, plan: AssertPlan) -> list[Verdict]:
        """One verdict an assert."""
        cases = []
        for assertion in plan.assertions:
            bad = _first(self.missing(index) for index in assertion.calls)
            cases.append(bad or _holds(assertion.holds, self.values))
        return cases

    def of_calls(self, check: CallTests) -> list[Verdict]:
        """One verdict a case."""
        cases = []
        for index, (_, expected) in enumerate(check.cases):
            value = self.values.get(index)
            cases.append(self.missing(index) or _holds(matches, value, expected, check))
        return cases

    def overall(self, cases: Sequence[Verdict], last_call: Sequence[int]) -> tuple[Verdict, dict[str, Any] | None]:
        """The verdict of the first case that did not pass, and the exception that explains it.

        Args:
            cases: verdict of each case.
            last_call: position of each case's last call, -1 for none.
        """
        bad = next((i for i, verdict in enumerate(cases) if verdict is not Verdict.PASSED), None)
        if not cases:
            return self.missing(-1) or Verdict.PASSED, self.start_error
        if bad is None:
            return Verdict.PASSED, None
        return cases[bad], self.start_error or self.errors.get(last_call[bad])


def last_calls(plan: AssertPlan) -> list[int]:
    """Position of the last call of each assert."""
    return [assertion.calls[-1] if assertion.calls else -1 for assertion in plan.assertions]


def matches(value: Any, expected: Any, check: CallTests) -> bool:
    """Whether a value is the expected one: same kind of container, numbers equal or within tolerance."""
    if isinstance(expected, float) and isinstance(value, int | float) and not isinstance(value, bool):
        return _close(value, expected, check.tolerance)
    if isinstance(expected, list | tuple) and _same_kind(value, expected, check.tuples_are_lists):
        return len(value) == len(expected) and all(
            matches(item, other, check) for item, other in zip(value, expected, strict=True)
        )
    if isinstance(expected, dict) and isinstance(value, dict):
        return value.keys() == expected.keys() and all(matches(value[key], expected[key], check) for key in expected)
    return bool(value == expected)


def _same_kind(value: Any, expected: Any, tuples_are_lists: bool) -> bool:
    return type(value) is type(expected) or (tuples_are_lists and isinstance(value, list | tuple))


def _close(value: float, expected: float, tolerance: float) -> bool:
    if value == expected or (math.isnan(expected) and value != value):
        return True
    return tolerance > 0 and math.isclose(value, expected, rel_tol=tolerance, abs_tol=tolerance)


def _holds(comparison: Callable[..., bool], *arguments: Any) -> Verdict:
    try:
        return Verdict.PASSED if comparison(*arguments) else Verdict.WRONG_ANSWER
    except Exception:  # comparing 3 with None and the like: the value is not what was asked for
        return Verdict.WRONG_ANSWER


def _first(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    return next((verdict for verdict in verdicts if verdict is not None), None)
