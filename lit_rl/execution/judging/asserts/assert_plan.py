"""Plans of literal asserts: calls for the program, comparisons for the supervisor.

``assert f(1) == 2`` becomes the call ``f(1)``, which goes to the program's process, and ``_0 == 2``, which is
evaluated here on what came back. Loops over literal lists are unrolled, and the helpers of EvalPlus's tests are
recognised. Tests that do more than that get a grader process instead.
"""

from __future__ import annotations

import ast
import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from types import CodeType
from typing import Any

from lit_rl.execution.judging.asserts.evidence import truth_of
from lit_rl.execution.judging.asserts.known_helpers import BUILTINS_OF_HELPERS, NAMES_OF_HELPERS, Compare, KnownHelpers
from lit_rl.execution.judging.asserts.literal_expressions import (
    CAREFUL,
    PURE,
    NotLiteral,
    Template,
    rounds,
    template_of,
    value_of,
)
from lit_rl.execution.judging.asserts.prepared_tests import is_call_of_check, program_names
from lit_rl.execution.wire.value_text import lines_of, value_text

# Importing these does nothing but bind names, in every process.
_QUIET_MODULES = frozenset((
    "bisect", "cmath", "collections", "copy", "functools", "heapq", "itertools", "math", "operator", "re", "string",
    "typing",
))  # fmt: skip
# Written out: as slow to compare with some results as a large power.
_LARGE_INT = re.compile(r"0[xXoObB][0-9a-fA-F_]{100000}")


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
        calls: positions in the plan's calls.
        code: compiled expression; the result of the assert's own call ``i`` is called ``_i`` in it.
        lines: its first and last line in the test.
        values: values of the test's own names.
        other_side: what the result of its only call must equal, if the assert is that simple.
    """

    calls: tuple[int, ...]
    code: CodeType
    lines: tuple[int, int]
    values: Mapping[str, Any] = field(default_factory=dict)
    other_side: ast.expr | None = None

    def holds(self, results: Mapping[int, Any]) -> bool:
        """Return whether the comparison is true for these results, by call position."""
        names = {f"_{index}": results[call] for index, call in enumerate(self.calls)}
        return bool(eval(self.code, {"__builtins__": {}, **PURE, **CAREFUL}, {**self.values, **names}))

    def wanted(self, test: str) -> str:
        """The value, or the source of the assert."""
        with contextlib.suppress(Exception):  # what the assert itself would raise
            if self.other_side is not None:
                return value_text(self._other_value(self.other_side))
        return lines_of(test, *self.lines)

    def literal(self) -> Any:
        """The value of the other side, if the assert is that simple."""
        with contextlib.suppress(Exception):
            return None if self.other_side is None else self._other_value(self.other_side)

    def _other_value(self, side: ast.expr) -> Any:
        code = compile(ast.Expression(side), "<test>", "eval")
        return eval(code, {"__builtins__": {}, **PURE, **CAREFUL}, dict(self.values))


@dataclass(frozen=True)
class HelperAssertion:
    """A helper of the test that compares the result of one call.

    Args:
        calls: the call's position, alone.
        compare: what the helper does.
        expected: its second argument.
        tolerance: its third.
    """

    calls: tuple[int, ...]
    compare: Compare
    expected: Any
    tolerance: float

    def holds(self, results: Mapping[int, Any]) -> bool:
        """Return whether the helper accepts the result of its call."""
        return self.compare(results[self.calls[0]], self.expected, self.tolerance)

    def literal(self) -> Any:
        """The second argument."""
        return self.expected

    def wanted(self, test: str) -> str:
        """The second argument."""
        return value_text(self.expected)


Expectation = Assertion | HelperAssertion


@dataclass(frozen=True)
class AssertPlan:
    """Calls in the order of the test, and the comparisons of their results."""

    calls: tuple[Call, ...]
    assertions: tuple[Expectation, ...]


@lru_cache(maxsize=512)
def plan_asserts(test: str, entry_point: str | None) -> AssertPlan | None:
    """The plan of a test, or ``None`` if it needs a grader."""
    try:
        if _LARGE_INT.search(test):
            return None
        tree = ast.parse(test)
        return _Planner(test, tree, entry_point).plan()
    except (NotLiteral, SyntaxError, ValueError, RecursionError):
        return None


class _Planner:
    """Walks a test once; raises ``NotLiteral`` at the first statement that is not a literal assert."""

    def __init__(self, test: str, tree: ast.Module, entry_point: str | None) -> None:
        self._tree = tree
        self._entry_point = entry_point
        self._names = program_names(test, tree, entry_point)
        self._alias: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._helpers = KnownHelpers()
        self._templates: dict[int, Template] = {}
        self._calls: list[Call] = []
        self._assertions: list[Expectation] = []

    def plan(self) -> AssertPlan:
        check = self._check_function()
        if self._entry_point is not None and check is None:
            self._alias["candidate"] = self._entry_point
        for statement in self._tree.body:
            if statement is check:
                self._alias = {check.args.args[0].arg: str(self._entry_point)}
                self._body(check.body)
                self._alias = {}
            elif not is_call_of_check(statement):
                self._body([statement])
        if not (self._calls and self._assertions):
            raise NotLiteral
        return AssertPlan(tuple(self._calls), tuple(self._assertions))

    def _check_function(self) -> ast.FunctionDef | None:
        for statement in self._tree.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "check":
                if self._entry_point is None or len(statement.args.args) != 1 or statement.decorator_list:
                    raise NotLiteral
                return statement
        return None

    def _body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.For):
                self._loop(statement)
            elif isinstance(statement, ast.Assign):
                self._assign(statement)
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                self._import(statement)
            elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
                if statement not in self._tree.body or not self._helpers.add(statement):
                    raise NotLiteral
            else:
                self._step(statement)

    def _step(self, statement: ast.stmt) -> None:
        """Plan a statement that may also be inside a loop."""
        if isinstance(statement, ast.Assert):
            self._assertion(statement)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            self._helper_call(statement.value)
        elif isinstance(statement, ast.Expr):
            if not isinstance(statement.value, ast.Constant):
                raise NotLiteral
        elif not isinstance(statement, ast.Pass):
            raise NotLiteral

    def _loop(self, loop: ast.For) -> None:
        if self._names & BUILTINS_OF_HELPERS:
            raise NotLiteral
        before = self._values
        self._require_free_names(loop.target)
        for values in rounds(loop, self._value):
            self._values = before | values
            for statement in loop.body:
                self._step(statement)
        self._values = before  # nothing after a loop may use its names

    def _assign(self, statement: ast.Assign) -> None:
        value = self._value(statement.value)  # such as METADATA, or the inputs of a loop
        self._require_free_names(*statement.targets)
        self._values |= {target.id: value for target in statement.targets if isinstance(target, ast.Name)}

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        modules = [item.name for item in statement.names] if isinstance(statement, ast.Import) else [statement.module]
        if not _QUIET_MODULES.issuperset(modules) or (isinstance(statement, ast.ImportFrom) and statement.level):
            raise NotLiteral
        for item in statement.names:
            bound = item.asname or item.name
            self._require_free(bound)
            if isinstance(statement, ast.ImportFrom):
                if not hasattr(import_module(str(statement.module)), item.name):
                    raise NotLiteral
                value = getattr(math, item.name, None)
                if statement.module == "math" and isinstance(value, float):
                    self._values[bound] = value

    def _require_free_names(self, *targets: ast.expr) -> None:
        names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        for name in names:
            self._require_free(name)

    def _require_free(self, name: str) -> None:
        """Refuse to bind a name that means something else anywhere in the test."""
        taken = name in self._names or name in self._alias or name in self._values
        if taken or name in PURE or name in BUILTINS_OF_HELPERS | NAMES_OF_HELPERS or re.fullmatch(r"_\d+", name):
            raise NotLiteral

    def _assertion(self, statement: ast.Assert) -> None:
        if truth_of(statement.test):  # it always holds, which is no evidence
            if any(isinstance(part, ast.Call) for part in ast.walk(statement.test)):
                raise NotLiteral
            return
        template = self._templates.get(id(statement))
        if template is None:
            template = template_of(statement.test, self._resolve, self._values)
            self._templates[id(statement)] = template
        calls = tuple(self._add_call(name, node) for name, node in template.calls)
        values = {name: self._values[name] for name in template.names}
        lines = statement.lineno, statement.end_lineno or statement.lineno
        self._assertions.append(Assertion(calls, template.code, lines, values, template.wanted))

    def _helper_call(self, call: ast.Call) -> None:
        """``assertion(f(*inp), exp, 0)``."""
        compare = self._helpers.comparison(call.func.id) if isinstance(call.func, ast.Name) else None
        if compare is None or call.keywords or len(call.args) != 3 or self._names & BUILTINS_OF_HELPERS:
            raise NotLiteral
        result, expected, tolerance = call.args[0], self._value(call.args[1]), self._value(call.args[2])
        name = self._resolve(result.func) if isinstance(result, ast.Call) else None
        if not isinstance(result, ast.Call) or name is None or not isinstance(tolerance, int | float):
            raise NotLiteral
        if not _accepts(compare, expected, tolerance):
            raise NotLiteral  # a grader reports what is wrong with such tests
        position = self._add_call(name, result)
        self._assertions.append(HelperAssertion((position,), compare, expected, tolerance))

    def _resolve(self, function: ast.expr) -> str | None:
        """Name of the program's function that is called here, or ``None`` for a pure builtin."""
        if not isinstance(function, ast.Name):
            raise NotLiteral
        name = self._alias.get(function.id, function.id)
        if name in self._names:
            return name
        if name in PURE:
            return None
        raise NotLiteral

    def _add_call(self, name: str, node: ast.Call) -> int:
        """Plan a call of the program; return its position."""
        args: list[Any] = []
        for argument in node.args:
            value = self._value(argument.value if isinstance(argument, ast.Starred) else argument)
            if isinstance(argument, ast.Starred) and not isinstance(value, list | tuple):
                raise NotLiteral
            args += value if isinstance(argument, ast.Starred) else [value]
        kwargs = {str(item.arg): self._value(item.value) for item in node.keywords if item.arg}
        if len(kwargs) != len(node.keywords):
            raise NotLiteral
        self._calls.append(Call(name, tuple(args), kwargs))
        return len(self._calls) - 1

    def _value(self, node: ast.expr) -> Any:
        return value_of(node, self._resolve, self._values)


def _accepts(compare: Compare, expected: Any, tolerance: float) -> bool:
    """Return whether a helper accepts the expected value itself."""
    try:
        return compare(expected, expected, tolerance)
    except Exception:
        return False
