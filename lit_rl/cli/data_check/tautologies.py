"""Asserts of tests that hold for every program that answers at all."""

from __future__ import annotations

import ast

from lit_rl.execution.checks import AssertTests
from lit_rl.execution.judging.asserts.evidence import truth_of
from lit_rl.types import Problem

_REFLEXIVE = (ast.Eq, ast.Is, ast.LtE, ast.GtE)


def idle_asserts(problem: Problem) -> list[str]:
    """The asserts of a problem that call a function and cannot fail, such as a value that is compared with itself."""
    if not isinstance(problem.check, AssertTests):
        return []
    try:
        nodes = list(ast.walk(ast.parse(problem.check.test)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [ast.unparse(node) for node in nodes if isinstance(node, ast.Assert) and _is_idle(node.test)]


def _is_idle(test: ast.expr) -> bool:
    if not any(isinstance(part, ast.Call) for part in ast.walk(test)):
        return False  # HumanEval has ``assert True, "This prints if this assert fails"``
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], _REFLEXIVE):
        return ast.dump(test.left) == ast.dump(test.comparators[0])
    return bool(truth_of(test))
