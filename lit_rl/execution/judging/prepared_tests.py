"""Test code made ready for a grader, once per test and not once per program."""

from __future__ import annotations

import ast
import marshal
from functools import lru_cache
from typing import Any, NamedTuple

from lit_rl.execution.judging.names_in_tests import program_names

PASSED = "__lit_rl_passed__"


class PreparedTests(NamedTuple):
    """What a grader needs to run tests.

    Args:
        code: the compiled tests, packed; every assert is followed by a call that counts it.
        names: names that mean the program's.
        calls_check: whether the tests call their function ``check`` themselves.
    """

    code: bytes
    names: tuple[str, ...]
    calls_check: bool


@lru_cache(maxsize=512)
def prepare_tests(test: str, entry_point: str | None) -> PreparedTests:
    """Compile the tests for a grader.

    Raises:
        ValueError: if they are not Python: a fault of the problem, never of a program.
    """
    try:
        tree = ast.parse(test)
        names = program_names(test, tree, entry_point)
        calls_check = any(_is_call_of_check(node) for node in tree.body)
        counted = ast.fix_missing_locations(_CountPassed().visit(tree))
        code = compile(counted, "<test>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"the test code of this problem does not compile: {error}") from None
    return PreparedTests(marshal.dumps(code), tuple(sorted(names)), calls_check)


class _CountPassed(ast.NodeTransformer):
    """Puts one statement after every assert."""

    def visit_Assert(self, node: ast.Assert) -> Any:
        step = ast.parse(f"{PASSED}()").body[0]
        return [node, ast.copy_location(step, node)]


def _is_call_of_check(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check"
