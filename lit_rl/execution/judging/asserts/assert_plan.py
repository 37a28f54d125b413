"""Plans of literal asserts: calls for the program, comparisons for the supervisor.

``assert f(1) == 2`` becomes the call ``f(1)``, which goes to the program's process, and ``_0 == 2``, which is
evaluated here on what came back. Tests that do more than that get a grader process instead.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import CodeType
from typing import Any

from lit_rl.execution.judging.asserts.evidence import static_truth
from lit_rl.execution.judging.asserts.literal_expressions import (
    CAREFUL,
    IMPORTED,
    PURE,
    NotLiteral,
    evaluate_pure,
    take_calls_out_of_assert,
)
from lit_rl.execution.judging.asserts.prepared_tests import is_call_of_check, names_from_program
from lit_rl.execution.wire.value_text import source_excerpt, value_text

# Importing these does nothing but bind names, in every process.
_QUIET_MODULES = frozenset((
    "bisect", "cmath", "collections", "copy", "functools", "heapq", "itertools", "math", "operator", "re", "string",
    "typing",
))  # fmt: skip
# An int written out at this length is as slow to compare with some results as a large power.
_LARGE_INT = re.compile(r"0[xXoObB][0-9a-fA-F_]{100000}")
_KNOWN: Mapping[str, Any] = {"__builtins__": {}, **PURE, **CAREFUL, **IMPORTED}


@dataclass(frozen=True)
class Call:
    """One call with plain arguments."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Assertion:
    """A comparison of the results of calls, given by position in the plan; in ``code``, call ``i`` of these is ``_i``.

    If the assert only compares one call for equality, ``other_side`` is what the call's result must equal.
    """

    calls: tuple[int, ...]
    code: CodeType
    lines: tuple[int, int]
    values: Mapping[str, Any] = field(default_factory=dict)
    other_side: ast.expr | None = None

    def holds(self, results: Mapping[int, Any]) -> bool:
        """Return whether the comparison is true for these results, which are given by call position."""
        names = {f"_{index}": results[call] for index, call in enumerate(self.calls)}
        return bool(eval(self.code, {**_KNOWN}, {**self.values, **names}))

    def wanted_text(self, test: str) -> str:
        with contextlib.suppress(Exception):  # what the assert itself would raise
            if self.other_side is not None:
                return value_text(self._evaluate_other_side(self.other_side))
        return source_excerpt(test, *self.lines)

    def wanted_literal(self) -> Any:
        """Return the value that the result must equal; ``None`` if there is no such value."""
        with contextlib.suppress(Exception):
            return None if self.other_side is None else self._evaluate_other_side(self.other_side)

    def _evaluate_other_side(self, side: ast.expr) -> Any:
        code = compile(ast.Expression(side), "<test>", "eval")
        return eval(code, {**_KNOWN}, dict(self.values))


@dataclass(frozen=True)
class AssertPlan:
    """Calls in the order of the test, and the comparisons of their results."""

    calls: tuple[Call, ...]
    assertions: tuple[Assertion, ...]


@lru_cache(maxsize=512)
def plan_asserts(test: str, entry_point: str | None) -> AssertPlan | None:
    """Return the plan of a test, or ``None`` if the test needs a grader."""
    if _LARGE_INT.search(test):
        return None
    with contextlib.suppress(Exception):  # ``NotLiteral``, or what a literal expression raises
        return _AssertPlanner(test, ast.parse(test), entry_point).plan()
    return None


class _AssertPlanner:
    """Planner that walks a test once, and raises ``NotLiteral`` at the first statement that is not a literal assert."""

    def __init__(self, test: str, tree: ast.Module, entry_point: str | None) -> None:
        self._tree = tree
        self._entry_point = entry_point
        self._names = names_from_program(test, tree, entry_point)
        self._alias: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._imported: set[str] = set()
        self._calls: list[Call] = []
        self._assertions: list[Assertion] = []

    def plan(self) -> AssertPlan | None:
        functions = (node for node in self._tree.body if isinstance(node, ast.FunctionDef))
        check = next((function for function in functions if function.name == "check"), None)
        if check and (self._entry_point is None or len(check.args.args) != 1 or check.decorator_list):
            return None
        if self._entry_point is not None and check is None:
            self._alias["candidate"] = self._entry_point
        for statement in self._tree.body:
            if statement is check:
                self._alias = {check.args.args[0].arg: str(self._entry_point)}
                self._plan_body(check.body)
                self._alias = {}
            elif not is_call_of_check(statement):
                self._plan_body([statement])
        has_evidence = self._calls and self._assertions
        return AssertPlan(tuple(self._calls), tuple(self._assertions)) if has_evidence else None

    def _plan_body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.Assert):
                self._plan_assertion(statement)
            elif isinstance(statement, ast.Assign):
                self._plan_assignment(statement)
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                self._plan_import(statement)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue
            elif not isinstance(statement, ast.Pass):
                raise NotLiteral

    def _plan_assignment(self, statement: ast.Assign) -> None:
        value = self._literal_value(statement.value)  # such as METADATA
        for part in (part for target in statement.targets for part in ast.walk(target)):
            if isinstance(part, ast.Name):
                self._require_unbound_name(part.id)
                self._imported.discard(part.id)
        self._values |= {target.id: value for target in statement.targets if isinstance(target, ast.Name)}

    def _plan_import(self, statement: ast.Import | ast.ImportFrom) -> None:
        modules = [item.name for item in statement.names] if isinstance(statement, ast.Import) else [statement.module]
        if not _QUIET_MODULES.issuperset(modules) or (isinstance(statement, ast.ImportFrom) and statement.level):
            raise NotLiteral
        for item in statement.names:
            bound = item.asname or item.name
            origin = item.name if isinstance(statement, ast.Import) else f"{statement.module}.{item.name}"
            if (origin, bound) != ("math.isclose", "isclose"):
                self._require_unbound_name(bound)
            if bound in ("isclose", "math"):
                self._imported.add(origin)
            if isinstance(statement, ast.ImportFrom):
                value = getattr(import_module(str(statement.module)), item.name)
                if statement.module == "math" and isinstance(value, float):
                    self._values[bound] = value

    def _require_unbound_name(self, name: str) -> None:
        """Refuse to bind a name that means something else anywhere in the test."""
        taken = name in self._names or name in self._alias or name in self._values
        if taken or name in PURE or name == "isclose" or re.fullmatch(r"_\d+", name):
            raise NotLiteral

    def _plan_assertion(self, statement: ast.Assert) -> None:
        if static_truth(statement.test):  # an assert that always holds is no evidence
            if any(isinstance(part, ast.Call) for part in ast.walk(statement.test)):
                raise NotLiteral
            return
        code, found, wanted = take_calls_out_of_assert(statement.test, self._program_function_name, self._values)
        calls = tuple(self._add_call(name, node) for name, node in found)
        lines = statement.lineno, statement.end_lineno or statement.lineno
        self._assertions.append(Assertion(calls, code, lines, self._values, wanted))

    def _program_function_name(self, function: ast.expr) -> str | None:
        """Return the name of the program's function that is called here, or ``None`` for a pure builtin."""
        if isinstance(function, ast.Attribute):
            name, imported = ast.unparse(function), "math"
        else:
            name, imported = getattr(function, "id", ""), "math.isclose"
            name = self._alias.get(name, name)
        if name in self._names:
            return name
        if name in PURE or (name in ("isclose", "math.isclose") and imported in self._imported):
            return None
        raise NotLiteral

    def _add_call(self, name: str, node: ast.Call) -> int:
        """Plan a call of the program; return its position."""
        args: list[Any] = []
        for argument in node.args:
            inner = argument.value if isinstance(argument, ast.Starred) else argument
            value = self._literal_value(inner)
            args += [value] if inner is argument else value
        if any(item.arg is None for item in node.keywords):
            raise NotLiteral
        kwargs = {str(item.arg): self._literal_value(item.value) for item in node.keywords}
        self._calls.append(Call(name, tuple(args), kwargs))
        return len(self._calls) - 1

    def _literal_value(self, node: ast.expr) -> Any:
        return evaluate_pure(node, self._program_function_name, self._values)
