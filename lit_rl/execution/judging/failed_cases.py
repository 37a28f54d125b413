"""The first case that did not pass, as shown to a reader. Computed only for programs that failed."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from functools import lru_cache

from lit_rl.execution.checks import AssertTests, CallTests
from lit_rl.execution.judging.answers import Answers
from lit_rl.execution.judging.assert_plan import AssertPlan, Call
from lit_rl.execution.judging.child_files import read_ends
from lit_rl.execution.judging.comparing import Expected
from lit_rl.execution.judging.evidence import statements
from lit_rl.execution.judging.prepared_tests import prepare_tests
from lit_rl.execution.outcome import FailedCase, Verdict
from lit_rl.execution.wire.value_text import LONGEST_SHOWN, call_text, lines_of, shortened, value_text

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


_LONGEST_PARSED = 200_000
_SKIPPING = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def failed_statement(check: AssertTests, number: int, line: int, actual: str) -> FailedCase:
    """The case at a line of the tests.

    Args:
        check: holds the tests.
        number: 1-based number of the case.
        line: where the tests ended.
        actual: the program's last answer; shown if the statement asked the program just once.
    """
    source, asks_once = _statement_at(check.test, check.entry_point, line)
    return FailedCase(number, source, actual=shortened(actual) if asks_once else "", kind="assert")


@lru_cache(maxsize=512)
def _statement_at(test: str, entry_point: str | None, line: int) -> tuple[str, bool]:
    """The source of the innermost statement at a line, and whether it calls the program just once."""
    if len(test) > _LONGEST_PARSED:
        return lines_of(test, line, line), False
    around = [node for node in statements(ast.parse(test)) if node.lineno <= line <= (node.end_lineno or node.lineno)]
    if not around:
        return lines_of(test, line, line), False
    found = min(around, key=lambda node: (node.end_lineno or node.lineno) - node.lineno)
    if hasattr(found, "body"):  # a block: show only the line of its condition
        return lines_of(test, line, line), False
    source = lines_of(test, found.lineno, found.end_lineno or found.lineno)
    return source, _asks_once(found, {*prepare_tests(test, entry_point).names, "candidate"})


def _asks_once(statement: ast.stmt, names: set[str]) -> bool:
    """Whether the last answer of the program is what the statement compares."""
    if isinstance(statement, ast.Assert):
        parts = [statement.test]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        parts = statement.value.args
    else:
        return False
    nodes = [node for part in parts for node in ast.walk(part)]
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    calls = [name for name in calls if not (isinstance(name, ast.Name) and hasattr(builtins, name.id))]
    return (
        len(calls) == 1
        and isinstance(calls[0], ast.Name)
        and calls[0].id in names
        and not any(isinstance(node, _SKIPPING) for node in nodes)
    )
