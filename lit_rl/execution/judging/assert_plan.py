"""Tests that are only literal asserts, taken apart: calls for the program, comparisons for us.

``assert f(1) == 2`` becomes the call ``f(1)``, which goes to the program's process, and ``_0 == 2``, which is
evaluated here on what came back. Tests that do more than that get a grader process instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from lit_rl.execution.judging.careful_builtins import CAREFUL
from lit_rl.execution.judging.names_in_tests import program_names

# Pure functions of plain data whose cost is linear in it.
_PURE: Mapping[str, Any] = {
    kind.__name__: kind for kind in (bool, bytes, complex, dict, float, frozenset, int, list, range, set, str, tuple)
} | {"abs": abs, "len": len, "max": max, "min": min, "round": round, "sorted": sorted, "sum": sum}

_SIMPLE_NODES = (
    ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Load,
    ast.cmpop, ast.boolop, ast.unaryop, ast.Subscript, ast.Slice,
)  # fmt: skip
_ARGUMENT_NODES = (*_SIMPLE_NODES, ast.BinOp, ast.operator)
_LINEAR_OPERATORS = (ast.Add, ast.Sub, ast.Div)


@dataclass(frozen=True)
class Call:
    """One call with plain arguments."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Assertion:
    """A comparison over the results of calls.

    Args:
        calls: positions in the plan's calls; result ``i`` is called ``_i`` in ``code``.
        code: compiled expression.
        first_line: where it stands in the test.
    """

    calls: tuple[int, ...]
    code: CodeType
    line: int

    def holds(self, results: Mapping[int, Any]) -> bool:
        """Whether the comparison is true for these results, by call position."""
        names = {f"_{i}": results[i] for i in self.calls}
        return bool(eval(self.code, {"__builtins__": {}, **_PURE, **CAREFUL}, names))


@dataclass(frozen=True)
class AssertPlan:
    """Calls in the order of the test, and what must hold of their results."""

    calls: tuple[Call, ...]
    assertions: tuple[Assertion, ...]


class _NotLiteral(Exception):
    """The test does more than compare results of literal calls."""


@lru_cache(maxsize=512)
def plan_asserts(test: str, entry_point: str | None) -> AssertPlan | None:
    """The plan of a test, or ``None`` if it needs a grader."""
    try:
        tree = ast.parse(test)
        return _Planner(test, tree, entry_point).plan()
    except (_NotLiteral, SyntaxError, ValueError, RecursionError):
        return None


class _Planner:
    """Walks a test once; raises ``_NotLiteral`` at the first thing that is more than a literal assert."""

    def __init__(self, test: str, tree: ast.Module, entry_point: str | None) -> None:
        self._tree = tree
        self._entry_point = entry_point
        self._names = program_names(test, tree, entry_point)
        self._alias: dict[str, str] = {}
        self._calls: list[Call] = []
        self._assertions: list[Assertion] = []

    def plan(self) -> AssertPlan:
        check = self._check_function()
        if self._entry_point is not None and check is None:
            self._alias["candidate"] = self._entry_point
        for statement in self._tree.body:
            if statement is check:
                self._alias = {check.args.args[0].arg: str(self._entry_point)}
                self._body(check.body)
                self._alias = {}
            elif not self._is_call_of_check(statement):
                self._body([statement])
        if not self._calls:
            raise _NotLiteral
        return AssertPlan(tuple(self._calls), tuple(self._assertions))

    def _check_function(self) -> ast.FunctionDef | None:
        for statement in self._tree.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "check":
                if self._entry_point is None or len(statement.args.args) != 1 or statement.decorator_list:
                    raise _NotLiteral
                return statement
        return None

    def _is_call_of_check(self, statement: ast.stmt) -> bool:
        call = statement.value if isinstance(statement, ast.Expr) else None
        return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check"

    def _body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.Assert):
                self._assertion(statement)
            elif isinstance(statement, ast.Assign):
                ast.literal_eval(statement.value)  # such as METADATA; using the name is not literal
                if any(name in _PURE or name in self._names for name in _bound(statement)):
                    raise _NotLiteral
            elif not _does_nothing(statement):
                raise _NotLiteral

    def _assertion(self, statement: ast.Assert) -> None:
        first = len(self._calls)
        expression = ast.fix_missing_locations(_Results(self).visit(statement.test))
        code = compile(ast.Expression(expression), "<test>", "eval")
        self._assertions.append(Assertion(tuple(range(first, len(self._calls))), code, statement.lineno))

    def resolve(self, function: ast.expr) -> str | None:
        """Name of the program's function that is called here, or ``None`` for a pure builtin."""
        if not isinstance(function, ast.Name):
            raise _NotLiteral
        name = self._alias.get(function.id, function.id)
        if name in self._names:
            return name
        if name in _PURE:
            return None
        raise _NotLiteral

    def add_call(self, name: str, node: ast.Call) -> ast.expr:
        """Plan a call of the program; the name that its result will have."""
        args = tuple(self._argument(arg) for arg in node.args)
        kwargs = {str(item.arg): self._argument(item.value) for item in node.keywords if item.arg}
        if len(kwargs) != len(node.keywords):
            raise _NotLiteral
        self._calls.append(Call(name, args, kwargs))
        return ast.Name(f"_{len(self._calls) - 1}", ast.Load())

    def _argument(self, node: ast.expr) -> Any:
        """The value of an expression of the test that calls nothing of the program."""
        called = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
        for part in ast.walk(node):
            pure = isinstance(part, ast.Call) and not part.keywords and self.resolve(part.func) is None
            known = isinstance(part, ast.Name) and part.id in _PURE and part.id not in self._names
            if isinstance(part, ast.Name) and known and not isinstance(_PURE[part.id], type):
                known = id(part) in called  # a function as an argument is no plain data
            if not (pure or known or isinstance(part, _ARGUMENT_NODES)):
                raise _NotLiteral
        try:
            code = compile(ast.Expression(node), "<test>", "eval")
            return eval(code, {"__builtins__": {}, **_PURE})
        except Exception:
            raise _NotLiteral from None


class _Results(ast.NodeTransformer):
    """Replaces the program's calls by names and refuses what is not linear in their results."""

    def __init__(self, planner: _Planner) -> None:
        self._planner = planner

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Call):
            name = self._planner.resolve(node.func)
            if name is not None:
                return self._planner.add_call(name, node)
            if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
                raise _NotLiteral
            node.args = [self.visit(arg) for arg in node.args]
            if isinstance(node.func, ast.Name) and node.func.id in ("range", "bytes") and not _constant(node):
                raise _NotLiteral
            return node
        if isinstance(node, ast.BinOp):
            if not isinstance(node.op, _LINEAR_OPERATORS) and not _constant(node):
                raise _NotLiteral
        elif not isinstance(node, (*_SIMPLE_NODES, ast.operator)):
            raise _NotLiteral
        # ``and``/``or`` and chains skip calls that Python would not make: a grader keeps their order.
        if isinstance(node, ast.BoolOp) and any(isinstance(part, ast.Call) for part in ast.walk(node)):
            raise _NotLiteral
        return self.generic_visit(node)


def _constant(node: ast.AST) -> bool:
    """Whether no result of the program is in there."""
    return not any(isinstance(part, ast.Name) and part.id not in _PURE for part in ast.walk(node))


def _bound(statement: ast.Assign) -> Iterator[str]:
    for target in statement.targets:
        yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def _does_nothing(statement: ast.stmt) -> bool:
    text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return text or isinstance(statement, ast.Pass)
