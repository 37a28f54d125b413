"""The tests made here are our own source; what they judge in this file is our own functions."""

from contextlib import nullcontext
from math import inf, nan

import pytest

from lit_rl.data.mbpp_plus import check_from_test_source, comparing_test_source
from lit_rl.execution.checks import AssertTests, CallTests
from lit_rl.execution.interface import wall_limit
from lit_rl.execution.judging.calls import value_matches


def check_of(test: str):
    space: dict = {}
    exec(test, space)  # source made by this project around this file's own functions
    return space["check"]


def written(inputs: str, results: str, slack: object = 0) -> str:
    """A test as EvalPlus writes it, without its helpers."""
    loop = f"for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion(f(*inp), exp, {slack})\n"
    return f"import numpy as np\nfrom math import inf\n\ninputs = {inputs}\nresults = {results}\n{loop}"


def test_written_results_become_cases_with_the_row_s_tolerance():
    check = check_from_test_source(written("[[3, [1]], [4, [2]]]", "[-inf, 2.5]", 0.0001), "", "f")
    cases = (((3, [1]), -inf), ((4, [2]), 2.5))
    assert check == CallTests(cases, "f", tolerance=0.0001, as_evalplus=True, shared_timeout=True)
    assert check.wall_budget_seconds == wall_limit(check.timeout_seconds)


# How answers are compared, a test, a reference, a program that is right and one that is wrong.
GRADED = [
    (
        "as_set",
        written("[[(1, 2, 1)], [()]]", "[(1, 2), ()]"),
        "def f(xs):\n    return tuple(dict.fromkeys(xs))\n",
        lambda xs: [*xs, *xs][::-1],
        lambda xs: [*xs, 3],
    ),
    (
        "as_truth",
        written("[[(1,)], [()]]", "[True, False]"),
        "def f(xs):\n    return xs or None\n",
        lambda xs: "match" if xs else None,
        lambda xs: not xs,
    ),
    (  # by a function of the test
        "as_is",
        "import numpy as np\nimport collections\ndef ref_func(xs):\n    return collections.Counter(xs)\n\n"
        "inputs = [[(1, 1)], [(2,)]]\nfor i, inp in enumerate(inputs):\n    assertion(f(*inp), ref_func(*inp), 0)\n",
        "",
        lambda xs: {x: xs.count(x) for x in xs},
        lambda xs: dict.fromkeys(xs, 1),
    ),
]


@pytest.mark.parametrize(("compare", "test", "reference", "right", "wrong"), GRADED)
def test_other_rows_are_compared_with_a_reference(compare, test, reference, right, wrong):
    made = check_from_test_source(test, reference, "f", compare)
    assert isinstance(made, AssertTests) and "numpy" not in made.test
    check = check_of(made.test)
    check(right)
    with pytest.raises(AssertionError):
        check(wrong)


SLACK = 1e-6 + 1e-7 * 4000.0
# What a program returns, what is expected, the row's atol, and whether numpy's allclose and equal types let it pass.
ANSWERS = [
    (4000.0 + 0.9 * SLACK, 4000.0, 0, True),
    (4000.0 + 1.1 * SLACK, 4000.0, 0, False),
    (4000.0 + 1.1 * SLACK, 4000.0, 0.3, True),
    ([1.0, 2.0 + 5e-7], [1.0, 2.0], 0, True),
    ((1.0, 2.0 + 5e-7), [1.0, 2.0], 0, False),
    ((1.0, 2.0), [1.0, 2.0], 0, False),
    ([1, 2.0 + 5e-7], [1, 2.0], 0, False),
    ([1, 2.0 + 5e-7], [1, 2.0], 1e-4, True),
    ([[2.0 + 5e-7]], [[2.0]], 0, False),
    ({1: 2.0 + 5e-7}, {1: 2.0}, 0, False),
    (4000, 4000.0, 0, True),
    (4001, 4000.0, 2.0, False),
    ((), [], 0, False),
    ([1.0], [1.0, 2.0], 0, False),
    (12345.0, inf, 0, False),
    (inf, inf, 0, True),
    (nan, nan, 0, False),
    ("4000.0", 4000.0, 0, False),
    (["a"], [4000.0], 0, False),
    ("a", "b", 0.1, False),
]


@pytest.mark.parametrize(("value", "expected", "atol", "passes"), ANSWERS)
def test_answers_are_close_as_evalplus_has_it(value, expected, atol, passes):
    written_out = CallTests((((), expected),), "f", tolerance=atol, as_evalplus=True)
    assert value_matches(value, expected, written_out) is passes
    reference = f"from math import inf, nan\ndef f():\n    return {expected!r}\n"
    with nullcontext() if passes else pytest.raises(AssertionError):
        check_of(comparing_test_source(reference, "f", [[]], atol))(lambda: value)
