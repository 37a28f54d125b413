"""The statement of a test that failed in a grader, as shown to a reader."""

from __future__ import annotations

import ast
import builtins
from functools import lru_cache

from lit_rl.execution.checks import AssertTests
from lit_rl.execution.judging.evidence import statements
from lit_rl.execution.judging.prepared_tests import prepare_tests
from lit_rl.execution.outcome import FailedCase
from lit_rl.execution.wire.value_text import lines_of, shortened

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
