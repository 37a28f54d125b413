"""Evidence of a pass: every required assert must have run; it is not enough that none has failed."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from lit_rl.execution.grading.names import PASSED, PROBED, STOPPED

_EXPECTING = ("raises", "assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex", "assertLogs", "warns")

_ANSWERING = ("abs", "all", "any", "bool", "isinstance", "len", "print", "repr", "set", "sorted", "str", "type")


class EvidenceInserter(ast.NodeTransformer):
    """Inserts a call after every statement that can fail a test; the call records that the statement was passed.

    Such statements are asserts, calls of functions named ``assert...``, ``if`` and ``try`` statements that raise, and
    blocks that expect an exception. ``num_notes`` counts them; ``required`` holds those that no condition guards.
    """

    def __init__(self) -> None:
        self.num_notes = 0
        self.required: list[int] = []
        self._guarded = 0

    def visit(self, node: ast.AST) -> Any:
        """Visit one statement; leave expressions, which may be millions of numbers, as they are."""
        return node if isinstance(node, ast.expr) else super().visit(node)

    def visit_Module(self, node: ast.Module) -> ast.Module:
        node.body = self._visit_block(node.body)
        return node

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        """Visit an assert; an assert that always holds is no evidence."""
        return [node] if static_truth(node.test) else [node, self._make_evidence_note(node)]

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        """Let handlers of ``StopIteration`` also catch what replaces a ``StopIteration`` that left the program."""
        if node.type and any(isinstance(part, ast.Name) and part.id == "NameError" for part in ast.walk(node.type)):
            node.body.insert(0, ast.copy_location(ast.parse(f"{PROBED}()").body[0], node))
        node.type = _add_replaced_stop_iteration(node.type)
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        """Visit a call such as ``self.assertEqual(a, b)``; drop a runner's ``main``, as the grader runs the tests."""
        if _calls_test_runner(node):
            return ast.copy_location(ast.Pass(), node)
        _allow_replaced_stop_iteration(node.value)
        return [node, self._make_evidence_note(node)] if _calls_fallible_assert(node) else node

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        """Visit ``if not right: raise ...`` or ``if a != b: assert near(a, b)``; getting past either is a check."""
        raises = _always_raises([*node.body, *node.orelse]) or (_is_failure_condition(node.test) and can_fail(node))
        self._visit_conditional(node)
        return [node, self._make_evidence_note(node)] if raises else [node]

    def visit_Try(self, node: ast.Try) -> list[ast.stmt]:
        """Visit statements such as ``try: f() ... except ValueError: pass ... else: raise``."""
        raises = _always_raises([*node.body, *node.orelse])
        self._visit_conditional(node)
        return [node, self._make_evidence_note(node)] if raises else [node]

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        """Visit a ``with`` block; its content is required, unless the block is expected to raise."""
        for item in node.items:
            _allow_replaced_stop_iteration(item.context_expr)
        expects = any(called_name(item.context_expr) in _EXPECTING for item in node.items)
        if expects or _always_raises(node.body):
            self._visit_conditional(node)
        else:
            node.body = self._visit_block(node.body)
        return [node, self._make_evidence_note(node)] if expects else [node]

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit any other statement, whose blocks may not run."""
        return self._visit_conditional(node)

    def mark_asserts_required(self, function: ast.FunctionDef) -> None:
        """Count the asserts of a function's own block as required: the function is certain to be called."""
        for statement in function.body:
            number = noted_evidence_number(statement)
            if number is not None:
                self.required.append(number)
            elif any(isinstance(part, ast.Return) for part in ast.walk(statement)):
                return

    def _visit_block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            found = self.visit(statement)
            made += found if isinstance(found, list) else [found]
        return made

    def _visit_conditional(self, node: ast.AST) -> ast.AST:
        self._guarded += 1
        super().generic_visit(node)
        self._guarded -= 1
        return node

    def _make_evidence_note(self, node: ast.stmt) -> ast.stmt:
        if not self._guarded:
            self.required.append(self.num_notes)
        step = ast.parse(f"{PASSED}({self.num_notes})").body[0]
        self.num_notes += 1
        for part in ast.walk(step):
            if isinstance(part, ast.expr | ast.stmt):
                ast.copy_location(part, node)
        return step


def can_fail(tree: ast.AST, mute: frozenset[str] = frozenset()) -> bool:
    """Return whether a test has an assert, or anything else that fails it when something is wrong."""
    for node in walk_statements(tree):
        asserts = isinstance(node, ast.Expr) and _calls_fallible_assert(node) and called_name(node.value) not in mute
        if isinstance(node, ast.Raise) or asserts or (isinstance(node, ast.Assert) and not static_truth(node.test)):
            return True
        if isinstance(node, ast.With) and any(called_name(item.context_expr) in _EXPECTING for item in node.items):
            return True
    return False


def _calls_fallible_assert(node: ast.Expr) -> bool:
    """Return whether a statement calls an ``assert...`` function that may fail, judged by its arguments."""
    called = called_name(node.value)
    first, *more = node.value.args if isinstance(node.value, ast.Call) and node.value.args else [None]
    if called == "assertTrue" and first is not None:
        return static_truth(first) is not True
    if called == "assertFalse" and first is not None:
        return static_truth(first) is not False
    if called in ("assertEqual", "assertIs", "assertIn") and first is not None and more:
        return not all(isinstance(part, ast.Constant) for part in (first, more[0]))
    return called.startswith("assert")


def static_truth(node: ast.expr) -> bool | None:
    """Return the truth value that an expression has whatever its names mean; ``None`` if it depends on the names.

    ``assert (f(1) == 2, "message")`` holds for every program, because a tuple of two items is true.
    """
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.Lambda | ast.GeneratorExp):
        return True
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return _truth_of_container(node.elts, [item for item in node.elts if not isinstance(item, ast.Starred)])
    if isinstance(node, ast.Dict):
        return _truth_of_container(node.keys, [key for key in node.keys if key is not None])
    if isinstance(node, ast.JoinedStr):
        return True if any(isinstance(part, ast.Constant) and part.value for part in node.values) else None
    if isinstance(node, ast.NamedExpr):
        return static_truth(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = static_truth(node.operand)
        return None if inner is None else not inner
    if isinstance(node, ast.IfExp):
        first, second = static_truth(node.body), static_truth(node.orelse)
        return first if first == second else None
    if isinstance(node, ast.BoolOp):
        deciding = isinstance(node.op, ast.Or)
        parts = [static_truth(part) for part in node.values]
        return deciding if deciding in parts else (None if None in parts else not deciding)
    return _truth_of_constant_comparison(node) if isinstance(node, ast.Compare) else None


def _truth_of_container(items: Sequence[Any], certain: Sequence[Any]) -> bool | None:
    """Return whether a display has an item; ``None`` if all of its items are unpacked from elsewhere."""
    return bool(certain) if certain or not items else None


def _truth_of_constant_comparison(node: ast.Compare) -> bool | None:
    parts = (node.left, *node.comparators)
    if not all(isinstance(part, ast.Constant) for part in parts):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about ``is`` with a literal
            return bool(eval(compile(ast.Expression(node), "<test>", "eval"), {"__builtins__": {}}))
    except Exception:
        return None


def helpers_that_never_assert(tree: ast.Module) -> frozenset[str]:
    """Return functions of a test that are named ``assert...`` but assert nothing, and call only a few builtins."""
    helpers = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("assert")]
    names = [node.name for node in helpers]
    return frozenset(
        node.name
        for node in helpers
        if names.count(node.name) == 1
        and not can_fail(node)
        and all(
            isinstance(call.func, ast.Name) and call.func.id in _ANSWERING
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
        )
    )


def walk_statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements, at any depth."""
    for _, field in ast.iter_fields(tree):
        for node in field if isinstance(field, list) else ():
            if isinstance(node, ast.stmt):
                yield node
            if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from walk_statements(node)


def _allow_replaced_stop_iteration(call: ast.expr) -> None:
    """Let ``raises(StopIteration)`` also accept what replaces a ``StopIteration`` that left the program."""
    if isinstance(call, ast.Call) and called_name(call) in _EXPECTING and call.args:
        call.args[0] = _add_replaced_stop_iteration(call.args[0]) or call.args[0]


def _add_replaced_stop_iteration(expected: ast.expr | None) -> ast.expr | None:
    """Return the exception classes that an expression names, plus ``STOPPED`` if ``StopIteration`` is among them."""
    classes = expected.elts if isinstance(expected, ast.Tuple) else [expected]
    if expected is None or not any(isinstance(part, ast.Name) and part.id == "StopIteration" for part in classes):
        return expected
    parts = [*classes, ast.Name(STOPPED, ast.Load())]
    return ast.copy_location(ast.Tuple([part for part in parts if part is not None], ast.Load()), expected)


def noted_evidence_number(statement: ast.stmt) -> int | None:
    """Return the number of the evidence that a statement notes; ``None`` for a statement of the tests."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and called_name(call) == PASSED and isinstance(call.args[0], ast.Constant):
        number = call.args[0].value
        return number if isinstance(number, int) else None
    return None


def _calls_test_runner(node: ast.Expr) -> bool:
    return any(
        isinstance(part, ast.Attribute)
        and part.attr == "main"
        and isinstance(part.value, ast.Name)
        and part.value.id in ("unittest", "pytest")
        for part in ast.walk(node)
    )


def called_name(node: ast.AST) -> str:
    """Return the name of the function or method that an expression calls; empty if it calls none by name."""
    function = node.func if isinstance(node, ast.Call) else None
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _is_failure_condition(test: ast.expr) -> bool:
    """Return whether a condition is false when all is right: ``a != b``, ``not right``."""
    if isinstance(test, ast.BoolOp):
        return any(_is_failure_condition(part) for part in test.values)
    if isinstance(test, ast.Compare):
        return any(isinstance(operator, ast.NotEq | ast.IsNot | ast.NotIn) for operator in test.ops)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _always_raises(body: list[ast.stmt]) -> bool:
    for statement in body:
        never = isinstance(statement, ast.Assert) and static_truth(statement.test) is False
        failing = isinstance(statement, ast.Expr) and called_name(statement.value) in ("fail", "exit")
        inner = isinstance(statement, ast.If) and _always_raises([*statement.body, *statement.orelse])
        if never or failing or inner or isinstance(statement, ast.Raise):
            return True
    return False
