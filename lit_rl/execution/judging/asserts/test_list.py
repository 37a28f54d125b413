"""The single tests in the source of assert tests: their number, and code that goes on after a test that fails.

A test is a statement that can fail, at the top level or in a function that the tests run, such as ``check``. In a loop
there over something whose length the tests write out, the statement is one test per round. Any other loop is one test,
and so is a method of a test class.
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Collection, Iterator
from typing import TypeGuard

from lit_rl.execution.grading.names import FAILED, HELD
from lit_rl.execution.judging.asserts.evidence import called_name, noted_evidence_number

_GUARDED = (
    *(ast.Assert, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete, ast.Expr, ast.For, ast.If, ast.Match),
    *(ast.Raise, ast.Return, ast.Try, ast.While, ast.With),
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_CHANGING = ("add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update")
_AS_LONG = ("enumerate", "list", "reversed", "sorted", "tuple")
_MAX_ROUNDS = 10**9
Body = list[ast.stmt]


class TestList:
    """The tests of a module in which an ``EvidenceInserter`` noted the evidence."""

    __test__ = False

    def __init__(self, tree: ast.Module, run: Collection[str]) -> None:
        self._tree, self._run = tree, run
        self._values = _values_bound_once(tree)
        plain = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and _runs_when_called(node)}
        mentioned = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        called = Counter(
            _name_only_callee(one) for top in tree.body for one in (top.body if _is_main_guard(top) else [top])
        )
        # A function is a list of tests if each call of it is a statement by itself, so that no test sees it fail.
        self._listed = {
            name: node
            for name, node in plain.items()
            if mentioned[name] == called[name] and (name in run or called[name])
        }
        self._times = called
        self._helpers = {name for name, node in plain.items() if _contains_evidence_note(node)} - self._listed.keys()

    def count(self) -> int:
        classes = (node for node in self._tree.body if isinstance(node, ast.ClassDef) and node.name in self._run)
        methods = (item for node in classes for item in node.body if isinstance(item, ast.FunctionDef))
        return sum(method.name.startswith("test") for method in methods) + sum(
            times * self._is_test(statement, note)
            for body, times in self._test_bodies()
            for statement, note in _statements_with_notes(body)
        )

    def continue_after_failures(self) -> None:
        """Make the module report every test and continue after failures."""
        for body, _ in list(self._test_bodies()):
            body[:] = [
                new
                for statement, note in _statements_with_notes(body)
                for new in self._wrap_statement(
                    statement, [] if note is None else [note], self._is_test(statement, note)
                )
            ]

    def _wrap_statement(self, statement: ast.stmt, notes: Body, is_test: bool) -> Body:
        """Wrap a statement so that its failure is reported, and the names that it would have bound are then unbound."""
        is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_constant or not isinstance(statement, _GUARDED):
            return [statement, *notes]
        names = ", ".join(dict.fromkeys(_assigned_names(statement)))
        unbind = f"\n    {names.replace(', ', ' = ')} = None\n    del {names}" if names else ""
        held = f"\n    {HELD}()" if is_test else ""
        made = ast.parse(f"try:\n    pass{held}\nexcept:\n    {FAILED}({is_test}){unbind}").body[0]
        assert isinstance(made, ast.Try)
        for node in ast.walk(made):
            if isinstance(node, ast.expr | ast.stmt | ast.ExceptHandler):
                ast.copy_location(node, statement)
        made.body[:1] = [statement, *notes]
        return [made]

    def _test_bodies(self) -> Iterator[tuple[Body, int]]:
        """Yield each body whose statements may be tests, and how often the body runs."""
        yield from self._nested_test_bodies(self._tree.body, 1)
        for name, function in self._listed.items():
            marks = [mark.args[1] for mark in function.decorator_list if isinstance(mark, ast.Call)]
            times = max(1, self._times[name]) * math.prod(self._literal_length(cases) or 1 for cases in marks)
            yield from self._nested_test_bodies(function.body, times)

    def _nested_test_bodies(self, body: Body, times: int) -> Iterator[tuple[Body, int]]:
        yield body, times
        for statement in body:
            if _is_main_guard(statement):
                yield from self._nested_test_bodies(statement.body, times)
            elif (rounds := self._num_rounds(statement)) is not None and isinstance(statement, ast.For):
                yield from self._nested_test_bodies(statement.body, times * rounds)

    def _num_rounds(self, statement: ast.stmt) -> int | None:
        """Return the number of rounds of a loop that always makes all rounds, if its length is written out."""
        if not isinstance(statement, ast.For) or statement.orelse:
            return None
        leaves = any(isinstance(node, ast.Break | ast.Continue | ast.Return) for node in ast.walk(statement))
        return None if leaves else self._literal_length(statement.iter)

    def _is_test(self, statement: ast.stmt, note: ast.stmt | None) -> bool:
        if isinstance(statement, _DEFINITIONS) or _is_main_guard(statement) or self._num_rounds(statement) is not None:
            return False
        called = called_name(statement.value) if isinstance(statement, ast.Expr) else ""
        return called not in self._listed and (
            note is not None or called in self._helpers or _contains_evidence_note(statement)
        )

    def _literal_length(self, node: ast.expr, most: int = 9) -> int | None:
        """Return the number of items of an iterable that the tests write out; follow names at most ``most`` times."""
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return None if any(isinstance(item, ast.Starred) for item in node.elts) else len(node.elts)
        if isinstance(node, ast.Dict):
            return None if None in node.keys else len(node.keys)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            return len(node.value)
        if isinstance(node, ast.Name) and node.id in self._values and most:
            return self._literal_length(self._values[node.id], most - 1)
        if not isinstance(node, ast.Call):
            return None
        name, args = called_name(node), node.args
        if isinstance(node.func, ast.Attribute):
            return self._literal_length(node.func.value, most) if name in ("items", "keys", "values") else None
        if name in _AS_LONG and args:
            return self._literal_length(args[0], most)
        sizes = [
            self._range_argument(part, most) if name == "range" else self._literal_length(part, most) for part in args
        ]
        known = [size for size in sizes if size is not None]
        if name not in ("range", "zip") or not known or len(known) < len(sizes):
            return None
        return min(known) if name == "zip" else len(range(*known[:3])) if 0 not in known[2:] else None

    def _range_argument(self, node: ast.expr, most: int) -> int | None:
        """Return the value of an argument of ``range`` that is a number or the length of something."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, int) and node.value < _MAX_ROUNDS else None
        is_length = isinstance(node, ast.Call) and called_name(node) == "len" and len(node.args) == 1
        return self._literal_length(node.args[0], most) if is_length and isinstance(node, ast.Call) else None


def _statements_with_notes(body: Body) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if noted_evidence_number(statement) is None:
            yield statement, None if after is None or noted_evidence_number(after) is None else after


def _runs_when_called(function: ast.FunctionDef) -> bool:
    """Return whether calling a function runs it; its only decorators may be pytest's ``parametrize``."""
    marks = function.decorator_list
    cases = [mark for mark in marks if called_name(mark) == "parametrize" and isinstance(mark, ast.Call)]
    waits = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
    return not waits and len(cases) == len(marks) and all(len(mark.args) > 1 for mark in cases)


def _is_main_guard(statement: ast.stmt) -> TypeGuard[ast.If]:
    """Return whether a statement is ``if __name__ == "__main__":``."""
    test = statement.test if isinstance(statement, ast.If) and not statement.orelse else None
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _name_only_callee(statement: ast.stmt) -> str:
    """Return the function that a statement such as ``check(f)`` calls with names as the only arguments."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Name):
        return ""
    return call.func.id if all(isinstance(argument, ast.Name) for argument in call.args) else ""


def _contains_evidence_note(node: ast.stmt) -> bool:
    return any(isinstance(part, ast.Expr) and noted_evidence_number(part) is not None for part in ast.walk(node))


def _assigned_names(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds in its own scope, also those bound by loops and blocks in it."""
    if isinstance(statement, (*_DEFINITIONS, ast.Delete)):
        return
    blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    blocks += [part.body for name in ("handlers", "cases") for part in getattr(statement, name, [])]
    for inner in blocks:
        for one in inner:
            yield from _assigned_names(one)
    targets = [*getattr(statement, "targets", []), getattr(statement, "target", None)]
    targets += [item.optional_vars for item in getattr(statement, "items", [])]
    for target in targets:
        for node in ast.walk(target) if target is not None else ():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _values_bound_once(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the values of names that the tests bind only once, to something that nothing changes."""
    bound: Counter[str] = Counter()
    values: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] += 1
        elif isinstance(node, ast.arg):
            bound[node.arg] += 2
        elif isinstance(node, ast.Assign):
            values |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Attribute) and node.attr in _CHANGING and isinstance(node.value, ast.Name):
            bound[node.value.id] += 2
    return {name: value for name, value in values.items() if bound[name] == 1}
