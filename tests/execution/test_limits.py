"""Limits hold for each case, whatever the program claims and however busy the machine is."""

import contextlib
import os

import pytest
from suites import need_tier
from support.slow_cases import slow_but

from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests, Verdict
from lit_rl.execution.interface import WALL_SLACK_SECONDS, wall_limit


@contextlib.contextmanager
def one_core():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.fixture(scope="module", params=slow_but((2,), [0, 1, 2]))
def sandbox(request):
    need_tier(request.param)
    with Sandbox(1, 256 << 20, tier=request.param) as sandbox:
        yield sandbox


def calls(num_cases, seconds):
    return CallTests(tuple(((i,), i) for i in range(num_cases)), "f", seconds)


def lines(num_cases, seconds):
    return StdioTests(tuple((f"{i}\n", f"{i}\n") for i in range(num_cases)), timeout_seconds=seconds)


def test_all_cases_of_a_row_share_one_allowance_of_sleep(sandbox):
    """Item 59: three cases sleep 0.5 s each beyond the slack of one; each case of stdio is a process of its own."""
    slept = WALL_SLACK_SECONDS + 0.5
    called = f"import time\ndef f(x):\n    time.sleep({slept})\n    return x"
    printed = f"import time\ntime.sleep({slept})\nprint(input())"
    for program, check in ((called, calls), (printed, lines)):
        assert slept < wall_limit(0.3) < WALL_SLACK_SECONDS + 3 * 0.5 < wall_limit(0.9)
        assert sandbox.submit(program, check(3, 0.9)).result(60).passed
        outcome = sandbox.submit(program, check(3, 0.3)).result(60)
        assert outcome.verdict is Verdict.TIMED_OUT and outcome.cases[0] is Verdict.PASSED


def test_a_case_may_not_use_the_cpu_seconds_of_all(sandbox):
    program = "def f(x):\n    while x == 2: pass\n    return x"
    outcome = sandbox.submit(program, calls(20, 0.2)).result(60)
    assert outcome.verdict is Verdict.TIMED_OUT
    assert outcome.cases[:4] == (Verdict.PASSED, Verdict.PASSED, Verdict.TIMED_OUT, Verdict.TIMED_OUT)
    assert outcome.cpu_seconds < 20 * 0.2 / 2


def test_every_case_may_use_its_cpu_seconds(sandbox):
    burn = "    end = time.process_time() + 0.15\n    while time.process_time() < end: pass\n"
    program = f"import time\ndef f(x):\n{burn}    return x"
    assert sandbox.submit(program, calls(6, 0.3)).result(60).passed


def test_a_stack_counts_as_memory(sandbox):
    endless = "import functools, sys\nsys.setrecursionlimit(10**9)\n@functools.cache\ndef f(x): return f(x + 1)"
    outcome = sandbox.submit(endless, calls(1, 20.0)).result(120)
    assert outcome.verdict in (Verdict.OUT_OF_MEMORY, Verdict.EXCEPTION)  # the latter where recursion has its own limit
    assert sandbox.submit("def f(x): return x", calls(2, 1.0)).result(60).passed


TAKE_BACK = """
import os, time
def f(x):
    if x: return x
    # Answers that are none, one by one, so that each seems to end a case; and the right ones in their place at last.
    for i in range(9):
        end = time.process_time() + 0.1
        while time.process_time() < end: pass
        os.write(4, b'9\\n')
    os.ftruncate(4, 3)
    os.lseek(4, 0, os.SEEK_END)
    return x
"""


def test_answers_that_are_taken_back_or_come_ahead_stretch_no_case(sandbox):
    outcome = sandbox.submit(TAKE_BACK, calls(10, 0.2)).result(60)
    assert outcome.verdict is Verdict.EXCEPTION  # no answer counts, and no limit was reached either
    ahead = "import os\ndef f(x):\n    os.write(4, b'1\\n' * 100)\n    while True: pass"
    outcome = sandbox.submit(ahead, calls(10, 0.2)).result(60)
    assert not outcome.passed and outcome.cpu_seconds < 10 * 0.2 / 2


def test_a_crowded_machine_ends_nothing_that_computes():
    """Seven at a time on one core: each takes seven times its CPU seconds, more than a program may sleep."""
    limit, used = 0.5, 0.4
    assert 7 * used > wall_limit(limit)
    busy = f"    while time.process_time() < {used}: pass\n"
    threads = "threads = [threading.Thread(target=work) for _ in range(4)]\nfor thread in threads: thread.start()\n"
    source = f"import threading, time\ndef work():\n{busy}{threads}for thread in threads: thread.join()\nprint('done')"
    program = (source, StdioTests((("", "done"),), timeout_seconds=limit))
    loop = AssertTests("for i in (1, 2):\n    assert f(i) == i", timeout_seconds=limit)
    graded = ("import time\ndef f(x):\n" + busy + "    return x", loop)
    with one_core(), Sandbox(num_workers=7) as sandbox:
        outcomes = sandbox.judge_many([program] * 4 + [graded] * 3)
    assert [outcome.verdict for outcome in outcomes] == [Verdict.PASSED] * 7


def test_nothing_of_an_open_standard_input_passes_to_the_next_program(sandbox):
    program = (
        "import fcntl, os\nseen = fcntl.fcntl(0, fcntl.F_GETFL) & (os.O_APPEND | os.O_NONBLOCK)\n"
        "fcntl.fcntl(0, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)\ndef f(): return seen"
    )
    for test in ("assert f() == 0", "for i in range(2):\n    assert f() == 0"):
        check = AssertTests(test)
        outcomes = [sandbox.submit(program, check).result(60) for _ in range(3)]
        assert [outcome.verdict for outcome in outcomes] == [Verdict.PASSED] * 3
