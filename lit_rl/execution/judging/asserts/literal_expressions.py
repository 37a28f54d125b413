"""Expressions of tests that consist of literals, pure functions of literals, and calls of the program."""

from __future__ import annotations

import ast
import contextlib
import math
from collections.abc import Callable, Container, Iterable, Mapping
from fractions import Fraction
from types import CodeType, SimpleNamespace
from typing import Any

from lit_rl.execution.wire.bounded_json import NotPlain, collision_free_keys, refuse_hash_collisions

# Pure functions of plain data whose cost is linear in it.
PURE: Mapping[str, Any] = {
    kind.__name__: kind for kind in (bool, bytes, complex, dict, float, frozenset, int, list, range, set, str, tuple)
} | {"abs": abs, "len": len, "max": max, "min": min, "round": round, "sorted": sorted, "sum": sum}

# Functions that may be called only if the tests import them, by either name.
IMPORTED: Mapping[str, Any] = {"isclose": math.isclose, "math": SimpleNamespace(isclose=math.isclose)}

_SIMPLE_NODES = (
    ast.Compare, ast.BoolOp, ast.UnaryOp, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Load,
    ast.cmpop, ast.boolop, ast.unaryop, ast.Subscript, ast.Slice,
)  # fmt: skip
_ARGUMENT_NODES = (*_SIMPLE_NODES, ast.BinOp, ast.operator)
_MAX_EXPONENT = 4096
_LINEAR_OPERATORS = (ast.Add, ast.Sub, ast.Div)


class NotLiteral(Exception):
    """The test does more than compare results of literal calls."""


def take_calls_out_of_assert(
    expression: ast.expr, resolve: Callable[[ast.expr], str | None], known: Container[str]
) -> tuple[CodeType, list[tuple[str, ast.Call]], ast.expr | None]:
    """Take an assert's expression apart.

    Returns:
        The compiled expression, in which the result of call ``i`` is called ``_i``; name and syntax node of each call
        of the program; and, if the assert only compares one call for equality, what its result must equal.
    """
    results = _CallReplacer(resolve, known)
    changed = ast.fix_missing_locations(results.visit(expression))
    code = compile(ast.Expression(changed), "<test>", "eval")
    wanted = None
    is_comparison = isinstance(changed, ast.Compare) and len(changed.ops) == 1
    if len(results.calls) == 1 and is_comparison and isinstance(changed.ops[0], ast.Eq | ast.Is):
        sides = [changed.left, changed.comparators[0]]  # of ``_0 == x``, ``x == _0`` or ``_0 is x``
        others = [side for side in sides if not (isinstance(side, ast.Name) and side.id == "_0")]
        wanted = others[0] if len(others) == 1 else None
    return code, results.calls, wanted


def evaluate_pure(node: ast.expr, resolve: Callable[[ast.expr], str | None], values: Mapping[str, Any]) -> Any:
    """Evaluate an expression of the test that calls nothing of the program; raise whatever the expression raises."""
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if resolve(ast.Name("set")) is None:  # otherwise ``set()`` is not a literal
        with contextlib.suppress(ValueError, TypeError):
            return ast.literal_eval(node)  # the usual case, and much faster
    called = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    for part in ast.walk(node):
        pure = isinstance(part, ast.Call) and not part.keywords and resolve(part.func) is None
        known = isinstance(part, ast.Name) and _means_plain_data(part, called, resolve, values)
        slow = isinstance(part, ast.BinOp) and not _makes_small_int(part)
        if slow or not (pure or known or isinstance(part, _ARGUMENT_NODES)):
            raise NotLiteral
    code = compile(ast.Expression(node), "<test>", "eval")
    return eval(code, {"__builtins__": {}, **PURE, **values})


def _means_plain_data(
    name: ast.Name, called: Container[int], resolve: Callable[[ast.expr], str | None], values: Mapping[str, Any]
) -> bool:
    """Return whether a name means plain data: a type always does, a function only where it is called."""
    if name.id in values:
        return id(name) not in called
    if name.id not in PURE or resolve(name) is not None:
        return False
    return isinstance(PURE[name.id], type) or id(name) in called


class _CallReplacer(ast.NodeTransformer):
    """Replaces the program's calls by names, and refuses operations that are not linear in the calls' results."""

    def __init__(self, resolve: Callable[[ast.expr], str | None], known: Container[str]) -> None:
        self._resolve = resolve
        self._known = known
        self.calls: list[tuple[str, ast.Call]] = []

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Call):
            return self._replace_call(node)
        if isinstance(node, ast.Name) and node.id in self._known:
            return node
        if isinstance(node, ast.BinOp):
            is_plain = isinstance(node.op, _LINEAR_OPERATORS) or (_is_free_of_results(node) and _makes_small_int(node))
        elif isinstance(node, ast.BoolOp):  # which may skip calls that a plan would make: a grader evaluates in order
            is_plain = not any(isinstance(part, ast.Call) for part in ast.walk(node))
        else:
            is_plain = isinstance(node, (*_SIMPLE_NODES, ast.operator))
        if not is_plain:
            raise NotLiteral
        return self.generic_visit(node)

    def _replace_call(self, node: ast.Call) -> ast.expr:
        name = self._resolve(node.func)
        if name is not None:
            self.calls.append((name, node))
            return ast.Name(f"_{len(self.calls) - 1}", ast.Load())
        is_close = ast.unparse(node.func) in ("isclose", "math.isclose")
        allowed = ("rel_tol", "abs_tol") if is_close else ()
        are_known = all(item.arg in allowed and isinstance(item.value, ast.Constant) for item in node.keywords)
        node.args = [self.visit(arg) for arg in node.args]
        is_long = (
            isinstance(node.func, ast.Name) and node.func.id in ("range", "bytes") and not _is_free_of_results(node)
        )
        if is_long or not are_known:
            raise NotLiteral
        return node


def _makes_small_int(node: ast.BinOp) -> bool:
    """Return whether an operation makes no int that is slow to compare with results; a grader has its own limits."""
    if not isinstance(node.op, ast.Pow | ast.LShift):
        return True
    if not isinstance(node.left, ast.Constant | ast.UnaryOp):
        return False
    exponent = node.right.value if isinstance(node.right, ast.Constant) else None
    return isinstance(node.right, ast.UnaryOp) or (isinstance(exponent, int | float) and exponent <= _MAX_EXPONENT)


def _is_free_of_results(node: ast.AST) -> bool:
    """Return whether an expression holds no result of the program."""
    return not any(isinstance(part, ast.Name) and part.id not in PURE for part in ast.walk(node))


_MAX_STEPS = 10**8
_MAX_PLACES = 10_000


def _collision_safe_set(kind: Callable[[Iterable[Any]], Any]) -> Callable[..., Any]:
    return lambda items=(): kind(collision_free_keys(list(items)))


def _collision_safe_dict(items: Any = ()) -> dict[Any, Any]:
    pairs = [*(items.items() if isinstance(items, Mapping) else items)]
    refuse_hash_collisions([key for key, _ in pairs])
    return dict(pairs)


def _bounded_sum(items: Iterable[Any], /, start: Any = 0) -> Any:
    """Return the sum; refuse it if adding item by item would copy too much."""
    parts = [start, *items]
    sizes = [_value_size(part) for part in parts]
    steps = len(parts) * sum(sizes)
    if any(isinstance(part, Fraction) for part in parts):
        steps *= max(1, sum(sizes))  # each step reduces a fraction
    if steps > _MAX_STEPS:
        raise NotPlain(f"a sum of {len(parts)} items that would take too long")
    return sum(parts[1:], start)


def _value_size(value: Any) -> int:
    """Return the number of machine words or items, beyond the first, that an addition of this value reads."""
    if isinstance(value, Fraction):
        return (value.numerator.bit_length() + value.denominator.bit_length()) // 64
    if isinstance(value, int):
        return value.bit_length() // 64
    return len(value) if hasattr(value, "__len__") else 0


def _bounded_round(number: Any, ndigits: int | None = None) -> Any:
    if ndigits is not None and (abs(ndigits) > _MAX_PLACES or abs(ndigits) * _value_size(number) > _MAX_STEPS):
        raise NotPlain(f"rounding to {ndigits} places")
    return round(number, ndigits)


# Builtin functions that tests apply to results, bounded so that no result can keep the supervisor busy. Most builtins
# take time linear in their arguments. These need not: keys of a table may collide, a sum of numbers or lists may grow
# with each item, and a number may be rounded to a billion digits.
CAREFUL: Mapping[str, Callable[..., Any]] = {
    "dict": _collision_safe_dict,
    "frozenset": _collision_safe_set(frozenset),
    "round": _bounded_round,
    "set": _collision_safe_set(set),
    "sum": _bounded_sum,
}
