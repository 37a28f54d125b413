"""A program may print through any object and end in any way: all its output arrives."""

import importlib.util
from pathlib import Path

import pytest

from lit_rl.execution import Sandbox, StdioTests

spec = importlib.util.spec_from_file_location("honest_endings", Path(__file__).parent / "honest_endings.py")
honest_endings = importlib.util.module_from_spec(spec)
spec.loader.exec_module(honest_endings)

CHECK = StdioTests((("", "main\nlast\n"),))


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2) as sandbox:
        yield sandbox


@pytest.mark.parametrize("name", honest_endings.ENDINGS)
def test_everything_that_was_written_arrives(sandbox, name):
    outcome = sandbox.submit(honest_endings.ENDINGS[name], CHECK).result(60)
    assert outcome.passed, (outcome.stdout, outcome.stderr[-800:])


def test_the_end_of_a_program_has_the_limits_of_the_program(sandbox):
    endless = "class D:\n    def __del__(self):\n        while True: pass\nd = D()\nprint('main\\nlast')"
    check = StdioTests(CHECK.cases, timeout_seconds=0.3)
    assert sandbox.submit(endless, check).result(60).verdict == "timed_out"


def test_an_error_at_the_end_is_shown_and_changes_nothing(sandbox):
    program = "class D:\n    def __del__(self): raise ValueError('late')\nd = D()\nprint('main\\nlast')"
    outcome = sandbox.submit(program, CHECK).result(60)
    assert outcome.passed and "late" in outcome.stderr
