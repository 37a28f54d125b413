"""The tests made here are our own source; what they judge in this file is our own functions."""

from __future__ import annotations

import ast
from contextlib import nullcontext
from math import inf, nan

import pytest

from lit_rl.data.mbpp_plus import ArgumentType, check_from_test_source, reference_test_source, restore_inputs
from lit_rl.data.rows import Row, RowError, read_rows
from lit_rl.execution.checks import AssertTests, CallTests
from lit_rl.execution.interface import wall_limit
from lit_rl.execution.judging.calls import matches


def plus_row(**change: object) -> Row:
    values = {
        "task_id": "Mbpp/11",
        "prompt": '"""\nAdd up.\nassert total((1, 2)) == 3\n"""\n',
        "entry_point": "total",
        "canonical_solution": "def total(numbers):\n    return float(sum(numbers))\n",
        "assertion": "assert total((1, 2)) == 3\nassert total((1, 5)) == 6\n",
        "base_input": [[[1, 2]]],
        "plus_input": [[[3, 4]], [[]]],
        "atol": 0,
    }
    return Row("own.jsonl", 1, values | change)


@pytest.mark.parametrize(
    ("seen", "stored", "restored"),
    [
        ((1, 2), [3], (3,)),
        ([(1, "a")], [[2, "b"], []], [(2, "b"), ()]),
        ({1, 2}, [3, 3], {3}),
        ({1: (2,)}, {"3": [4]}, {3: (4,)}),
        ({"a": 1}, {"b": 2}, {"b": 2}),
        (1j, "(2+3j)", 2 + 3j),
        (1, "1j", 1j),
        (1, "j", "j"),
        ("1", "2", "2"),
        (None, [1], [1]),
        ((1, (2, 3)), [1, [2, [3, [4]]]], (1, (2, (3, (4,))))),
        ((1, 2), [1, [2, 3]], (1, [2, 3])),
    ],
)
def test_json_values_get_back_the_types_of_the_examples(seen, stored, restored):
    shape = ArgumentType()
    shape.observe(seen)
    found = shape.restore(stored)
    assert repr(found) == repr(restored), "repr tells (1,) from [1] and 1 from True"


def test_inputs_that_are_no_arguments_name_the_row():
    with pytest.raises(RowError, match=r"own\.jsonl, row 1, field 'plus_input': \[0\]: expected a list of Any, got 3"):
        restore_inputs(plus_row(plus_input=[3]))


def check_of(test: str):
    space: dict = {}
    exec(test, space)  # source made by this project around this file's own functions
    return space["check"]


def solved(body: str, **change: object) -> Row:
    return plus_row(canonical_solution=f"def total(numbers):\n{body}", **change)


LIST, MATCH = solved("    return list(numbers)\n"), solved("    return 'match' if numbers else None\n")
SORTS = solved(
    "    numbers.sort()\n    return numbers\n", assertion="assert total([2, 1]) == [1, 2]", base_input=[[[2, 1]]]
)
# A row and the number of its task, programs that are right, and one that is wrong.
COMPARED = {
    "a float": (plus_row(), 11, [sum, lambda n: sum(n) + 1e-8], lambda n: sum(n) + 1e-4),
    "another function": (plus_row(), 11, [sum], len),
    "a tolerance": (plus_row(atol=0.1), 11, [lambda n: sum(n) + 0.09], lambda n: sum(n) + 0.2),
    "a list": (LIST, 11, [list], lambda n: list(n)[::-1]),
    "an answer that is a set, in any order": (LIST, 579, [lambda n: list(n)[::-1]], lambda n: [*n, 9]),
    "a match, for which yes and no do": (MATCH, 737, [bool, lambda n: list(n) or None], lambda n: True),
    "arguments that a program changes": (SORTS, 11, [sorted], lambda numbers: numbers),
}


@pytest.mark.parametrize("name", COMPARED)
def test_a_program_is_compared_with_the_reference(name):
    row, task, rights, wrong = COMPARED[name]
    check = check_of(reference_test_source(row, task))
    for right in rights:
        check(right)
    with pytest.raises(AssertionError):
        check(wrong)


def written(inputs: str, results: str, slack: object = 0) -> str:
    """A test as EvalPlus writes it, without its helpers."""
    loop = f"for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion(f(*inp), exp, {slack})\n"
    return f"import numpy as np\nfrom math import inf\n\ninputs = {inputs}\nresults = {results}\n{loop}"


def test_written_results_become_cases_with_the_row_s_tolerance():
    check = check_from_test_source(written("[[3, [1]], [4, [2]]]", "[-inf, 2.5]", 0.0001), "", "f")
    cases = (((3, [1]), -inf), ((4, [2]), 2.5))
    assert check == CallTests(cases, "f", tolerance=0.0001, as_evalplus=True, shared_timeout=True)
    assert check.wall_budget_seconds == wall_limit(check.timeout_seconds)


# A test, how answers are compared, a program that is right and one that is wrong.
GRADED = {
    "as a set": (
        written("[[(1, 2, 1)], [()]]", "[(1, 2), ()]"),
        "as_set",
        lambda xs: [*xs, *xs][::-1],
        lambda xs: [*xs, 3],
    ),
    "as a truth": (
        written("[[(1,)], [()]]", "[True, False]"),
        "as_truth",
        lambda xs: "match" if xs else None,
        lambda xs: not xs,
    ),
    "by a function of the test": (
        "import numpy as np\nimport collections\ndef ref_func(xs):\n    return collections.Counter(xs)\n\n"
        "inputs = [[(1, 1)], [(2,)]]\nfor i, inp in enumerate(inputs):\n    assertion(f(*inp), ref_func(*inp), 0)\n",
        "as_is",
        lambda xs: {x: xs.count(x) for x in xs},
        lambda xs: dict.fromkeys(xs, 1),
    ),
}
REFERENCES = {
    "as a set": "def f(xs):\n    return tuple(dict.fromkeys(xs))\n",
    "as a truth": "def f(xs):\n    return xs or None\n",
    "by a function of the test": "",
}


@pytest.mark.parametrize("name", GRADED)
def test_other_rows_are_compared_with_a_reference(name):
    test, compare, right, wrong = GRADED[name]
    made = check_from_test_source(test, REFERENCES[name], "f", compare)
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
    """In both forms of the check."""
    written_out = CallTests((((), expected),), "f", tolerance=atol, as_evalplus=True)
    assert matches(value, expected, written_out) is passes
    row = solved(f"    from math import inf, nan\n    return {expected!r}\n", atol=atol)
    with nullcontext() if passes else pytest.raises(AssertionError):
        check_of(reference_test_source(row, 11))(lambda numbers: value)


def flat(value: object) -> object:
    return [flat(item) for item in value] if isinstance(value, (list, tuple)) else value


class InfinityWritten(ast.NodeTransformer):
    """``inf`` as a constant, so that the line is a literal."""

    def visit_Name(self, node: ast.Name) -> ast.Constant:
        assert node.id == "inf"
        return ast.Constant(inf)


@pytest.mark.slow
def test_real_inputs_are_those_that_evalplus_wrote_out(real_data):
    """The other file holds a part of the same inputs as Python: 370 tasks agree to the type of each item.

    In the other eight a number is an int for a float or a complex, or a sequence is of the kind that the
    asserts use and EvalPlus's JSON does not; their functions do not tell these apart.
    """
    origin = {
        row.integer("task_id"): row.text("test")
        for row in read_rows(str(real_data / "evalplus" / "MbppPlus-OriginFmt.jsonl.gz"))
    }
    differ = []
    for row in read_rows(str(real_data / "evalplus" / "MbppPlus.jsonl.gz")):
        number = int(row.text("task_id").split("/")[1])
        restored = restore_inputs(row)
        line = next(line for line in origin[number].split("\n") if line.startswith("inputs = "))
        tree = InfinityWritten().visit(ast.parse(line.removeprefix("inputs = "), mode="eval"))
        written = [tuple(arguments) for arguments in ast.literal_eval(tree)]
        spelled = {repr(arguments) for arguments in restored}
        missing = [arguments for arguments in written if repr(arguments) not in spelled]
        if missing:
            differ.append(number)
            alike = [flat(arguments) for arguments in restored]
            assert all(flat(arguments) in alike for arguments in missing), number
    assert differ == [98, 104, 124, 140, 145, 252, 278, 596]
