"""A program may print through any object and end in any way: all its output arrives."""

from honest_endings import ENDINGS
from support.named_jobs import judge_named, not_among

from lit_rl.execution import StdioTests

CHECK = StdioTests((("", "main\nlast\n"),))


def test_everything_that_was_written_arrives(sandbox):
    outcomes = judge_named(sandbox, {name: (program, CHECK) for name, program in ENDINGS.items()})
    assert not_among(outcomes, "passed") == {}


def test_the_end_of_a_program_has_the_limits_of_the_program(sandbox):
    endless = "class D:\n    def __del__(self):\n        while True: pass\nd = D()\nprint('main\\nlast')"
    check = StdioTests(CHECK.cases, timeout_seconds=0.3)
    assert sandbox.submit(endless, check).result(60).verdict == "timed_out"


def test_an_error_at_the_end_is_shown_and_changes_nothing(sandbox):
    program = "class D:\n    def __del__(self): raise ValueError('late')\nd = D()\nprint('main\\nlast')"
    outcome = sandbox.submit(program, CHECK).result(60)
    assert outcome.passed and "late" in outcome.stderr
