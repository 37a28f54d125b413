"""The first case that did not pass, as shown to a reader. Computed only for programs that failed."""

from __future__ import annotations

from collections.abc import Sequence

from lit_rl.execution.checks import CallTests
from lit_rl.execution.judging.answers import Answers
from lit_rl.execution.judging.assert_plan import AssertPlan, Call
from lit_rl.execution.judging.child_files import read_ends
from lit_rl.execution.judging.comparing import Expected
from lit_rl.execution.outcome import FailedCase, Verdict
from lit_rl.execution.wire.value_text import LONGEST_SHOWN, call_text, shortened, value_text

_MOST_CALLS = 10
_MOST_PRINTED = 4 * LONGEST_SHOWN  # bytes at each end; a character has up to four


def failed_call(
    answers: Answers, cases: Sequence[Verdict], calls: Sequence[Call], check: CallTests
) -> FailedCase | None:
    """The first case whose call did not give what it should.

    Args:
        answers: of the program.
        cases: verdict of each case.
        calls: calls that were asked for, one per case.
        check: holds the expected values.
    """
    index = _first_failed(answers, cases)
    if index is None:
        return None
    return FailedCase(index + 1, _shown(calls[index]), value_text(check.cases[index][1]), answers.text(index))


def failed_assert(answers: Answers, cases: Sequence[Verdict], plan: AssertPlan, test: str) -> FailedCase | None:
    """The first assert of a plan that does not hold; ``test`` is the source that the plan was made of."""
    failed = _first_failed(answers, cases)
    if failed is None:
        return None
    assertion = plan.assertions[failed]
    made = assertion.calls[:_MOST_CALLS]
    call = "; ".join(_shown(plan.calls[index]) for index in made)
    actual = "; ".join(filter(None, map(answers.text, made)))
    return FailedCase(failed + 1, shortened(call), assertion.wanted(test), shortened(actual))


def failed_output(stdin: str, expected: Expected, stdout: int) -> FailedCase:
    """A case whose output is not the expected one; the only one of its process, and so number 1.

    Args:
        stdin: what the program read.
        expected: output, or several that are accepted, of which the first is shown.
        stdout: descriptor of what the program printed.
    """
    accepted = expected if isinstance(expected, str) else expected[0]
    printed = read_ends(stdout, _MOST_PRINTED).decode("utf-8", "replace")
    return FailedCase(1, shortened(stdin), shortened(accepted), shortened(printed), "input")


def _first_failed(answers: Answers, cases: Sequence[Verdict]) -> int | None:
    if not answers.single_out_a_case:
        return None
    return next((index for index, verdict in enumerate(cases) if verdict is not Verdict.PASSED), None)


def _shown(call: Call) -> str:
    return call_text(call.name, call.args, dict(call.kwargs))
