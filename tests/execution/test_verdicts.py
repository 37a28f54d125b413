"""Each class of verdict, through the public interface."""

import pytest
from support.named_jobs import judge_named

from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests, Verdict

ADD_ONE = "def f(x):\n    return x + 1\n"
IS_ADD_ONE = AssertTests("assert f(1) == 2\nassert f(2) == 3")
LOOPED = AssertTests("def check(candidate):\n    for i in range(5):\n        assert candidate(i) == i + 1\n", "f")
ECHO = StdioTests((("a\nb\n", "a\nb\n"),), timeout_seconds=0.5)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2, output_bytes=1 << 20) as sandbox:
        yield sandbox


VERDICTS = [
    ("literal asserts", ADD_ONE, IS_ADD_ONE, "passed"),
    ("looped asserts", ADD_ONE, LOOPED, "passed"),
    ("calls", ADD_ONE, CallTests((((1,), 2), ((5,), 6)), "f"), "passed"),
    ("method", "class S:\n    def g(self, x):\n        return [x]", CallTests((((1,), [1]),), "S.g"), "passed"),
    ("echo", "import sys\nprint(sys.stdin.read(), end='')", ECHO, "passed"),
    ("trailing blanks", "print('a ')\nprint('b')\nprint()", ECHO, "passed"),
    ("off by one", "def f(x):\n    return x", IS_ADD_ONE, "wrong_answer"),
    ("off by one, looped", "def f(x):\n    return x", LOOPED, "wrong_answer"),
    ("prefix of the output", "print('a')", ECHO, "wrong_answer"),
    ("more than the output", "print('a\\nb\\nc')", ECHO, "wrong_answer"),
    ("no output", "pass", ECHO, "wrong_answer"),
    ("tuple for a list", "def f(x):\n    return (x,)", CallTests((((1,), [1]),), "f"), "wrong_answer"),
    ("division", "def f(x):\n    return x / 0", IS_ADD_ONE, "exception"),
    ("division, looped", "def f(x):\n    return x / 0", LOOPED, "exception"),
    ("no such function", "def g(x):\n    return x", IS_ADD_ONE, "exception"),
    ("exit status", "print('a\\nb')\nimport sys\nsys.exit(3)", ECHO, "exception"),
    ("syntax", "def f(x) return x", IS_ADD_ONE, "syntax_error"),
    ("syntax, looped", "def f(x) return x", LOOPED, "syntax_error"),
    ("syntax, stdio", "print(", ECHO, "syntax_error"),
    ("null byte", "x = 1\0", ECHO, "syntax_error"),
    ("busy loop", "while True: pass", ECHO, "timed_out"),
    ("sleep", "import time\ntime.sleep(60)", StdioTests((("", ""),), timeout_seconds=0.2), "timed_out"),
    ("memory", "x = bytearray(1 << 32)", ECHO, "out_of_memory"),
    ("memory, looped", "def f(x):\n    return bytearray(1 << 32)", LOOPED, "out_of_memory"),
    ("flood", "while True: print('x' * 1000)", ECHO, "output_limit"),
    ("flood on stderr", "import os\nwhile True: os.write(2, b'x' * 9999)", ECHO, "exception|output_limit"),
    ("nothing", "  \n", IS_ADD_ONE, "no_program"),
]


def test_verdict(sandbox):
    outcomes = judge_named(sandbox, {name: (program, check) for name, program, check, _ in VERDICTS})
    wanted = {name: verdict.split("|") for name, _, _, verdict in VERDICTS}
    assert {name: end for name, end in outcomes.items() if end.verdict not in wanted[name]} == {}
    assert {name for name, end in outcomes.items() if end.passed != (wanted[name] == ["passed"])} == set()


def test_the_line_of_the_program_is_told(sandbox):
    outcome = sandbox.submit("def f(x):\n    y = x\n    return y[0]\n", IS_ADD_ONE).result(30)
    assert (outcome.exception_type, outcome.line) == ("TypeError", 3)
    outcome = sandbox.submit("x = 1\ny = (\n", IS_ADD_ONE).result(30)
    assert (outcome.exception_type, outcome.line) == ("SyntaxError", 2)


def test_every_case_has_a_verdict(sandbox):
    check = CallTests((((1,), 2), ((2,), 0), ((3,), 4)), "f")
    outcome = sandbox.submit(ADD_ONE, check).result(30)
    assert outcome.cases == (Verdict.PASSED, Verdict.WRONG_ANSWER, Verdict.PASSED)
    assert outcome.verdict is Verdict.WRONG_ANSWER
