# ruff: noqa: E501 - programs stay on one line
"""Traps that a sandbox of this kind falls into, one test each."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lit_rl.execution import AssertTests, CallTests, Sandbox, SandboxError, StdioTests, Verdict


@pytest.fixture(scope="module", params=[0, 1])
def sandbox(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    folder.chmod(0o755)
    try:
        with Sandbox(1, 256 << 20, tier=request.param, temporary_folder=str(folder)) as sandbox:
            yield sandbox
    except SandboxError as error:
        pytest.skip(f"tier {request.param} cannot be had here: {error}")


def run(sandbox, program, stdin="", stdout="", seconds=5.0):
    return sandbox.submit(program, StdioTests(((stdin, stdout),), timeout_seconds=seconds)).result(60)


def test_a_program_may_replace_stdin_with_an_object_on_the_same_descriptor(sandbox):
    program = "import io, sys\nsys.stdin = io.TextIOWrapper(io.FileIO(0))\nimport gc; gc.collect()\nprint(input())"
    assert run(sandbox, program, "x\n", "x").passed


def test_exit_and_quit_are_there_without_site(sandbox):
    assert run(sandbox, "print(1)\nexit(0)", "", "1").passed
    assert run(sandbox, "print(1)\nquit()", "", "1").passed
    assert run(sandbox, "exit('bye')").stderr.strip() == "bye"


def test_threads_and_exit_functions_finish_before_the_end(sandbox):
    program = (
        "import atexit, threading, time\natexit.register(print, 'last')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\nprint('main')"
    )
    assert run(sandbox, program, "", "main\nthread\nlast").passed


def test_exit_functions_run_even_where_waiting_for_threads_is_interrupted(sandbox):
    program = (
        "import atexit, signal, threading, time\natexit.register(print, 'last')\n"
        "def stop(*_): raise ValueError\nsignal.signal(signal.SIGALRM, stop)\n"
        "threading.Thread(target=time.sleep, args=(9,)).start()\nsignal.setitimer(signal.ITIMER_REAL, 0.1)"
    )
    outcome = run(sandbox, program, "", "last")
    assert outcome.stdout == "last\n" and "ValueError" in outcome.stderr


def test_stderr_is_flushed_before_the_end(sandbox):
    program = "import io, sys\nsys.stderr = io.TextIOWrapper(open(2, 'wb', closefd=False))\nsys.stderr.write('seen')"
    assert run(sandbox, program).stderr == "seen"


def test_a_thread_stack_of_128_mib_fits_beside_the_memory_limit(sandbox):
    program = (
        "import threading\nthreading.stack_size(128 << 20)\n"
        "t = threading.Thread(target=print, args=('ok',)); t.start(); t.join()\nx = bytearray(100 << 20)"
    )
    assert run(sandbox, program, "", "ok").passed


def test_an_echo_of_a_long_input_does_not_deadlock(sandbox):
    text = "x" * 999 + "\n"
    program = "import sys\nfor line in sys.stdin:\n    sys.stdout.write(line)\n    sys.stdout.flush()"
    assert run(sandbox, program, text * 4000, text * 4000).passed


def test_a_byte_order_mark_is_no_syntax_error(sandbox):
    assert run(sandbox, "\ufeffprint(1)", "", "1").passed


def test_folders_that_nobody_may_enter_are_removed(sandbox):
    program = "import os\nos.makedirs('a/b')\nopen('a/b/f', 'w')\nos.umask(0o777)\nos.mkdir('a/z')\nos.mkdir('z', 0)"
    assert run(sandbox, program).passed
    assert run(sandbox, "import os\nprint(os.listdir('.'))", "", "[]").passed


def test_deep_folders_are_removed(sandbox):
    program = "import os\nfor _ in range(400):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)"
    assert run(sandbox, program).passed
    assert run(sandbox, "import os\nprint(os.listdir('.'))", "", "[]").passed


def test_a_program_starts_fresh_whatever_ran_before_the_first_fork(sandbox):
    program = "import linecache, sys\nprint(sys.stdin.read() == '', list(linecache.cache), sorted(globals())[-2:], sys.stdout.tell())"
    assert run(sandbox, program, "", "True ['<program>'] ['linecache', 'sys'] 0").passed


def test_a_program_is_not_a_fork_of_the_trainer():
    """Item 60: nothing of this process is in it, whatever was imported here and however many threads run."""
    sys.modules["only_the_trainer_has_this"] = sys.modules["os"]
    waiting = threading.Event()
    thread = threading.Thread(target=waiting.wait)
    thread.start()
    try:
        program = "import sys, threading\nprint('only_the_trainer_has_this' in sys.modules, threading.active_count())"
        with Sandbox(1, tier=0) as sandbox:
            assert run(sandbox, program, "", "False 1").passed
    finally:
        waiting.set()
        thread.join()
        del sys.modules["only_the_trainer_has_this"]


def test_a_program_shares_no_memory_with_its_zygote(sandbox):
    # What one wrote there the next could read.
    program = "print([line for line in open('/proc/self/maps') if line.split()[1][3] == 's'])"
    outcome = run(sandbox, program, "", "[]")
    assert outcome.passed or outcome.exception_type in ("PermissionError", "FileNotFoundError")


def test_signals_reach_a_program_that_waits_for_them(sandbox):
    program = (
        "import signal, threading, time\nheard = []\nsignal.signal(signal.SIGALRM, lambda *_: heard.append(threading.current_thread()))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.02)\ntime.sleep(0.2)\nprint(heard == [threading.main_thread()])"
    )
    assert run(sandbox, program, "", "True").passed


def test_the_kernel_limits_the_cpu_seconds_of_a_program_that_takes_its_time(sandbox):
    # Whole seconds, and two for the zygote to act; without it the program waits until its wall limit.
    program = "import resource, time\nwhile resource.getrlimit(resource.RLIMIT_CPU) != (7, 7): time.sleep(0.01)"
    assert run(sandbox, program, seconds=5.0).passed


def test_a_limit_of_a_few_milliseconds_holds(sandbox):
    outcome = run(sandbox, "while True: pass", seconds=0.02)
    assert outcome.verdict is Verdict.TIMED_OUT and outcome.cpu_seconds < 1


def test_the_thread_that_made_the_sandbox_may_end():
    made = []
    thread = threading.Thread(target=lambda: made.append(Sandbox(num_workers=1)))
    thread.start()
    thread.join()
    time.sleep(0.1)
    with made[0] as sandbox:
        assert run(sandbox, "print(1)", "", "1").passed


def test_a_busy_program_dies_with_a_killed_trainer_in_tier_0(tmp_path):
    program = """
import sys
from lit_rl.execution import Sandbox, StdioTests
with Sandbox(1, tier=0, temporary_folder=sys.argv[1]) as sandbox:
    future = sandbox.submit("while True: pass", StdioTests((("", ""),), timeout_seconds=600))
    while not future.running(): pass
    print("started", flush=True)
    future.result()
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    command = [sys.executable, "-c", program, str(tmp_path)]
    trainer = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert trainer.stdout.readline() == b"started\n"
    time.sleep(0.2)
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    trainer.stdout.close()
    deadline = time.monotonic() + 10
    while os.listdir(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert os.listdir(tmp_path) == []


def test_cpu_seconds_are_the_clock_and_not_the_wall():
    # Four programs of 0.3 CPU seconds at once on fewer cores take longer by the wall than their limit.
    program = "import time\nwhile time.process_time() < 0.3: pass"
    with Sandbox(num_workers=4) as sandbox:
        outcomes = sandbox.judge_many([(program, StdioTests((("", ""),), timeout_seconds=0.8))] * 8)
    assert [outcome.verdict for outcome in outcomes] == [Verdict.PASSED] * 8


def test_verdicts_do_not_depend_on_the_worker():
    # Order of sets and unseeded random numbers are the same in every child of every worker.
    program = "import random\nprint(list({'a', 'b', 'c', 'd', 'e'}), random.random())"
    with Sandbox(num_workers=2) as sandbox:
        printed = {o.stdout for o in sandbox.judge_many([(program, StdioTests((("", ""),)))] * 8)}
    assert len(printed) == 1


def test_a_program_that_shadows_builtins_cannot_bend_the_tests(sandbox):
    # The tests use abs and all; the program's own are not for them.
    program = "def abs(x): return 0\ndef all(x): return True\ndef f(x): return x"
    looped = AssertTests("assert all(abs(f(x) - 2 * x) < 1e-9 for x in (1, 2))")
    literal = AssertTests("assert abs(f(1) - 2) < 1e-9")
    assert sandbox.submit(program, looped).result(30).verdict is Verdict.WRONG_ANSWER
    assert sandbox.submit(program, literal).result(30).verdict is Verdict.WRONG_ANSWER


def test_tests_may_call_every_function_of_the_program(sandbox):
    program = "def encode(s): return s[::-1]\ndef decode(s): return s[::-1]"
    test = "def check(candidate):\n    for s in ('ab', 'xyz'):\n        assert candidate(encode(s)) == s"
    assert sandbox.submit(program, AssertTests(test, "decode")).result(30).passed


def test_exceptions_cross_to_the_tests_with_their_type(sandbox):
    test = (
        "def check(f):\n    for x in (0,):\n        try:\n            f(x)\n"
        "        except ZeroDivisionError as e:\n            assert 'division' in str(e)\n"
        "        else:\n            assert False"
    )
    assert sandbox.submit("def f(x): return 1 // x", AssertTests(test, "f")).result(30).passed
    own = "class Bad(ZeroDivisionError): pass\ndef f(x): raise Bad('division')"
    assert sandbox.submit(own, AssertTests(test, "f")).result(30).passed
    assert sandbox.submit("def f(x): raise SystemExit", AssertTests(test, "f")).result(30).verdict == "exception"
    assert sandbox.submit("import os\ndef f(x): os._exit(0)", AssertTests(test, "f")).result(30).verdict == "exception"


def test_a_caught_end_of_the_program_is_still_no_pass(sandbox):
    test = "def check(f):\n    for x in (1,):\n        try:\n            f(x)\n        except BaseException:\n            pass\n        else:\n            assert f(x)"
    assert sandbox.submit("import os\ndef f(x): os._exit(0)", AssertTests(test, "f")).result(30).verdict == "exception"


def test_in_place_functions_are_judged_where_asked_for(sandbox):
    program = "def f(x):\n    x.sort()"
    test = "def check(f):\n    for x in ([3, 1], [2, 1]):\n        f(x)\n        assert x == sorted(x)"
    assert not sandbox.submit(program, AssertTests(test, "f")).result(30).passed
    assert sandbox.submit(program, AssertTests(test, "f", in_place=True)).result(30).passed
    calls = CallTests(((([3, 1],), [1, 3]),), "f")
    assert not sandbox.submit(program, calls).result(30).passed
    assert sandbox.submit(program, CallTests(calls.cases, "f", in_place=True)).result(30).passed


def test_classes_of_the_program_decide_equality_only_where_allowed(sandbox):
    program = (
        "class P:\n    def __init__(s, x): s.x = x\n    def __eq__(s, o): return s.x == o.x\ndef f(x): return P(x)"
    )
    equal = "for x in (1, 2):\n    assert f(x) == P(x)"
    assert not sandbox.submit(program, AssertTests(equal)).result(30).passed
    assert sandbox.submit(program, AssertTests(equal, allow_objects=True)).result(30).passed
    assert sandbox.submit(program, AssertTests("for x in (1, 2):\n    assert f(x).x == x")).result(30).passed


def test_tuples_equal_lists_only_where_allowed(sandbox):
    cases = (((1,), [1, [1]]),)
    program = "def f(x): return (x, (x,))"
    assert not sandbox.submit(program, CallTests(cases, "f")).result(30).passed
    assert sandbox.submit(program, CallTests(cases, "f", tuples_are_lists=True)).result(30).passed


def test_floats_are_compared_with_the_tolerance_asked_for(sandbox):
    cases = (((0.1, 0.2), 0.3),)
    program = "def f(a, b): return a + b"
    assert not sandbox.submit(program, CallTests(cases, "f")).result(30).passed
    assert sandbox.submit(program, CallTests(cases, "f", tolerance=1e-9)).result(30).passed


def test_an_argument_that_one_case_changes_is_fresh_for_the_next(sandbox):
    shared = [1]
    check = CallTests((((shared,), 1), ((shared,), 1)), "f")
    assert sandbox.submit("def f(x):\n    x.append(1)\n    return len(x) - 1", check).result(30).passed


def test_packages_can_be_imported_only_when_named():
    pytest.importorskip("numpy")
    program = "import numpy\nprint(int(numpy.arange(4).sum()))"
    check = StdioTests((("", "6"),))
    with Sandbox(num_workers=1) as sandbox:
        assert sandbox.submit(program, check).result(30).exception_type == "ModuleNotFoundError"
    with Sandbox(num_workers=1, packages=["numpy"]) as sandbox:
        assert sandbox.submit(program, check).result(30).passed
        assert not sandbox.submit("import pytest", check).result(30).passed
        write = "import numpy\nopen(numpy.__path__[0] + '/escaped.py', 'w')"
        assert sandbox.submit(write, check).result(30).exception_type in ("PermissionError", "OSError")
    with pytest.raises(ValueError, match="no_such_package"):
        Sandbox(num_workers=1, packages=["no_such_package"])


def test_a_tier_that_cannot_be_had_is_a_clear_error(tmp_path):
    with pytest.raises(SandboxError, match="tier 7"):
        Sandbox(num_workers=1, tier=7, temporary_folder=str(tmp_path))
    assert os.listdir(tmp_path) == []
