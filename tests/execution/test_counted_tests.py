"""The tests in a source are counted, and those after one that failed are run: a fraction is passed over all."""

import pytest
from support.completions import judged, problem
from support.named_jobs import judge_named

from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests, Verdict
from lit_rl.rewards import TestsReward

EVEN = "def f(x):\n    return x if x % 2 == 0 else -1\n"
FIRST = "def f(x):\n    return 0\n"
RAISES = "def f(x):\n    return x if x % 2 == 0 else [][x]\n"
ENDS = "import os\ndef f(x):\n    return x if x < 3 else os._exit(0)\n"
WAITS = "def f(x):\n    while x == 3: pass\n    return x\n"
WRONG_THEN_WAITS = "def f(x):\n    while x == 3: pass\n    return -1 if x == 0 else x\n"
TEN = "for x in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]:\n    assert f(x) == x\n"
NOTED = "for x in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]:\n    y = f(x)\n    if y != x:\n        assert abs(y - x) < 0.5\n"
NESTED = "for x in [1, 2]:\n    for y in [0, 2, 4]:\n        assert f(x) + y == x + y\n    assert f(3) == 3\n"
CHECK = "inputs = {}\ndef check(candidate):\n    for x in inputs:\n        assert candidate(x) == x\n"

# A program, tests, and how many of how many it passes.
COUNTED = {
    "one of a hundred": (FIRST, CHECK.format([*range(100)]), 1, 100),
    "every second": (EVEN, TEN, 5, 10),
    "a value that could not be bound": (RAISES, NOTED, 5, 10),
    "an exception": (RAISES, TEN, 5, 10),
    "the end of the program": (ENDS, TEN, 3, 10),
    "a time-out": (WAITS, TEN, 3, 10),
    "a time-out after a wrong answer": (WRONG_THEN_WAITS, TEN, 2, 10),
    "before and after": (EVEN, f"assert f(1) == 1\nassert f(2) == 2\n{TEN}assert f(4) == 4\nassert f(5) == 5\n", 7, 14),
    "nested": (EVEN, NESTED, 3, 8),
}  # fmt: skip
TEST_FUNCTIONS = "def test_a():\n    assert f(1) == 1\n    assert f(2) == 2\ndef test_b():\n    assert f(4) == 4\n"
UNIT = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(f(1), 1)\n    def test_b(self):\n        self.assertEqual(f(2), 2)\n    def test_c(self): self.assertEqual(f(4), 4)\n"  # noqa: E501
PLAIN_CLASS = "class TestF:\n    def setup_method(self): self.x = 2\n    def test_a(self): assert f(1) == 1\n    def test_b(self): assert f(self.x) == 2\n"  # noqa: E501
MARKED = "import pytest\n@pytest.mark.parametrize('x', [1, 2, 4])\ndef test_a(x):\n    assert f(x) == x\n"
HELPER = "def assertion(a, b):\n    if a != b:\n        assert abs(a - b) < 0.5\n"
# Only a grader can run these.
GRADED = {
    "ranges": (EVEN, "for x in range(1, 6):\n    assert f(x) == x\n", 2, 5),
    "a dict": (EVEN, "known = {1: 1, 2: 2}\nfor x, y in known.items():\n    assert f(x) == y\n", 1, 2),
    "a helper": (EVEN, f"{HELPER}for x in [1, 2, 3, 4]:\n    assertion(f(x), x)\n", 2, 4),
    "functions": (EVEN, TEST_FUNCTIONS, 2, 3),
    "functions that the tests call": (EVEN, TEST_FUNCTIONS + "test_a()\ntest_b()\n", 2, 3),
    "in a main block": (EVEN, TEST_FUNCTIONS + "if __name__ == '__main__':\n    test_a()\n    test_b()\n", 2, 3),
    "cases of a function": (EVEN, MARKED, 2, 3),
    "methods": (EVEN, UNIT, 2, 3),
    "methods of a plain class": (EVEN, PLAIN_CLASS, 1, 2),
    "a coroutine": (EVEN, "async def test_a():\n    assert f(2) == 2\n    assert f(1) == 1\n", 0, 1),
    "blocks": (EVEN, "for x in [1, 2]:\n    try:\n        assert f(x) == x\n    finally:\n        x = 0\n", 1, 2),
    # A loop whose length is not written out is one test.
    "until something holds": (EVEN, "x = 2\nwhile x < 9:\n    assert f(x) == x\n    x += 1\nassert f(4) == 4\n", 1, 2),
    "with a break": (EVEN, "for x in [2, 4, 5]:\n    assert f(x) == x\n    if x == 9: break\nassert f(4) == 4\n", 1, 2),
}  # fmt: skip


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2, packages=("pytest",)) as sandbox:
        yield sandbox


def fraction(check, outcome):
    score = TestsReward(mode="fraction").score
    rows = type("Rows", (), {"texts": [""]})
    return score(rows, [judged("", outcome, problem(check))])[0].value


def check_of(tests, **options):
    return AssertTests(tests, "f" if "def check" in tests else None, timeout_seconds=0.5, **options)


def differing(sandbox, cases, **options):
    """The fraction paid for each program, and the right one."""
    jobs = {name: (program, check_of(tests, **options)) for name, (program, tests, _, _) in cases.items()}
    outcomes = judge_named(sandbox, jobs)
    paid = {name: fraction(jobs[name][1], outcome) for name, outcome in outcomes.items()}
    return {name: paid[name] for name, (_, _, held, of) in cases.items() if paid[name] != pytest.approx(held / of)}


def test_a_fraction_is_passed_over_all(sandbox):
    assert differing(sandbox, COUNTED) == {}


def test_a_fraction_of_a_grader_is_passed_over_all(sandbox):
    assert differing(sandbox, COUNTED | GRADED, in_place=True) == {}


def test_tests_are_counted_without_running_them():
    counted = {name: check_of(tests).num_tests for name, (_, tests, _, _) in (COUNTED | GRADED).items()}
    assert counted == {name: of for name, (_, _, _, of) in (COUNTED | GRADED).items()}


def test_the_first_test_that_failed_decides_whatever_the_later_ones_do(sandbox):
    """A later exception, time-out or end of the program changes no verdict."""
    check, first = check_of(TEN, in_place=True), "def f(x):\n    if x == 0: return -1\n    "
    jobs = {later: (first + later, check) for later in ("[][0]", "while True: pass", "import os; os._exit(0)")}
    for later, outcome in judge_named(sandbox, jobs).items():
        assert (outcome.verdict, outcome.failed_case.number) == (Verdict.WRONG_ANSWER, 1), later
        assert outcome.cases[0] is Verdict.WRONG_ANSWER, later


def test_a_failure_that_the_tests_expect_is_none(sandbox):
    """The functions of the tests are not changed where something looks at how they end."""
    odd = "def odd(g):\n    assert g(1) == 5\n"
    for tests in (
        odd + "try:\n    odd(f)\nexcept AssertionError:\n    caught = 1\nelse:\n    raise ValueError\nassert caught\n",
        odd + "import pytest\nwith pytest.raises(AssertionError):\n    odd(f)\n",
        odd + "def run(g):\n    try: odd(g)\n    except AssertionError: return 2\nassert run(f) == 2\n",
    ):
        assert sandbox.submit(EVEN, AssertTests(tests, in_place=True)).result(60).passed, tests


def test_what_a_test_set_up_is_not_left_from_another_round(sandbox):
    """The value of an even round would hold in the odd one after it."""
    tests = "for x in [0, 1, 2, 3]:\n    y = f(x)\n    assert y == 0\n"
    outcome = sandbox.submit("def f(x):\n    return [0][x % 2]\n", AssertTests(tests, in_place=True)).result(60)
    assert outcome.cases == (Verdict.PASSED, Verdict.EXCEPTION) * 2


def test_cases_of_calls_and_of_whole_programs_that_were_not_started_count(sandbox):
    calls = CallTests(tuple(((x,), x) for x in range(10)), "f", timeout_seconds=0.2)
    whole = StdioTests(tuple((f"{x}\n", f"{x}\n") for x in range(10)), timeout_seconds=0.3)
    for program, held in ((EVEN, 5), (RAISES, 5), (WAITS, 3)):
        outcome = sandbox.submit(program, calls).result(60)
        assert fraction(calls, outcome) == pytest.approx(held / 10), program
        outcome = sandbox.submit(f"{program}\nprint(f(int(input())))\n", whole).result(60)
        assert fraction(whole, outcome) == pytest.approx(held / 10), program
