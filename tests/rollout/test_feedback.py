"""Feedback that a policy reads about its program: real programs, judged by a real sandbox, described."""

import pytest

from lit_rl.execution import AssertTests, CallTests, Outcome, Sandbox, StdioTests, Verdict
from lit_rl.rollout import find_program
from lit_rl.rollout.environment import Attempt
from lit_rl.rollout.repair import describe_attempt
from lit_rl.types import Problem, StopReason

CALLS = CallTests((((1,), 2), ((3,), 6)), "f", timeout_seconds=0.5)
GRADED = AssertTests("x = 1\nwhile x < 4:\n    assert f(x) == 2 * x, 'twice'\n    x += 2")
ECHO = StdioTests((("a\nb\n", "a\nb\n"),), timeout_seconds=0.5)
C = StdioTests((("", "1"),), language="c")


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2, output_bytes=1 << 20) as sandbox:
        yield sandbox


def attempt(sandbox, check, text, prefix="", stop_reason=StopReason.EOS):
    program = find_program(Problem("p", "say", check, program_prefix=prefix), text)
    outcome = Outcome(Verdict.NO_PROGRAM) if program is None else sandbox.submit(program.source, check).result(60)
    return Attempt(text, stop_reason, program, outcome)


TEXTS = {
    "passed": (CALLS, "def f(x): return 2 * x", "Your program passed the public tests."),
    "wrong answer": (
        CALLS,
        "def f(x): return x + 1",
        "Your program gave a wrong answer.\nCall: f(3)\nExpected: 6\nActual: 4",
    ),
    "wrong answer, graded": (
        GRADED,
        "def f(x): return x + 1",
        "Your program gave a wrong answer. The test says: AssertionError: twice\n"
        "Test: assert f(x) == 2 * x, 'twice'\nActual: 4",
    ),
    "wrong output": (
        ECHO,
        "print('a')",
        "Your program gave a wrong answer.\nInput:\na\nb\nExpected output:\na\nb\nActual output: a",
    ),
    "exception": (
        CALLS,
        "def f(x):\n    if x > 1:\n        raise ValueError('too large')\n    return 2",
        "Your program raised ValueError: too large\nLine 3 of your code: raise ValueError('too large')\n"
        "Call: f(3)\nExpected: 6",
    ),
    "signal": (CALLS, "import ctypes\nctypes.string_at(0)", "Your program was ended by the signal SIGSEGV"),
    "syntax": (
        CALLS,
        "x = 1\ndef f(x) return 1",
        "Your program is not valid Python: SyntaxError: expected ':'\nLine 2 of your code: def f(x) return 1",
    ),
    "time": (
        CALLS,
        "def f(x):\n    while x > 1: pass\n    return 2",
        "Your program took too long and was stopped.\nCall: f(3)\nExpected: 6",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_what_happened_is_told(sandbox, name):
    check, text, expected = TEXTS[name]
    tried = attempt(sandbox, check, text)
    assert describe_attempt(tried, check.language) == expected, tried.outcome


def test_a_c_program_that_does_not_compile_is_told_what_the_compiler_said(sandbox):
    text = describe_attempt(attempt(sandbox, C, "int main() { return y; }"), "c")
    assert text.startswith("Your C program does not compile:\n") and "undeclared" in text


def test_an_answer_that_was_cut_is_told_so(sandbox):
    for text, first in [("", "Your answer held no program."), ("def f(x", "Your program is not valid Python: ")]:
        said = describe_attempt(attempt(sandbox, CALLS, text, stop_reason=StopReason.LENGTH), "python")
        assert said.startswith(first) and said.endswith("\nYour answer was cut off at the token limit.")
    said = describe_attempt(attempt(sandbox, CALLS, "def f(x): return 2 * x", stop_reason=StopReason.LENGTH), "python")
    assert said == "Your program passed the public tests."


def test_lines_are_counted_in_what_the_policy_wrote(sandbox):
    prefix = "import math\nZERO = 0\ndef helper():\n    return 1 / ZERO\n"
    own = "Look:\n\n```python\n\ndef f(x):\n    return x / 0\n```\n"
    assert "\nLine 3 of your code: return x / 0\n" in describe_attempt(attempt(sandbox, CALLS, own, prefix), "python")
    helped = "def f(x): return helper()"
    assert "\nA line before your code: return 1 / ZERO\n" in describe_attempt(
        attempt(sandbox, CALLS, helped, prefix), "python"
    )


def test_nothing_in_it_differs_between_runs(sandbox):
    program = "class A: pass\ndef f(x):\n    raise ValueError(f'{A()} {object()}')"
    said = describe_attempt(attempt(sandbox, CALLS, program), "python")
    assert "<program.A object at 0x...> <object object at 0x...>" in said


def test_hostile_words_stay_within_bounds(sandbox):
    program = "def f(x):\n" + "    " + "x" * 5000 + " = 1; raise ValueError('\\x1b\\ud800' * 10**6)"
    said = describe_attempt(attempt(sandbox, CALLS, program), "python")
    assert len(said) < 1500 and "\x1b" not in said
    said.encode()
