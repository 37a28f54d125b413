"""Functions that tests apply to results: like Python's own, but they refuse what would never end."""

import builtins
from fractions import Fraction

import pytest

from lit_rl.execution import AssertTests, Verdict
from lit_rl.execution.judging.asserts.literal_expressions import CAREFUL
from lit_rl.execution.wire.bounded_json import NotPlain

COLLIDING = [i * ((1 << 61) - 1) for i in range(200)]
ORDINARY = [
    ("sum", ([1, 2.5],)),
    ("sum", ([[1], [2]], [])),
    ("sum", (range(1000), 10)),
    ("sum", ([Fraction(1, i) for i in range(1, 100)],)),
    ("sum", ([10**400] * 50,)),
    ("set", ({1: 2},)),
    ("set", ("aba",)),
    ("frozenset", ([1, 1],)),
    ("dict", ([(1, 2)],)),
    ("dict", ({1: 2},)),
    ("round", (2.567, 2)),
    ("round", (2.5,)),
    ("round", (1234, -2)),
    ("set", ()),
]
ENDLESS = [
    ("sum", ([1 << 400_000] + [1] * 100_000,)),
    ("sum", ([[1]] * 100_000, [])),
    ("sum", ([Fraction(1, (1 << 8000) + i) for i in range(1000)],)),
    ("set", (COLLIDING,)),
    ("frozenset", (COLLIDING,)),
    ("dict", ([(key, 1) for key in COLLIDING],)),
    ("round", (5, -(10**9))),
]


def test_an_ordinary_use_gives_what_python_gives():
    for name, arguments in ORDINARY:
        expected = getattr(builtins, name)(*arguments)
        found = CAREFUL[name](*arguments)
        assert (found, type(found)) == (expected, type(expected)), name


def test_what_would_take_for_ever_is_refused():
    for name, arguments in ENDLESS:
        with pytest.raises(NotPlain):
            CAREFUL[name](*arguments)


def test_the_judge_uses_them_on_results(sandbox):
    results = {"sum": "[1 << 390_000] + [1] * 100_000", "set": "[i * ((1 << 61) - 1) for i in range(90_000)]"}
    for name, result in results.items():
        check = AssertTests(f"assert {name}(f()) == 3")
        outcome = sandbox.submit(f"def f(): return {result}\n", check).result()
        assert outcome.verdict is Verdict.WRONG_ANSWER, outcome
