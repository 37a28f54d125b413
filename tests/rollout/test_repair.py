"""The repair environment: what it says, when it says nothing, and what it cannot say."""

import pytest

from lit_rl.execution import AssertTests, CallTests, Outcome, ReferenceText, Sandbox, StdioTests, Verdict
from lit_rl.rollout import find_program
from lit_rl.rollout.environment import Attempt
from lit_rl.rollout.repair import Repair, describe_attempt
from lit_rl.types import Problem, StopReason

MARKER = "h1dd3n"
PUBLIC = CallTests((((1,), 2), ((3,), 6)), "f", timeout_seconds=0.5)
HIDDEN = CallTests((((f"{MARKER} in",), f"{MARKER} out"), ((7,), f"{MARKER} 14")), "f", timeout_seconds=0.5)
PUBLIC_ASSERTS = AssertTests("assert f(1) == 2\nassert f(3) == 6", timeout_seconds=0.5)
HIDDEN_ASSERTS = AssertTests(f"assert f('{MARKER}') == '{MARKER}'", timeout_seconds=0.5)
CHAT = ({"role": "user", "content": "Double it."},)
PROBLEM = Problem("double", CHAT, HIDDEN, public_check=PUBLIC)
HEADER = "def f(x):\n"
CONTINUED = Problem("double", HEADER, HIDDEN, program_prefix=HEADER, public_check=PUBLIC)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2, output_bytes=1 << 20) as sandbox:
        yield sandbox


def attempt(sandbox, environment, problem, text, stop_reason=StopReason.EOS):
    """As the collector makes one."""
    program = find_program(problem, text)
    outcome = Outcome(Verdict.NO_PROGRAM)
    if program is not None:
        outcome = sandbox.submit(program.source, environment.check(problem)).result(60)
    return Attempt(text, stop_reason, program, outcome)


def failed(verdict=Verdict.TIMED_OUT):
    return Attempt("x", StopReason.EOS, None, Outcome(verdict))


PROGRAMS = {
    "wrong": "def f(x): return x",
    "right in public, wrong in hidden": "def f(x): return 2 * x",
    "prints all that it is called with": "import sys\ndef f(x):\n    print(x, file=sys.stderr)\n    return x",
    "tells its arguments": "seen = []\ndef f(x):\n    seen.append(x)\n    raise ValueError(seen)",
    "looks for what is not there": (
        "import gc\nword = ''.join(reversed('n3dd1h'))\ndef f(x):\n"
        "    raise ValueError([o for o in gc.get_objects() if isinstance(o, (tuple, list)) and word in str(o)])"
    ),
    "syntax": "def f(x) return x",
    "endless": "while True: pass",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("kinds", [(PUBLIC, HIDDEN), (PUBLIC_ASSERTS, HIDDEN_ASSERTS)], ids=["calls", "asserts"])
def test_nothing_of_the_hidden_tests_is_told(sandbox, name, kinds):
    public, hidden = kinds
    problem = Problem("double", CHAT, hidden, public_check=public)
    repair = Repair(max_turns=3, template="{feedback}{comment}{case}{program_prefix}{turn}{max_turns}")
    tried = attempt(sandbox, repair, problem, PROGRAMS[name])
    message = repair.answer(problem, [tried]) or ""
    assert MARKER not in message
    passed = tried.outcome.verdict is Verdict.PASSED
    assert passed == (not message) == (name == "right in public, wrong in hidden")


def test_the_hidden_check_is_not_even_read(sandbox):
    class Guarded(Problem):
        def __getattribute__(self, name):
            assert name not in ("check", "reference", "fields"), f"{name} is not for an environment"
            return super().__getattribute__(name)

        def __post_init__(self):
            """Check no field: that would read them."""

    in_a_chat = Guarded("p", CHAT, HIDDEN, public_check=PUBLIC)
    continued = Guarded("p", HEADER, HIDDEN, program_prefix=HEADER, public_check=PUBLIC)
    for open_, guarded in ((PROBLEM, in_a_chat), (CONTINUED, continued)):
        repair = Repair()
        tried = attempt(sandbox, repair, open_, "    return x")
        repair.check_problem(guarded)
        assert repair.check(guarded) is PUBLIC
        assert repair.answer(guarded, [tried])


def test_the_message_of_a_chat(sandbox):
    tried = attempt(sandbox, Repair(), PROBLEM, "```python\ndef f(x):\n    return x\n```")
    feedback = "Your program gave a wrong answer.\nCall: f(1)\nExpected: 2\nActual: 1"
    assert Repair().answer(PROBLEM, [tried]) == f"{feedback}\n\nWrite the whole program again, corrected."


def test_the_message_after_a_program_is_a_comment_and_its_beginning(sandbox):
    repair = Repair()
    tried = attempt(sandbox, repair, CONTINUED, "    return x\n")
    message = repair.answer(CONTINUED, [tried])
    assert message == (
        "\n\n# Your program gave a wrong answer.\n# Call: f(1)\n# Expected: 2\n# Actual: 1\n\ndef f(x):\n"
    )
    whole = HEADER + tried.text + message + "    return 2 * x\n"
    names = {}
    exec(whole, names)  # the conversation reads as one program
    assert names["f"](3) == 6
    assert attempt(sandbox, repair, CONTINUED, "    return 2 * x\n").outcome.passed  # and so is the second turn judged


def test_it_ends_when_the_public_check_passes_or_turns_are_used_up():
    repair = Repair(max_turns=3)
    assert repair.answer(PROBLEM, [failed(Verdict.PASSED)]) is None
    assert repair.answer(PROBLEM, [failed()]) is not None
    assert repair.answer(PROBLEM, [failed(), failed()]) is not None
    assert repair.answer(PROBLEM, [failed(), failed(Verdict.PASSED)]) is None
    assert repair.answer(PROBLEM, [failed()] * 3) is None


def test_a_failure_of_ours_ends_the_conversation_and_invents_nothing():
    assert Repair(max_turns=9).answer(PROBLEM, [failed(Verdict.INFRASTRUCTURE_FAILURE)]) is None


def test_each_turn_speaks_of_its_own_program(sandbox):
    repair = Repair(max_turns=3, template="{turn}/{max_turns} {feedback}")
    first = attempt(sandbox, repair, PROBLEM, "def f(x): return 'first'")
    second = attempt(sandbox, repair, PROBLEM, "def f(x): return 'second'")
    message = repair.answer(PROBLEM, [first, second])
    assert message.startswith("3/3 ") and "second" in message and "first" not in message


def test_a_program_with_braces_fills_no_placeholder(sandbox):
    tried = attempt(sandbox, Repair(), PROBLEM, "def f(x): return '{turn} {0} {{'")
    assert "Actual: '{turn} {0} {{'" in Repair().answer(PROBLEM, [tried])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"template": "{feedbak}"}, "feedbak"),
        ({"max_turns": 1}, "Repair.max_turns: expected at least 2, got 1; use SingleTurn"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(arguments, message):
    with pytest.raises((KeyError, ValueError), match=message) as raised:
        Repair(**arguments)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("public", "message"),
    [
        (None, "problem double has no public_check to repair a program by"),
        (ReferenceText("2"), "without cases .ReferenceText runs no program"),
    ],
)
def test_a_problem_without_public_cases_is_refused_in_one_line(public, message):
    with pytest.raises(ValueError, match=message) as raised:
        Repair().check_problem(Problem("double", CHAT, HIDDEN, public_check=public))
    assert "\n" not in str(raised.value) and "SingleTurn" in str(raised.value)


def test_a_template_must_bring_what_the_completion_goes_on_from():
    Repair().check_problem(CONTINUED)
    Repair(template="{feedback}\n{program_prefix}").check_problem(CONTINUED)
    with pytest.raises(ValueError, match=r"must end with {program_prefix}, or be null"):
        Repair(template="{feedback}\n").check_problem(CONTINUED)


# -- what a program's run is described as ----------------------------------------------------------------------

GRADED = AssertTests("x = 1\nwhile x < 4:\n    assert f(x) == 2 * x, 'twice'\n    x += 2")
ECHO = StdioTests((("a\nb\n", "a\nb\n"),), timeout_seconds=0.5)
C = StdioTests((("", "1"),), language="c")


def described(sandbox, text, check=PUBLIC, prefix="", stop_reason=StopReason.EOS):
    problem = Problem("p", "say", check, program_prefix=prefix, public_check=check)
    return describe_attempt(attempt(sandbox, Repair(), problem, text, stop_reason), check.language)


TEXTS = {
    "passed": (PUBLIC, "def f(x): return 2 * x", "Your program passed the public tests."),
    "wrong answer": (
        PUBLIC,
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
        PUBLIC,
        "def f(x):\n    if x > 1:\n        raise ValueError('too large')\n    return 2",
        "Your program raised ValueError: too large\nLine 3 of your code: raise ValueError('too large')\n"
        "Call: f(3)\nExpected: 6",
    ),
    "signal": (PUBLIC, "import ctypes\nctypes.string_at(0)", "Your program was ended by the signal SIGSEGV"),
    "syntax": (
        PUBLIC,
        "x = 1\ndef f(x) return 1",
        "Your program is not valid Python: SyntaxError: expected ':'\nLine 2 of your code: def f(x) return 1",
    ),
    "time": (
        PUBLIC,
        "def f(x):\n    while x > 1: pass\n    return 2",
        "Your program took too long and was stopped.\nCall: f(3)\nExpected: 6",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_what_happened_is_told(sandbox, name):
    check, text, expected = TEXTS[name]
    assert described(sandbox, text, check) == expected


def test_a_c_program_that_does_not_compile_is_told_what_the_compiler_said(sandbox):
    text = described(sandbox, "int main() { return y; }", C)
    assert text.startswith("Your C program does not compile:\n") and "undeclared" in text


def test_an_answer_that_was_cut_is_told_so(sandbox):
    for text, first in [("", "Your answer held no program."), ("def f(x", "Your program is not valid Python: ")]:
        said = described(sandbox, text, stop_reason=StopReason.LENGTH)
        assert said.startswith(first) and said.endswith("\nYour answer was cut off at the token limit.")
    said = described(sandbox, "def f(x): return 2 * x", stop_reason=StopReason.LENGTH)
    assert said == "Your program passed the public tests."


def test_lines_are_counted_in_what_the_policy_wrote(sandbox):
    prefix = "import math\nZERO = 0\ndef helper():\n    return 1 / ZERO\n"
    own = "Look:\n\n```python\n\ndef f(x):\n    return x / 0\n```\n"
    assert "\nLine 3 of your code: return x / 0\n" in described(sandbox, own, prefix=prefix)
    helped = described(sandbox, "def f(x): return helper()", prefix=prefix)
    assert "\nA line before your code: return 1 / ZERO\n" in helped


def test_nothing_in_it_differs_between_runs(sandbox):
    said = described(sandbox, "class A: pass\ndef f(x):\n    raise ValueError(f'{A()} {object()}')")
    assert "<program.A object at 0x...> <object object at 0x...>" in said


def test_hostile_words_stay_within_bounds(sandbox):
    program = "def f(x):\n" + "    " + "x" * 5000 + " = 1; raise ValueError('\\x1b\\ud800' * 10**6)"
    said = described(sandbox, program)
    assert len(said) < 1500 and "\x1b" not in said
    said.encode()
