"""What counts as an example, and what leaves a doubt."""

from __future__ import annotations

import pytest

from lit_rl.data.shown_examples import Example, shown_examples

READ = [
    (">>> twice(2)\n4", [((2,), 4)]),
    ("    >>> twice(2)  # a remark\n    4\n    >>> twice([1])\n    [1,\n     1]\n", [((2,), 4), (([1],), [1, 1])]),
    (">>> twice([])\n\n>>> twice(None)", [(([],), None), ((None,), None)]),
    (">>> twice(2) == 4\n>>> twice(3) => 6", [((2,), 4), ((3,), 6)]),
    ("twice(2) == 4\n  twice(-1) ==> -2\n* twice(3) ➞ 6  # right", [((2,), 4), ((-1,), -2), ((3,), 6)]),
    ("for twice(0) = 0", [((0,), 0)]),
    ("twice('a') returns 'aa'\ntwice(2) should return 4.", [(("a",), "aa"), ((2,), 4)]),
    ("twice(7)   # returns 14", [((7,), 14)]),
    ("twice([\n  1,\n  2], 3) == [\n  1]", [(([1, 2], 3), [1])]),
    ("twice(true) => [false, null]", [((True,), [False, None])]),
    ("twice(')(') -> '()'", [((")(",), "()")]),
    ("Input: x = [1, 2], y = 3\nOutput: true", [(([1, 2], 3), True)]),
    ("Input: [1, 2], 3\n\n    Output: 'a'", [(([1, 2], 3), "a")]),
    ("For x = 1, y = 2, the output should be 3.", [((1, 2), 3)]),
    ("twice(2) == 4 and twice(2) == 4\ntwice(2) == 4", [((2,), 4)]),
]  # fmt: skip

LEFT_OUT = [
    "twice(x) == 2 * x",
    "twice(2) -> 2 + 2 = 4",
    "twice(2) == 4 or five",
    "twice(2) == value",
    "twice(2) <= 4",
    "twice(2), twice(3)\n4",
    "Surely twice(2) == 4",
    ">>> round(twice(2), 1)\n4",
    ">>> twice(2)\nIt prints 4",
    ">>> twice(2",
    "twice(2)\n4",
    "twice_more(2) == 8\nnot_twice(2) == 5\nself.twice(2) == 6",
    "twice(key=2) == 4",
    "twice(2) == 4\ntwice(2) == 5",
    "twice([1] == 4",
    "Input: y = 1, x = 2\nOutput: 3",
    "Input: x = 1\nOutput: 3",
    "Input: x = z, y = 2\nOutput: 3",
    "Input: x = 1, y = 2\nOutput: see below",
    "twice(" + "(" * 300,
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_an_example_is_read_as_a_call_with_its_value(text: str, expected: list) -> None:
    assert shown_examples(text, "twice", ["x", "y"]) == [Example(*one) for one in expected]


@pytest.mark.parametrize("text", LEFT_OUT)
def test_what_leaves_a_doubt_is_left_out(text: str) -> None:
    assert shown_examples(text, "twice", ["x", "y"]) == []


def test_labelled_examples_need_the_names_of_the_parameters() -> None:
    assert shown_examples("Input: x = 1, y = 2\nOutput: 3", "twice") == []


def test_a_whole_number_before_a_full_stop_stays_whole() -> None:
    (example,) = shown_examples("twice(8) should return 16.", "twice")
    assert repr(example.expected) == "16"
