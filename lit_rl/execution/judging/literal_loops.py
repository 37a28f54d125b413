"""Loops of tests over literal lists: what each round gives its names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from lit_rl.execution.judging.literal_expressions import NotLiteral

_JOINING: dict[str, Callable[..., Any]] = {"enumerate": enumerate, "zip": zip}


def rounds(loop: ast.For, evaluate: Callable[[ast.expr], Any]) -> Iterator[dict[str, Any]]:
    """The names of a loop and their values, a round at a time.

    Args:
        loop: over lists, ``zip`` of some or ``enumerate`` of one.
        evaluate: gives the value of an expression that calls nothing of the program.

    Raises:
        NotLiteral: for any other loop.
    """
    if loop.orelse:
        raise NotLiteral
    for item in _items(loop.iter, evaluate):
        yield dict(_bindings(loop.target, item))


def targets(loop: ast.For) -> set[str]:
    """Names that a loop binds."""
    return {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}


def _items(node: ast.expr, evaluate: Callable[[ast.expr], Any]) -> list[Any]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _JOINING:
        alone = node.func.id == "enumerate"
        if node.keywords or not node.args or (alone and len(node.args) > 1):
            raise NotLiteral
        return list(_JOINING[node.func.id](*[_items(arg, evaluate) for arg in node.args]))
    value = evaluate(node)
    if not isinstance(value, list):
        raise NotLiteral
    return value


def _bindings(target: ast.expr, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, list | tuple):
        if len(target.elts) != len(value):
            raise NotLiteral
        for part, item in zip(target.elts, value, strict=True):
            yield from _bindings(part, item)
    else:
        raise NotLiteral
