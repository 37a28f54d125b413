# ruff: noqa: E501 - programs stay on one line
"""Traps that a sandbox of this kind falls into, one test each."""

import sys
import threading
from dataclasses import replace

import pytest
from suites import need_tier
from support.named_jobs import among, judge_named, not_among
from support.slow_cases import slow_but

from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests, Verdict


@pytest.fixture(scope="module", params=slow_but((1,), [0, 1]))
def sandbox(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("boxes")
    folder.chmod(0o755)
    need_tier(request.param)
    with Sandbox(1, 256 << 20, tier=request.param, temporary_folder=str(folder)) as sandbox:
        yield sandbox


def run(sandbox, program, stdin="", stdout="", seconds=5.0):
    return sandbox.submit(program, StdioTests(((stdin, stdout),), timeout_seconds=seconds)).result(60)


LONG = ("x" * 999 + "\n") * 4000
# Program, standard input, standard output.
PRINTS = {
    "stdin on the same descriptor": ("import io, sys\nsys.stdin = io.TextIOWrapper(io.FileIO(0))\nimport gc; gc.collect()\nprint(input())", "x\n", "x"),
    "a thread's stack beside the memory limit": ("import threading\nthreading.stack_size(128 << 20)\nt = threading.Thread(target=print, args=('ok',)); t.start(); t.join()\nx = bytearray(100 << 20)", "", "ok"),
    "a deep stack of C functions": ("x = ()\nfor _ in range(300000): x = (x,)\nprint(hash(x) != 0)", "", "True"),
    "an echo that could deadlock": ("import sys\nfor line in sys.stdin:\n    sys.stdout.write(line)\n    sys.stdout.flush()", LONG, LONG),
    "nothing of what ran before the fork": ("import linecache, sys\nprint(sys.stdin.read() == '', list(linecache.cache), sorted(globals())[-2:], sys.stdout.tell())", "", "True ['<program>'] ['linecache', 'sys'] 0"),
    # Whole seconds, and two for the zygote to act; without it the program waits until its wall limit.
    "the kernel's limit on CPU seconds": ("import resource, time\nwhile resource.getrlimit(resource.RLIMIT_CPU) != (7, 7): time.sleep(0.01)", "", ""),
}  # fmt: skip


def test_programs_print_what_they_print_elsewhere(sandbox):
    jobs = {name: (program, StdioTests(((stdin, stdout),))) for name, (program, stdin, stdout) in PRINTS.items()}
    assert not_among(judge_named(sandbox, jobs), Verdict.PASSED) == {}


def test_exit_functions_run_even_where_waiting_for_threads_is_interrupted(sandbox):
    program = (
        "import atexit, signal, threading, time\natexit.register(print, 'last')\n"
        "def stop(*_): raise ValueError\nsignal.signal(signal.SIGALRM, stop)\n"
        "threading.Thread(target=time.sleep, args=(9,)).start()\nsignal.setitimer(signal.ITIMER_REAL, 0.1)"
    )
    outcome = run(sandbox, program, "", "last")
    assert outcome.stdout == "last\n" and "ValueError" in outcome.stderr


def test_stderr_is_flushed_before_the_end(sandbox):
    assert run(sandbox, "exit('bye')").stderr.strip() == "bye"
    program = "import io, sys\nsys.stderr = io.TextIOWrapper(open(2, 'wb', closefd=False))\nsys.stderr.write('seen')"
    assert run(sandbox, program).stderr == "seen"


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


def test_a_limit_of_a_few_milliseconds_holds(sandbox):
    outcome = run(sandbox, "while True: pass", seconds=0.02)
    assert outcome.verdict is Verdict.TIMED_OUT and outcome.cpu_seconds < 1


POINTS = "class P:\n    def __init__(s, x): s.x = x\n    def __eq__(s, o): return s.x == o.x\ndef f(x): return P(x)"
EQUAL_POINTS = "for x in (1, 2):\n    assert f(x) == P(x)"
IN_PLACE = "def check(f):\n    for x in ([3, 1], [2, 1]):\n        f(x)\n        assert x == sorted(x)"
# A program, and two checks: it passes the second alone.
OPTIONS = {
    "arguments changed in place": ("def f(x): x.sort()", AssertTests(IN_PLACE, "f"), {"in_place": True}),
    "arguments of calls": ("def f(x): x.sort()", CallTests(((([3, 1],), [1, 3]),), "f"), {"in_place": True}),
    "equality of the program's classes": (POINTS, AssertTests(EQUAL_POINTS), {"allow_objects": True}),
    "tuples for lists": ("def f(x): return (x, (x,))", CallTests((((1,), [1, [1]]),), "f"), {"as_json": True}),
    "floats": ("def f(a, b): return a + b", CallTests((((0.1, 0.2), 0.3),), "f"), {"tolerance": 1e-9}),
}


def test_what_a_check_allows_is_allowed_there_alone(sandbox):
    outcomes = judge_named(sandbox, {name: (program, check) for name, (program, check, _) in OPTIONS.items()})
    assert among(outcomes, Verdict.PASSED) == {}
    allowed = {name: (program, replace(check, **option)) for name, (program, check, option) in OPTIONS.items()}
    allowed["attributes"] = POINTS, AssertTests("for x in (1, 2):\n    assert f(x).x == x")
    fresh = CallTests(((shared := ([1],), 1), (shared, 1)), "f")
    allowed["a fresh argument in each case"] = "def f(x):\n    x.append(1)\n    return len(x) - 1", fresh
    both = "def check(candidate):\n    for s in ('ab', 'xyz'):\n        assert candidate(encode(s)) == s"
    backwards = "def encode(s): return s[::-1]\ndef decode(s): return s[::-1]"
    allowed["every function of the program"] = backwards, AssertTests(both, "decode")
    assert not_among(judge_named(sandbox, allowed), Verdict.PASSED) == {}


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


CHECK = StdioTests((("", "main\nlast\n"),))
# Ways in which a program may print and end; each prints these two lines.
ENDINGS = {
    "runs_off_the_end": "print('main')\nprint('last')",
    "sys_exit": "import sys\nprint('main')\nprint('last')\nsys.exit()",
    "exit_and_help_names": "print('main')\nprint('last')\nassert help and copyright and license and credits\nexit()",
    "exit_function": "import atexit\natexit.register(print, 'last')\nprint('main')",
    "thread_that_outlives_main": "import threading\nprinted = threading.Event()\nthreading.Thread(target=lambda: (printed.wait(), print('last'))).start()\nprint('main')\nprinted.set()",
    "pool_not_shut_down": "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\nprint('main')\npool.submit(print, 'last')",
    "thread_pool_of_multiprocessing": "from multiprocessing.dummy import Pool\nprint('main')\nwith Pool(2) as pool: print(*pool.map(str, ['last']))",
    "lock_and_value_of_multiprocessing": "import multiprocessing as mp\nlock = mp.RLock()\nwith lock:\n    with lock: print('main')\nprint('last')",
    "open_one_left_open": "out = open(1, 'w')\nprint('main', file=out)\nprint('last', file=out)",
    "own_text_wrapper": "import io, sys\nout = io.TextIOWrapper(sys.stdout.buffer)\nout.write('main\\nlast\\n')",
    "detached_stdout": "import sys\nout = sys.stdout.detach()\nout.write(b'main\\nlast\\n')",
    "stdout_set_to_nothing": "import sys\nprint('main\\nlast')\nsys.stdout.flush()\nsys.stdout = None",
    "stdout_replaced_by_string_and_printed": "import io, sys\nold, sys.stdout = sys.stdout, io.StringIO()\nprint('main\\nlast')\nold.write(sys.stdout.getvalue())",
    "file_in_a_cycle": "class Node: pass\nnode = Node()\nnode.me, node.out = node, open(1, 'w')\nnode.out.write('main\\nlast\\n')",
    "file_held_by_a_daemon": "import threading, time\ndef run():\n    out = open(1, 'w')\n    out.write('main\\nlast\\n')\n    ready.set()\n    time.sleep(60)\nready = threading.Event()\nthreading.Thread(target=run, daemon=True).start()\nready.wait()",
    "deleter_in_a_cycle": "class D:\n    def __del__(self): print(word)\nword = 'last'\nd = D()\nd.me = d\nprint('main')",
    "weak_finalizer": "import weakref\nclass D: pass\nd = D()\nweakref.finalize(d, print, 'last')\nprint('main')",
    "generator_closed_at_the_end": "def g():\n    try: yield\n    finally: print('last')\nx = g(); next(x)\nprint('main')",
    "logging_shutdown": "import logging, logging.handlers, sys\nh = logging.StreamHandler(sys.stdout)\nm = logging.handlers.MemoryHandler(99, target=h)\nlogging.getLogger().addHandler(m)\nlogging.error('main'); logging.error('last')",
    "exception_in_a_thread": "import threading\nthreading.excepthook = lambda a: print('last')\ndef f(): raise ValueError\nprint('main')\nthreading.Thread(target=f).start()",
    "stack_of_one_gib": "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(1 << 30)\ndef f(n): return n and 1 + f(n - 1)\ndef run():\n    print('main')\n    assert f(50000) == 50000\n    print('last')\nt = threading.Thread(target=run)\nt.start(); t.join()",
    "os_exit_after_flush": "import os\nprint('main\\nlast', flush=True)\nos._exit(0)",
    "collector_switched_off": "import gc\ngc.disable()\nclass N: pass\nn = N(); n.n = n; n.f = open(1, 'w'); n.f.write('main\\nlast\\n')\ndel n",
}


def test_everything_that_was_written_arrives(sandbox):
    outcomes = judge_named(sandbox, {name: (program, CHECK) for name, program in ENDINGS.items()})
    assert not_among(outcomes, "passed") == {}


def test_the_end_of_a_program_has_its_limits_and_an_error_there_is_shown_and_changes_nothing(sandbox):
    endless = "class D:\n    def __del__(self):\n        while True: pass\nd = D()\nprint('main\\nlast')"
    check = StdioTests(CHECK.cases, timeout_seconds=0.3)
    assert sandbox.submit(endless, check).result(60).verdict == "timed_out"
    program = "class D:\n    def __del__(self): raise ValueError('late')\nd = D()\nprint('main\\nlast')"
    outcome = sandbox.submit(program, CHECK).result(60)
    assert outcome.passed and "late" in outcome.stderr
