"""Equality of outputs under each rule, and the cost of comparing them."""

import builtins
import random
import tracemalloc
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import pytest
from support.slow_cases import slow_but

from lit_rl.execution import AssertTests, StdioTests, Verdict
from lit_rl.execution.judging.asserts.literal_expressions import CAREFUL
from lit_rl.execution.judging.stdio import same_output
from lit_rl.execution.wire.bounded_json import NotPlain

RULES = ("lines", "decimals", "tokens")


def rules_of(printed: str, expected: str | tuple[str, ...], tolerance: float = 1e-6) -> set[str]:
    checks = {rule: StdioTests((("", expected),), compare=rule, tolerance=tolerance) for rule in RULES}
    return {rule for rule, check in checks.items() if same_output(printed.encode(), expected, check)}


ALL, NUMBERS, WORDS, NONE = set(RULES), {"decimals", "tokens"}, {"tokens"}, set()


ROWS = [
    ("YES\nNO\n", "YES\nNO", ALL),
    ("YES  \r\nNO\n\n\n", "YES\nNO", ALL),
    ("", "", ALL),
    ("\n\n", "", ALL),
    ("YES\n", "YES\nNO", NONE),
    ("YES\nNO\nNO\n", "YES\nNO", NONE),
    ("yes", "YES", NONE),
    (" 1 2", "1 2", NUMBERS),
    ("1\n2", "1 2", WORDS),
    ("1 2\n\n3", "1 2\n3", WORDS),
    ("a  b", "a b", WORDS),
    ("1.5 x", "1.50 x", WORDS),
    ("Case 1: 2.0", "Case 1: 2.00", WORDS),
    ("0.3333333", "0.33333333333", WORDS),
    ("0.333", "0.33333333333", NONE),
    ("1000000007", "1000000006", NONE),
    ("1000000006.4", "1000000007", NONE),
    ("123456700.0", "123456789", NONE),
    ("123456700.0", "123456789.0", WORDS),
    ("2.9999999", "3", WORDS),
    ("0.500001", "0.5", WORDS),
    ("0.5000011", "0.5", NONE),
    ("1_0", "10", NONE),
    ("\uff11", "1", NONE),
    ("nan", "nan", ALL),
    ("1.0", "nan", NONE),
    ("inf", "1e999", NONE),
    ("1e999", "1e998", NONE),
    ("1e999", "10e998", NUMBERS),
    ("1e999999999", "1.0", NONE),
    ("1e99999999999999999999", "1.0", NONE),
    ("1e-999999999", "0.0", WORDS),
    ("0x10", "16", NONE),
]


def test_rules() -> None:
    """Item 63."""
    found = {(printed, expected): rules_of(printed, expected) for printed, expected, _ in ROWS}
    assert [(row, found[row[:2]]) for row in ROWS if found[row[:2]] != row[2]] == []
    for printed, expected, tolerance, rules in (
        ("2 1\n", ("1 2", "2 1"), 1e-6, ALL),
        ("2 2\n", ("1 2", "2 1"), 1e-6, NONE),
        ("1\n2", ("1", "2"), 1e-6, NONE),
        ("1.01", "1.0", 0.01, WORDS),
        ("1.0100001", "1.0", 0.01, NONE),
        ("1.0000000001", "1.0", 0.0, NONE),
        ("1.00", "1.0", 0.0, NUMBERS),
    ):
        assert rules_of(printed, expected, tolerance) == rules, (printed, expected)


def by_decimals(printed: str, expected: str) -> bool:
    """The rule of ``decimals`` as one would write it without hostile programs in mind."""
    ours, theirs = ([line.strip() for line in text.strip().split("\n")] for text in (printed, expected))

    def same(one: str, other: str) -> bool:
        with suppress(InvalidOperation):
            return one == other or [*map(Decimal, one.split())] == [*map(Decimal, other.split())]
        return False

    return len(ours) == len(theirs) and all(map(same, ours, theirs))


@pytest.mark.parametrize("number", slow_but((6_000,), [6_000, 40_000]))
def test_decimals_are_those_of_the_decimal_module_and_rules_only_grow(number: int) -> None:
    """Whatever is the same line by line is the same by decimals, and what is so is the same by tokens."""
    stream = random.Random(1)
    parts = ["0", "1", "10", ".", "-", "+", "e", "E-1", "e1", "e2", " ", "  ", "\n", "\n\n", "\r\n", "00", "x", "nan"]
    num_equal = 0
    for _ in range(number):
        printed, expected = ("".join(stream.choices(parts, k=stream.randrange(1, 6))) for _ in range(2))
        same = by_decimals(printed, expected)
        num_equal += same and printed.strip() != expected.strip()
        rules = rules_of(printed, expected)
        assert ("decimals" in rules) == same and rules in (NONE, WORDS, NUMBERS, ALL), (printed, expected)
        assert rules == rules_of(expected, printed), (printed, expected)
    assert num_equal > number / 400


MEGABYTES = 5 << 20
# What is repeated, and what ends it.
HOSTILE = {
    "newlines": (b"\n", b""),
    "words of one digit": (b"1 ", b""),
    "one number": (b"7", b""),
    "one number that is none": (b"7", b"x"),
    "a number with a long fraction": (b"7", b".5"),
    "a long exponent": (b"9", b"e9"),
    "many exponents": (b"1e999999999 ", b""),
    "spaces and a word": (b" ", b"x"),
    "zeros": (b"0", b""),
    "not UTF-8": (b"\xff\n", b""),
}


@pytest.mark.parametrize("compare", RULES)
def test_hostile_output_is_compared_in_bounded_memory(compare: str) -> None:
    """A few copies of what was printed at most; lists of its lines or words would take thirty times as much."""
    check = StdioTests((("", "1 2\n3.5\n1\n"),), compare=compare)
    for name, (piece, end) in HOSTILE.items():
        printed = piece * (MEGABYTES // len(piece)) + end
        tracemalloc.start()
        try:
            assert not same_output(printed, check.cases[0][1], check), name
            assert tracemalloc.get_traced_memory()[1] <= 4 * len(printed) + (1 << 20), name
        finally:
            tracemalloc.stop()


COLLIDING = [i * ((1 << 61) - 1) for i in range(200)]
ORDINARY = [
    ("sum", ([[1], [2]], [])),
    ("sum", (range(1000), 10)),
    ("sum", ([Fraction(1, i) for i in range(1, 100)],)),
    ("sum", ([10**400] * 50,)),
    ("set", ("aba",)),
    ("frozenset", ([1, 1],)),
    ("dict", ([(1, 2)],)),
    ("round", (2.567, 2)),
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


def test_builtins_of_tests_are_pythons_or_refuse_what_would_take_for_ever(sandbox):
    for name, arguments in ORDINARY:
        expected = getattr(builtins, name)(*arguments)
        found = CAREFUL[name](*arguments)
        assert (found, type(found)) == (expected, type(expected)), name
    for name, arguments in ENDLESS:
        with pytest.raises(NotPlain):
            CAREFUL[name](*arguments)
    results = {"sum": "[1 << 390_000] + [1] * 100_000", "set": "[i * ((1 << 61) - 1) for i in range(90_000)]"}
    for name, result in results.items():
        check = AssertTests(f"assert {name}(f()) == 3")
        outcome = sandbox.submit(f"def f(): return {result}\n", check).result()
        assert outcome.verdict is Verdict.WRONG_ANSWER, outcome
