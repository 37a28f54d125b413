"""The tests of EvalPlus's MBPP+ (``MbppPlus-OriginFmt.jsonl``, on the hub ``evalplus/mbppplus``) and HumanEval+.

The tests hold inputs and expected values as source: 365 of the 378 rows of MBPP+ become calls with values. In the other
rows the reference runs next to the program.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import inf
from typing import Any, Literal

from lit_rl.execution.checks import AssertTests, CallTests

Compare = Literal["as_is", "as_set", "as_truth"]

UNORDERED = frozenset({2, 7, 111, 140, 232, 579, 769})
"""Tasks whose answer is a set in any order, though the reference returns a list or tuple."""

TRUTH_OF_MATCH = frozenset({737, 787, 794})
"""Tasks whose reference returns a regular expression's match or None, and whose answer is yes or no."""


def evalplus_comparison(task_id: int) -> Compare:
    """Return the way in which EvalPlus compares answers to a task of MBPP+."""
    return "as_set" if task_id in UNORDERED else "as_truth" if task_id in TRUTH_OF_MATCH else "as_is"


def comparing_test_source(
    reference: str, function: str, inputs: Sequence[Sequence[Any]], tolerance: float, compare: Compare = "as_is"
) -> str:
    """Return a test's source: a ``check`` that compares a program with the reference on the same arguments.

    As in EvalPlus, values must be equal, or numbers within the tolerance plus 1e-7 of the expected one (0 means 1e-6
    between floats, none between others). They are compared as they are, as sets, or as truth values.
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
    """Return the check of an OriginFmt row, whose test calls a function with ``inputs`` and compares with ``results``.

    Results that are written out, and compared as they are, become cases. Otherwise the row's ``ref_func`` (or, without
    one, its reference) runs next to the program. A test of another form stays unchanged.
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
    """Return the value of a literal in which ``inf`` is a number."""
    return ast.literal_eval(_InfinityReplacer().visit(node))


# The reference lives in a namespace of its own, since it has the name of the function under test.
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
