"""The two forms of EvalPlus's MBPP+: tests written out in Python, or JSON inputs for the reference.

``MbppPlus-OriginFmt.jsonl`` (also ``evalplus/mbppplus`` on the hub) holds test source with inputs and
expected values; prefer it: 365 of its 378 rows become calls with values. ``MbppPlus.jsonl`` holds inputs only, as
JSON; the expected values are what the reference returns, so the tests made here run it next to the program. JSON has no
tuples, sets or complex numbers, and only text as keys. So the types of arguments are read from the row's asserts
(``assertion``), which are Python, and restored in the JSON inputs.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from lit_rl.data.rows import Row
from lit_rl.execution.checks import AssertTests, CallTests

Compare = Literal["as_is", "as_set", "as_truth"]

UNORDERED = frozenset({2, 7, 111, 140, 232, 579, 769})
"""Tasks whose answer is a set in any order, though the reference returns a list or tuple."""

TRUTH_OF_MATCH = frozenset({737, 787, 794})
"""Tasks whose reference returns a regular expression's match or None, and whose answer is yes or no."""

_SEQUENCES = (list, tuple, set, frozenset)


@dataclass
class ArgumentType:
    """Types seen at one position in the arguments, by which a JSON value there is decoded.

    Args:
        kinds: Python types seen at this position.
        items: shape of the items of sequences and sets, and of the values of dictionaries.
        keys: shape of the keys of dictionaries.

    Example:
        >>> shape = ArgumentType()
        >>> shape.observe([(1, 2), (3, 4)])
        >>> shape.restore([[5, 6], []])
        [(5, 6), ()]
    """

    kinds: set[type] = field(default_factory=set)
    items: ArgumentType | None = None
    keys: ArgumentType | None = None

    def observe(self, value: Any) -> None:
        """Learn from one Python value."""
        self.kinds.add(type(value))
        if isinstance(value, dict):
            self.keys = self.keys or ArgumentType()
            for key in value:
                self.keys.observe(key)
        if isinstance(value, (*_SEQUENCES, dict)):
            self.items = self.items or ArgumentType()
            for item in value.values() if isinstance(value, dict) else value:
                self.items.observe(item)

    def restore(self, value: Any, deeper: type = list) -> Any:
        """The Python value of a JSON value.

        Args:
            value: as read from JSON.
            deeper: what a list becomes where no example shows one, so that tuples in tuples stay tuples.
        """
        items = self.items or ArgumentType()
        if isinstance(value, list):
            kind: Any = next((kind for kind in _SEQUENCES if kind in self.kinds), deeper)
            nested = kind if kind in items.kinds or kind is deeper else list
            return kind(items.restore(item, nested) for item in value)
        if isinstance(value, dict):
            keys = self.keys or ArgumentType()
            return {keys.restore(key): items.restore(item) for key, item in value.items()}
        if isinstance(value, str) and self.kinds and self.kinds <= {int, float, complex}:
            return _number_or_text(value)
        return value


def _number_or_text(text: str) -> Any:
    """The number written in a text, or the text itself: inputs made by mutation can hold anything."""
    if not any(letter.isdigit() for letter in text):
        return text  # "j", "nan" and "inf" are words here
    for kind in (int, float, complex):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def argument_types(asserts: str, function: str) -> list[ArgumentType]:
    """Types of the arguments of a function in the asserts that call it, as far as these are literals.

    Args:
        asserts: Python source.
        function: its name.

    Returns:
        One shape per positional argument.
    """
    shapes: list[ArgumentType] = []
    for node in ast.walk(ast.parse(asserts)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function):
            continue
        shapes += [ArgumentType() for _ in node.args[len(shapes) :]]
        for shape, argument in zip(shapes, node.args, strict=False):
            try:
                shape.observe(ast.literal_eval(argument))
            except ValueError:
                continue
    return shapes


def restore_inputs(row: Row) -> list[tuple[Any, ...]]:
    """Positional arguments of every call of a ``MbppPlus.jsonl`` row, base inputs first."""
    shapes = argument_types(row.text("assertion"), row.text("entry_point"))
    restored = []
    # One row has {} where it has no further inputs.
    further = row.json("plus_input", list[list[Any]] | dict[str, Any]) or []
    for arguments in (*row.json("base_input", list[list[Any]]), *further):
        padded = shapes + [ArgumentType() for _ in arguments[len(shapes) :]]
        restored.append(tuple(s.restore(a) for s, a in zip(padded, arguments, strict=False)))
    return restored


def comparison_for_task(task_id: int) -> Compare:
    """EvalPlus's comparison of the answers to a task of MBPP+."""
    return "as_set" if task_id in UNORDERED else "as_truth" if task_id in TRUTH_OF_MATCH else "as_is"


def reference_test_source(row: Row, task_id: int) -> str:
    """Test source for a ``MbppPlus.jsonl`` row: a ``check`` that compares a program with the reference.

    Values are compared as EvalPlus does: equal, or floats within the row's ``atol`` (1e-6 where it is 0) plus
    1e-7 of the expected value; two groups of tasks are compared as sets and as yes or no.
    """
    inputs = restore_inputs(row)
    reference, function = row.text("canonical_solution"), row.text("entry_point")
    return comparing_test_source(reference, function, inputs, row.number_of("atol"), comparison_for_task(task_id))


def comparing_test_source(
    reference: str, function: str, inputs: Sequence[Sequence[Any]], tolerance: float, compare: Compare = "as_is"
) -> str:
    """Test source: a ``check`` that calls a program and the reference with the same arguments and compares.

    Args:
        reference: source of a correct program.
        function: the function that both define.
        inputs: positional arguments of each call.
        tolerance: largest difference of numbers; 0 for 1e-6 between floats, and none between others.
        compare: values as they are, as sets, or as truth values.
    """
    return _TEMPLATE.format(
        reference=reference,
        function=function,
        inputs=list(inputs),
        tolerance=tolerance,
        compare=compare,
    )


def check_from_test_source(
    test: str, reference: str, function: str, compare: Compare = "as_is"
) -> AssertTests | CallTests:
    """The check of an OriginFmt row, whose test calls a function with ``inputs`` and compares with ``results``.

    Where results are written out, and compared as they are, they become cases. Otherwise the row's ``ref_func``, or
    else its reference, runs next to the program. A test of another form stays as it is.

    Args:
        test: the row's source.
        reference: the row's solution.
        function: the function under test.
        compare: values as they are, as sets, or as truth values.
    """
    tree = ast.parse(test)
    assigned = {ast.unparse(node.targets[0]): node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "assertion"]
    tolerance = ast.literal_eval(calls[-1].args[2]) if calls else 0.0
    if "inputs" not in assigned:
        return AssertTests(test, function)
    inputs = _literal_value(assigned["inputs"])
    if "results" in assigned and compare == "as_is":
        results = _literal_value(assigned["results"])
        cases = tuple((tuple(given), result) for given, result in zip(inputs, results, strict=True))
        return CallTests(cases, function, tolerance=tolerance, as_evalplus=True, shared_timeout=True)
    parts = [node for node in tree.body if not isinstance(node, ast.FunctionDef) or node.name not in _OF_EVALPLUS]
    if any(isinstance(node, ast.FunctionDef) and node.name == "ref_func" for node in parts):
        kept = [node for node in parts if isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom)]
        reference = "\n".join(source for source in map(ast.unparse, kept) if "numpy" not in source)
        return AssertTests(comparing_test_source(reference, "ref_func", inputs, tolerance, compare), function)
    return AssertTests(comparing_test_source(reference, function, inputs, tolerance, compare), function)


_OF_EVALPLUS = ("assertion", "is_floats", "check")


class _InfinityReplacer(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(inf) if node.id == "inf" else node


def _literal_value(node: ast.expr) -> Any:
    """The value of a literal in which ``inf`` is a number."""
    return ast.literal_eval(_InfinityReplacer().visit(node))


# The reference lives in a namespace of its own: it has the name of the function under test.
_TEMPLATE = """\
from copy import deepcopy
from math import inf, nan

namespace = {{}}
exec({reference!r}, namespace)
reference = namespace[{function!r}]
inputs = {inputs!r}
tolerance = {tolerance!r}


def as_is(value):
    return value


def as_set(value):
    return set(value)


def as_truth(value):
    return value if isinstance(value, bool) else value is not None


def close(value, expected):
    values, numbers = [list(one) if isinstance(one, (list, tuple)) else [one] for one in (value, expected)]
    floats = bool(numbers) and all(isinstance(number, float) for number in numbers)
    slack = tolerance or (1e-6 if floats else 0)
    if not slack or type(value) is not type(expected) or len(values) != len(numbers):
        return False
    if not all(isinstance(one, (int, float, complex)) for one in values + numbers):
        return False
    return all(v == e or abs(v - e) <= slack + 1e-7 * abs(e) < inf for v, e in zip(values, numbers))


def check(candidate):
    for arguments in inputs:
        expected = {compare}(reference(*deepcopy(arguments)))
        value = {compare}(candidate(*deepcopy(arguments)))
        if value != expected:
            assert close(value, expected), (arguments, value, expected)
"""
