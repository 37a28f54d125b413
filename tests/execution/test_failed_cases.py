"""First failed cases in outcomes, through the public interface."""

import pickle
from dataclasses import replace

import pytest
from support.named_jobs import judge_named, not_among

from lit_rl.execution import AssertTests, CallTests, FailedCase, Sandbox, StdioTests, Verdict

DOUBLE = CallTests((((1,), 2), ((3,), 6), ((4,), 8)), "f")
HURRIED = replace(DOUBLE, timeout_seconds=0.5)
ASSERTS = AssertTests("assert f(1) == 2\nassert f(3) == 6\nassert f(4) == 8")
LOOP = AssertTests("for x, y in [(1, 2), (3, 6)]:\n    assert abs(f(x) - y) < 0.1")
WHILE = AssertTests("x = 1\nwhile x < 4:\n    assert f(x) == 2 * x\n    x += 2")
UNIT = AssertTests(
    "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(f(3), 6)\n"
)
ECHO = StdioTests((("a\n", "a\n"), ("b\n", "b\n")))
SQUARES = "def f(x):\n    return x * x * 2 if x > 1 else 2\n"
RAISES = "def f(x):\n    if x == 3:\n        raise ValueError('no threes')\n    return 2 * x\n"


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2, output_bytes=8 << 20) as sandbox:
        yield sandbox


def judged(sandbox, program, check):
    return sandbox.submit(program, check).result(60)


ROWS = {
    "calls": (SQUARES, DOUBLE, FailedCase(2, "f(3)", "6", "18")),
    "calls, exception": (RAISES, DOUBLE, FailedCase(2, "f(3)", "6")),
    "calls, time": ("def f(x):\n    while x > 1: pass\n    return 2", HURRIED, FailedCase(2, "f(3)", "6")),
    "calls, an object": ("class A: pass\ndef f(x): return A()", DOUBLE, FailedCase(1, "f(1)", "2", "<A object>")),
    "calls, in place": (
        "def f(x): x.sort(reverse=True)",
        CallTests(((([3, 1],), [1, 3]),), "f", in_place=True),
        FailedCase(1, "f([3, 1])", "[1, 3]", "[3, 1]"),
    ),
    "asserts": (SQUARES, ASSERTS, FailedCase(2, "f(3)", "6", "18")),
    "asserts, exception": (RAISES, ASSERTS, FailedCase(2, "f(3)", "6")),
    "asserts, identity": (SQUARES, AssertTests("assert f(3) is True"), FailedCase(1, "f(3)", "True", "18")),
    "asserts, in a loop": (SQUARES, LOOP, FailedCase(2, "assert abs(f(x) - y) < 0.1", "", "18", "assert")),
    "asserts, two calls": (
        SQUARES,
        AssertTests("assert f(3) == f(2)"),
        FailedCase(1, "f(3); f(2)", "assert f(3) == f(2)", "18; 8"),
    ),
    "graded": (SQUARES, WHILE, FailedCase(2, "assert f(x) == 2 * x", "", "18", "assert")),
    "graded, unittest": (SQUARES, UNIT, FailedCase(1, "self.assertEqual(f(3), 6)", "", "18", "assert")),
    "stdio": ("print('a')", ECHO, FailedCase(2, "b\n", "b\n", "a\n", "input")),
    "stdio, exception": ("if input() == 'b': 1 / 0\nprint('a')", ECHO, FailedCase(2, "b\n", "b\n", kind="input")),
    "stdio, one of several": ("print('c')", StdioTests((("", ("a", "b")),)), FailedCase(1, "", "a", "c\n", "input")),
}  # fmt: skip


def test_the_first_case_that_failed_is_told(sandbox):
    outcomes = judge_named(sandbox, {name: (program, check) for name, (program, check, _) in ROWS.items()})
    assert {name: end for name, end in outcomes.items() if end.failed_case != ROWS[name][2]} == {}


def test_a_program_that_passes_has_none(sandbox):
    double, copy = "def f(x): return 2 * x", "print(input())"
    for program, check in [(double, DOUBLE), (double, ASSERTS), (double, WHILE), (copy, ECHO)]:
        outcome = judged(sandbox, program, check)
        assert outcome.passed and outcome.failed_case is None and outcome.exception_message == "", outcome


def test_what_ended_the_program_before_any_case_or_over_all_calls_has_none(sandbox):
    for program in ("1 / 0", "def f(x) return 1", "import os\nos._exit(0)", "while True: pass"):
        assert judged(sandbox, program, HURRIED).failed_case is None, program
    outcome = judged(sandbox, "import os\ndef f(x):\n    os.write(1, b'x' * (9 << 20))\n    return 2 * x", DOUBLE)
    assert (outcome.verdict, outcome.failed_case) == ("output_limit", None)
    outcome = judged(sandbox, "kept = []\ndef f(x):\n    kept.append(b'x' * (1 << 30))\n    return 2 * x", DOUBLE)
    assert outcome.verdict == "out_of_memory"  # a MemoryError of its own, or the kernel's doing
    assert outcome.failed_case in (None, FailedCase(1, "f(1)", "2"))


def test_the_message_of_an_exception_and_of_the_first_of_two_calls_is_told(sandbox):
    outcome = judged(sandbox, RAISES, AssertTests("assert f(3) == f(2)"))
    assert (outcome.verdict, outcome.exception_type, outcome.line) == ("exception", "ValueError", 3)
    for check in (DOUBLE, ASSERTS, WHILE):
        outcome = judged(sandbox, RAISES, check)
        assert (outcome.exception_type, outcome.exception_message, outcome.line) == ("ValueError", "no threes", 3)
    outcome = judged(sandbox, "raise KeyError('x' * 9999)", ECHO)
    assert (outcome.exception_type, len(outcome.exception_message)) == ("KeyError", 500)
    outcome = judged(sandbox, SQUARES, UNIT)
    assert (outcome.exception_type, outcome.exception_message) == ("AssertionError", "18 != 6")


HOSTILE = {
    "long list": "list(range(2 * 10**5))",
    "long text": "'ab' * 10**6",
    "large int": "10 ** 60000",
    "deep": "deep(90)",
    "far too deep": "deep(10**5)",
    "in itself": "cyclic()",
    "surrogates": "'\\ud800 \\udfff' * 3",
    "NUL": "'a\\0b\\x1b[2J\\u202e'",
    "an object": "Bad()",
    "objects": "[Bad(), {Bad(): Bad()}]",
    "a large range": "range(10**9)",
}
LIBRARY = """\
class Bad:
    def __repr__(self): raise SystemExit
    __str__ = __repr__
Bad.__name__ = 'B\\x1b\\n' * 10**5
def deep(n):
    value = []
    for _ in range(n): value = [value]
    return value
def cyclic():
    value = []
    value.append(value)
    return value
"""


def test_no_value_of_a_program_and_nothing_printed_makes_the_text_unfit(sandbox):
    jobs = {}
    for name, value in HOSTILE.items():
        for ending in ("return {}", "raise ValueError({})"):
            program = f"{LIBRARY}def f(x):\n    {ending.format(value)}\n"
            checks = (DOUBLE, WHILE) if "raise" in ending else (ASSERTS, WHILE)
            jobs |= {(name, ending, i): (program, check) for i, check in enumerate(checks)}
        jobs[name, "printed"] = f"{LIBRARY}import sys\nsys.stdout.write(ascii({value}))", ECHO
    outcomes = judge_named(sandbox, jobs)
    assert not_among(outcomes, Verdict.WRONG_ANSWER, Verdict.EXCEPTION, Verdict.OUT_OF_MEMORY) == {}
    for outcome in outcomes.values():
        require_fit(outcome)
    for printed in ("b'\\xff\\0\\x1b[2J' * 10**5", "'\\u00e4\\U0001f600'.encode() * 10**6", "b'\\n' * 10**6"):
        outcome = judged(sandbox, f"import os\nos.write(1, {printed})", ECHO)
        assert outcome.verdict == "wrong_answer" and outcome.failed_case.actual
        require_fit(outcome)


def require_fit(outcome):
    case = outcome.failed_case or FailedCase(0)
    for text in (case.call, case.expected, case.actual, outcome.exception_message):
        assert len(text) <= 500
        assert text.encode().decode() == text  # no halves of surrogate pairs
        assert all(character.isprintable() or character in "\t\n" or ord(character) > 0xA0 for character in text), text
    assert len(pickle.dumps(case)) < 8_000


def test_the_largest_cases_stay_small(sandbox):
    huge = tuple(range(200_000))
    check = CallTests((((huge, "x" * 10**6), list(huge)),), "f")
    outcome = judged(sandbox, "def f(x, y): return x[::-1]", check)
    assert outcome.verdict == "wrong_answer"
    assert outcome.failed_case.expected.endswith("... (200000 items)")
    require_fit(outcome)
    outcome = judged(sandbox, "print(1)", StdioTests((("1\n" * 10**6, "2\n" * 10**6),)))
    assert len(outcome.failed_case.call) == len(outcome.failed_case.expected) == 500


def test_a_check_that_stops_at_a_failure_has_the_verdict_of_all_cases(sandbox):
    program = "n = int(input())\nprint(n if n != 2 else 1 // 0)"
    check = StdioTests((("1", "1"), ("2", "2"), ("3", "4"), ("5", "5")))
    everything, stopped = (judged(sandbox, program, replace(check, stop_at_failure=stop)) for stop in (False, True))
    assert everything.cases == (Verdict.PASSED, Verdict.EXCEPTION, Verdict.WRONG_ANSWER, Verdict.PASSED)
    assert stopped.cases == everything.cases[:2]
    assert (stopped.verdict, stopped.failed_case) == (everything.verdict, everything.failed_case)
    passing = replace(check, cases=(("1", "1"), ("3", "3")), stop_at_failure=True)
    assert judged(sandbox, program, passing).cases == (Verdict.PASSED, Verdict.PASSED)
