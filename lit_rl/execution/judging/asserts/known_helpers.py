"""Helper functions that EvalPlus writes into tests, recognised by their shape and answered here without running them.

A shape is a definition without the names of arguments and locals, annotations, docstrings and messages of asserts.
A helper of any other shape is not recognised, whatever its name, and its tests get a grader.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from lit_rl.execution.judging.asserts.literal_expressions import CAREFUL

NUMPY_STAND_IN = """\
class np:
    ndarray = float32 = float64 = ()

    @staticmethod
    def shape(value):
        if not isinstance(value, (list, tuple)):
            return () if isinstance(value, (int, float, complex)) else None
        shapes = {np.shape(item) for item in value}
        return None if None in shapes or len(shapes) > 1 else (len(value), *shapes)

    @staticmethod
    def allclose(value, expected, rtol, atol):
        if np.shape(value) is None or np.shape(value) != np.shape(expected):
            return False
        if isinstance(expected, (list, tuple)):
            return all(np.allclose(v, e, rtol, atol) for v, e in zip(value, expected))
        try:
            expected = expected * 1.0
            return abs(value - expected) <= atol + rtol * abs(expected) < float("inf") or value == expected
        except OverflowError:
            return False
"""
"""All of numpy that these tests use: numbers and evenly nested lists of them, without broadcasting.

No value is an instance of (): plain data holds no numpy arrays. Nothing is close to infinity but infinity itself, and
no object of the program is shown the expected value.
"""

Compare = Callable[[Any, Any, float], bool]
"""Test of a value against the expected value with a tolerance, as a helper makes it."""

BUILTINS_OF_HELPERS = frozenset(
    (
        "abs", "all", "bool", "complex", "enumerate", "float", "int", "isinstance", "len", "list", "set",
        "staticmethod", "tuple", "zip",
    )
)  # fmt: skip
"""Builtins that the helpers and their loops use: no helper is recognised if the program defines one of these."""

NAMES_OF_HELPERS = frozenset(("assertion", "is_floats", "np"))

_RTOL = 1e-7
_ATOL_OF_FLOATS = 1e-6

_SKIPPED_FIELDS = frozenset(("ctx", "kind", "msg", "type_comment"))
_ANNOTATIONS = ("annotation", "returns")


def _as_is(value: Any, expected: Any, atol: float) -> bool:
    """Equal; or within a tolerance, if there is one or floats are expected."""
    if atol == 0 and _is_floats(expected):
        atol = _ATOL_OF_FLOATS
    if value != expected and atol != 0:
        return bool(_allclose(value, expected, _RTOL, atol))
    return bool(value == expected)


def _as_sets(value: Any, expected: Any, atol: float) -> bool:
    """Equal as sets, whatever the tolerance: sets are never close."""
    return bool(CAREFUL["set"](value) == set(expected))


def _as_truth(value: Any, expected: Any, atol: float) -> bool:
    """Compare a bool itself with the expected one, and whether any other value is not ``None``."""
    return bool(value == expected if isinstance(value, bool) else expected == (value is not None))


def _is_floats(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(item, float) for item in value)
    return isinstance(value, float)


_definitions: dict[str, Any] = {}
exec(NUMPY_STAND_IN, _definitions)
_allclose: Callable[[Any, Any, float, float], bool] = _definitions["np"].allclose


def shape_of(definition: ast.FunctionDef | ast.ClassDef) -> str:
    """Hash of a definition's shape."""
    return hashlib.sha256(repr(_shape(definition, {})).encode()).hexdigest()[:32]


def _shape(node: Any, local: dict[str, str]) -> Any:
    if isinstance(node, list):
        return [_shape(item, local) for item in node]
    if not isinstance(node, ast.AST):
        return (type(node).__name__, node)
    if isinstance(node, ast.FunctionDef):
        local = local | {arg.arg: f"#{index}" for index, arg in enumerate(node.args.args)}
    if isinstance(node, ast.GeneratorExp):
        for loop in node.generators:
            for part in ast.walk(loop.target):
                if isinstance(part, ast.Name):
                    local = local | {part.id: f"#{len(local)}"}
    if isinstance(node, ast.Name):
        return ("Name", local.get(node.id, node.id))
    if isinstance(node, ast.arg) and node.arg in local:
        return ("arg", local[node.arg], _shape(_plain_annotation(node.annotation), local))
    fields = ((name, _field(node, name, field)) for name, field in ast.iter_fields(node))
    # Absent fields are left out, because later versions of Python add some.
    return (type(node).__name__, *((name, _shape(field, local)) for name, field in fields if field not in (None, [])))


def _field(node: ast.AST, name: str, field: Any) -> Any:
    """The part of a field that matters; a body without its docstring."""
    if name in _SKIPPED_FIELDS:
        return None
    if name in _ANNOTATIONS:
        return _plain_annotation(field)
    if name == "body" and isinstance(node, ast.FunctionDef | ast.ClassDef):
        return field[1:] if ast.get_docstring(node, clean=False) is not None else field
    return field


def _plain_annotation(node: Any) -> Any:
    """``None`` for a builtin type, whose evaluation has no effect."""
    return None if isinstance(node, ast.Name) and node.id in BUILTINS_OF_HELPERS else node


_SHAPES: Mapping[str, str] = {
    "ce8e9e8c90df37558f6df49c1326d0bd": "np",
    "51c7aed20b8b31fc7540c037c88329ea": "is_floats",
}
# What a function called ``assertion`` compares, by its shape. With one of these, a loop over cases needs no grader.
_COMPARISONS: Mapping[str, Compare] = {
    "cb013c5171fdb25ecec03af74cac512a": _as_is,
    "7e372df8b01283b85459012e37a707ba": _as_is,  # with the comparison in a variable: HumanEval+
    "bcbd6a60090b296f4dc6c08b03e066e0": _as_sets,
    "d3f5b9afc11da98f974497bf231f1013": _as_truth,  # completed by an assert
}


class KnownHelpers:
    """The recognised helpers among the definitions of a test, in order."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def add(self, definition: ast.stmt) -> bool:
        """Add a definition; False if it is not recognised, or its name is taken."""
        if not isinstance(definition, ast.FunctionDef | ast.ClassDef) or definition.name in self._found:
            return False
        shape = shape_of(definition)
        known = definition.name == "assertion" if shape in _COMPARISONS else _SHAPES.get(shape) == definition.name
        self._found[definition.name] = shape
        return known

    def comparison(self, name: str) -> Compare | None:
        """Return the comparison that a function of the tests makes, if everything it uses is recognised."""
        compare = _COMPARISONS.get(self._found.get(name, ""))
        needs = () if compare is _as_truth else ("np", "is_floats")
        return compare if all(needed in self._found for needed in needs) else None
