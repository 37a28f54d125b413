"""A value that cannot be carried is a wrong answer with a reason, the same in every kind of check."""

from collections.abc import Iterator
from fractions import Fraction

import pytest
from support.named_jobs import judge_named

from lit_rl.data.mbpp_plus import comparing_test_source
from lit_rl.execution import AssertTests, CallTests, Sandbox
from lit_rl.execution.judging.asserts.assert_plan import plan_asserts

LONG_RANGE = "a range of more than 1000000 items, or of ints of more than 4096 bits"
BEYOND = "an int of more than 8000000 hexadecimal digits"
REASONS = {
    "a large int": ("1 << 32_000_001", BEYOND),
    "a large int in a list": ("[1, {'a': (1 << 32_000_001,)}]", BEYOND),
    "a list in lists": ("nested(101)", "lists nested deeper than 100"),
    "a list in itself": ("cyclic()", "lists nested deeper than 100"),
    "many values": ("[0] * 2_000_001", "more values than can be held"),
    "a long text": ("'x' * (17 << 20)", "more than 16777216 bytes"),
    "keys that collide": ("{i * ((1 << 61) - 1) for i in range(200)}", "keys of a set or dict that collide"),
    "a long range": ("range(10**7)", LONG_RANGE),
    "a range of large ints": ("range(1 << 5000, 1 << 9000, 1 << 8999)", LONG_RANGE),
    "a large Decimal": ("Decimal('1e20000')", "a Decimal too large to compute with"),
    "a large Fraction": ("Fraction(1, 1 << 40_000)", "a Fraction of more than 8000 hexadecimal digits"),
    "a Decimal beside a large int": (
        "[1 << 500_000, Decimal(1)]",
        "a Decimal beside an int of more than 100000 hexadecimal digits",
    ),
}
PROGRAM = """
from decimal import Decimal
from fractions import Fraction

def nested(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found

def pairs(depth):
    found = ()
    for _ in range(depth):
        found = ({1: found},)
    return found

def cyclic():
    found = []
    found.append(found)
    return found

def f(x):
    return EXPRESSION
"""
CHECKS = {
    "calls": CallTests((((1,), 5),), "f"),
    "a literal assert": AssertTests("assert f(1) == 5"),
    "an assert that any value meets": AssertTests("assert f(1) != 5"),
    "a graded assert that any value meets": AssertTests("y = [f(1)]\nassert y != [5]"),
    "a caught error": AssertTests("try:\n    y = f(1)\nexcept Exception:\n    y = 5\nassert y == 5"),
    "in place": AssertTests("assert f(1) != 5", in_place=True),
    "a reference": AssertTests(comparing_test_source("def f(x): return 5", "f", [[1]], 0), "f"),
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(num_workers=2, memory_bytes=1 << 30) as sandbox:
        yield sandbox


def said(outcome):
    return outcome.verdict, outcome.exception_type, outcome.exception_message


def test_every_check_gives_the_same_verdict_and_reason(sandbox):
    programs = {name: PROGRAM.replace("EXPRESSION", expression) for name, (expression, _) in REASONS.items()}
    everywhere = ("a list in itself", "many values", "a large int", "a long text")
    jobs = {
        (name, kind): (programs[name], check)
        for name in REASONS
        for kind, check in CHECKS.items()
        if name in everywhere or kind in ("calls", "a graded assert that any value meets")
    }
    found = {how: said(outcome) for how, outcome in judge_named(sandbox, jobs).items()}
    message = "a value that cannot be carried: {}"
    wanted = {how: ("wrong_answer", "NotCarried", message.format(REASONS[how[0]][1])) for how in jobs}
    assert {how: outcome for how, outcome in found.items() if outcome != wanted[how]} == {}


CARRIED = {
    "a large int": "1 << 31_999_999",
    "deep lists": "nested(99)",
    "an int beside floats": "[1 << 500_000, 0.5]",
    "many numbers": "[0] * 1_900_000",
}


# What HumanEval+ asks of tasks 83 and 139: the answers have hundreds of thousands of digits.
LARGE_INTS = {
    83: (
        "def starts_one_ends(n):\n    return 1 if n == 1 else 18 * 10 ** (n - 2)\n",
        "starts_one_ends",
        [[1], [2], [1000], [3_000_000]],
    ),
    139: (
        "def special_factorial(n):\n    f = p = 1\n    for i in range(1, n + 1):\n        f *= i\n        p *= f\n"
        "    return p\n",
        "special_factorial",
        [[4], [100], [600]],
    ),
}


def test_a_value_within_the_limits_is_compared(sandbox):
    pairs = []
    for expression in CARRIED.values():
        program = PROGRAM.replace("EXPRESSION", expression)
        wrong = program.replace("return " + expression, f"return [{expression}][1:]")
        pairs.append((program, wrong, AssertTests(comparing_test_source(program, "f", [[1]], 0), "f")))
    for program, function, inputs in LARGE_INTS.values():
        lying = f"{program}\nright = {function}\ndef {function}(n):\n    return right(n) + (n == {inputs[-1][0]})\n"
        pairs.append((program, lying, AssertTests(comparing_test_source(program, function, inputs, 0), function, 30.0)))
    for program, lying, check in pairs:
        right, lie = sandbox.judge_many([(program, check), (lying, check)])
        assert right.passed, right
        assert lie.verdict == "wrong_answer" and lie.exception_type != "NotCarried", lie


def test_whatever_the_tests_take_from_the_program_has_the_same_reason(sandbox):
    """Its globals, attributes, items, arguments of callbacks, and what it left in place."""
    reason = f"a value that cannot be carried: {BEYOND}"
    cases = {
        "X = 1 << 32_000_001\ndef f(x): return 1": ("assert f(1) == 1\nassert [X] != [5]", reason),
        "X = [0] * 3_000_000\ndef f(x): return 1": (
            "assert f(1) == 1\nassert [X] != [5]",
            "a value that cannot be carried: more values than can be held",
        ),
        "class A:\n    x = 1 << 32_000_001\ndef f(x): return A()": ("y = f(1)\nassert y.x != 5", reason),
        "def f(x):\n    yield 1\n    yield 1 << 32_000_001": ("y = list(f(1))\nassert y != [5]", reason),
        "def f(g): g(1 << 32_000_001)": ("y = []\nf(y.append)\nassert y != [5]", reason),
    }
    for program, (test, wanted) in cases.items():
        outcome = sandbox.submit(program, AssertTests(test)).result()
        assert said(outcome) == ("wrong_answer", "NotCarried", wanted), program
    asserts = AssertTests("y = []\nf(y)\nassert y != [5]", in_place=True)
    for check in (asserts, CallTests(((([],), [5]),), "f", in_place=True)):
        outcome = sandbox.submit("def f(x): x.append(1 << 32_000_001)", check).result()
        assert said(outcome) == ("wrong_answer", "NotCarried", reason)


def test_tests_cannot_make_a_program_end_by_an_argument_that_is_too_large(sandbox):
    """The tests get an error of their own, at the line that makes the call; nothing ends by a signal."""
    for argument in ("[0] * 3_000_000", "1 << 32_000_001", "'x' * (17 << 20)"):
        test = f"big = {argument}\ntry:\n    f(big)\nexcept ValueError:\n    caught = True\nassert caught and f(1) == 1"
        outcome = sandbox.submit("def f(x): return x\n", AssertTests(test)).result()
        assert outcome.passed, outcome


def test_large_ints_and_decimals_of_two_answers_are_compared_by_a_grader(sandbox):
    """There they take time of the program's: here they would take the supervisor's."""
    program = (
        "from decimal import Decimal\nlarge = int('3' * 7_000_000, 16)\n"
        "def f(x): return large\ndef g(x): return Decimal(hash(large))\n"
    )
    checks = [AssertTests(test, timeout_seconds=1.0) for test in ("assert f(1) == g(1)", "assert {f(1)} == {g(1)}")]
    assert all(plan_asserts(check.test, None) for check in checks)
    assert [o.verdict for o in sandbox.judge_many([(program, check) for check in checks])] == ["timed_out"] * 2
    written = AssertTests("assert f(1) == 10 ** 3_000_000", timeout_seconds=2.0)
    literal = AssertTests(f"assert f(1) == 0x{'3' * 200_000}", timeout_seconds=2.0)
    assert not any(plan_asserts(check.test, None) for check in (written, literal))
    expected = CallTests((((1,), int("3" * 7_000_000, 16)),), "g", timeout_seconds=2.0)
    outcome = sandbox.submit(program, expected).result()
    assert said(outcome)[:2] == ("wrong_answer", "NotCarried")


CHECKS_THAT_RAISE = (
    ([[1 << 32_000_001]], BEYOND),
    (eval("[" * 101 + "]" * 101), "lists nested deeper than 100"),
    ("x" * (17 << 20), "more than 16777216 bytes"),
    ([0] * 2_000_001, "more values than can be held"),
    ([Fraction(1, 1 << 40_000)], "a Fraction of more than 8000"),
)


@pytest.mark.slow
def test_an_expected_value_or_an_argument_beyond_the_limits_is_refused_when_the_check_is_made():
    small = ((1,), 1)
    for value, reason in CHECKS_THAT_RAISE:
        with pytest.raises(ValueError, match=r"CallTests.cases\[1\]: the expected value cannot be carried: " + reason):
            CallTests((small, ((1,), value)), "f")
        with pytest.raises(ValueError, match=r"CallTests.cases\[0\]: an argument cannot be carried: " + reason) as told:
            CallTests((((value,), 1), small), "f")
        assert "\n" not in str(told.value) and len(str(told.value)) < 200
