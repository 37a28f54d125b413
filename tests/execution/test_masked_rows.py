# ruff: noqa: E501 - one case a line
"""Whose fault an error is: before the first use of the program the tests', from then on the program's, whatever it is.

An infrastructure failure leaves baseline and loss, so nothing that a program does may decide whether its row is one.
Of programs at fault a few cases of a kind stand for the others; ends, descriptors, the working folder and limits reach
different code, and have more.
"""

import pytest
from support.named_jobs import among, judge_named, not_among
from support.slow_cases import slow_but

from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests, Verdict

LOOP = "for x in (1, 2):\n    assert f(x) == x + 1\n"
UNIT = "import unittest\nclass T(unittest.TestCase):\n"
OPEN = "with open('a.txt', 'w') as h:\n    h.write('1')\n"
ZERO = "def f(x): return 0"
NINE = "def f(x): return 9"
FAIL = "def f(x): raise ValueError('wrong')"
CATCH = "def run(x):\n    try:\n        return f(x)\n    except Exception as e:\n        return {'ValueError': 1}[type(e).__name__]\nassert run(1) == 2\n"
SPILL = "import os\ndef spill(d, data, n=1):\n    for _ in range(n):\n        try: os.write(d, data)\n        except OSError: pass\n"
LATER = "import os, signal, threading, time\ndef end(): os._exit(0)\ndef later(what):\n    threading.Thread(target=lambda: (time.sleep(0.05), what()), daemon=True).start()\n"

OF_THE_TESTS = {
    "arguments_of_the_tests": "import pytest\n@pytest.mark.parametrize('a, b', [1])\ndef test_a(a, b):\n    assert f(a) == b\n",
    "memory": "rows = [0] * 10**12\n" + LOOP,
    "group_that_is_full": "rows = [0] * 10**8\n" + LOOP,
    "end_with_the_status_of_a_pass": "import os\nos._exit(41)\n" + LOOP,
    "end_by_a_signal": "import os\nos.kill(os.getpid(), 9)\n" + LOOP,
    "time": "while True: pass\n" + LOOP,
    "fixture": "def test_a(tmp_path):\n    assert f(1) == 2\n",
    "check_that_breaks_at_once": "def check(candidate):\n    row = {}['x']\n    assert candidate(1) == 2\n",
    "import_at_the_top": "import no_such_module\n" + LOOP,
    "import_after_the_first_use": LOOP + "import no_such_module\n" + LOOP,
    "import_in_a_check": "def check(candidate):\n    assert candidate(1) == 2\n    from no_such_package.part import name\n    assert candidate(2) == 3\n",
    "tests_that_do_not_compile": "assert f(1 == 2\n",
    "output_read_back": "import io\nfrom contextlib import redirect_stdout\nb = io.StringIO()\nwith redirect_stdout(b):\n    f(1)\nassert b.getvalue() == '2\\n'\n",
    "print_patched": "from unittest.mock import patch\nwith patch('builtins.print') as p:\n    f(1)\n    p.assert_called_with(2)\n",
    "input_patched": "from unittest import mock\nwith mock.patch('builtins.input', side_effect=['1']):\n    assert f() == 2\n",
    "file_patched": "from unittest.mock import mock_open, patch\nwith patch('builtins.open', mock_open(read_data='1')):\n    assert f('a') == 2\n",
}
# Programs that are alike to a test which breaks on its own: neither what they compute nor whether they compile matters.
ALIKE = {
    "right": "def f(x): return x + 1",
    "wrong": "def f(x): return 0",
    "not_compiling": "def f(x:",
    "doing_nothing": "def f(x): pass",
}
BROKEN_LATER = {
    "number": "row = f(1)\nn = int('x')\nassert row == 2\n",
    "memory": "row = f(1)\nn = [0] * 10**12\nassert row == 2\n",
    "status_of_a_pass": "import os\nrow = f(1)\nos._exit(41)\nassert row == 2\n",
    "signal": "import os\nrow = f(1)\nos.kill(os.getpid(), 9)\nassert row == 2\n",
    "time": "row = f(1)\nwhile True: pass\nassert row == 2\n",
    "file": "row = f(1)\nwith open('/no/such/file') as h:\n    n = h.read()\nassert row == 2\n",
    "unit": UNIT + "    def test_a(self):\n        row = f(1)\n        {}['x']\n        self.assertEqual(row, 2)\n",
    "check": "def check(candidate):\n    row = candidate(1)\n    n = {}['x']\n    assert row == 2\n",
}
# Broken in a part that does not use the program before; whoever finds that first, all programs fare alike.
BROKEN_IN_ANOTHER_PART = {
    "fixture": "row = f(1)\ndef test_a(tmp_path):\n    assert row == 2\n",
    "second_test": "def test_a():\n    assert callable(f)\n    f(1)\ndef test_b():\n    row = {}['x']\n    assert f(1) == 2\n",
    "second_class": UNIT + "    def test_a(self): self.assertEqual(f(1), 2)\nclass U(unittest.TestCase):\n    def test_b(self):\n        {}['x']\n        self.assertEqual(f(1), 2)\n",
    "check_and_more": "def check(candidate):\n    assert candidate(1) == 2\nrow = f(1)\ndef check():\n    assert row == 2\n",
}  # fmt: skip
# The program is wrong, or the test is broken behind its first use of the program: none is passed or masked.
OF_THE_PROGRAM = {
    # --- values that tests trip over --------------------------------------------------------------------------------
    "alarm_of_the_tests": ("import time\ndef f(x):\n    for _ in range(40): time.sleep(0.05)", "import signal\ndef handler(number, frame):\n    raise TimeoutError('slow')\nsignal.signal(signal.SIGALRM, handler)\nsignal.setitimer(signal.ITIMER_REAL, 0.3)\nfor x in (1, 2):\n    assert f(x) == x\n"),
    "module_in_place_of_a_function": ("import json as f", LOOP),
    "group_of_exceptions": ("async def f(x): raise ValueError", "import asyncio\nasync def main():\n    async with asyncio.TaskGroup() as g:\n        g.create_task(f(1))\nasyncio.run(main())\nfor x in (1, 2):\n    assert f(x) == x\n"),
    "sets_of_arguments": ("def f(x): return [1]", "import pytest\n@pytest.mark.parametrize('a, b', f(3))\ndef test_a(a, b):\n    assert a == b\n"),
    "decorator_that_gives_another_function": ("kept = []\ndef f(test):\n    kept.append(test)\n    return kept[0]", "def other(q): pass\nf(other)\n@f\ndef test_a():\n    assert f(1) == 2\n"),
    "group_that_is_full": ("def f(x): return 10**8", "for x in (1, 2):\n    assert [0] * f(x) == [0] * x\n"),
    "end_of_the_tests_process": ("def f(x): return 3", "import os\nfor x in (1, 2):\n    if f(x) != x + 1:\n        os._exit(f(x))\n    assert f(x) == x + 1\n"),
    "memory_that_was_never_touched": ("def f(n): return n", "for x in (1,):\n    kept = bytearray(f(450 << 20))\nrows = [0] * 62 * 10**6\nassert f(1) == 2\n"),
    # --- broken tests: all programs alike, from the first use on ------------------------------------------------
    "tests_that_break_after_a_loop": ("def f(x): return x + 1", LOOP + "n = int('x')\n" + LOOP),
    "helper_of_the_tests_that_breaks": ("def f(x): return x + 1", LOOP + "def g(x):\n    return int('x')\nassert g(1) == 1\n"),
    "memory_between": ("def f(x): return x + 1", LOOP + "rows = [0] * 10**12\n" + LOOP),
    "exit_between": ("def f(x): return x + 1", LOOP + "import os\nos._exit(41)\n" + LOOP),
    # --- helpers of the tests -- ----------------------------------------------------------------------------------
    "helper_as_a_partial": (ZERO, "from functools import partial\ndef pick(t, v): return t[v]\nlook = partial(pick, {1: 1})\nassert look(f(1)) == 1\n"),
    "helper_that_yields": (NINE, "def gen(v):\n    yield [1][v]\nassert list(gen(f(1))) == [1]\n"),
    # --- containers that get a value of the program in some other way --------------------------------------------
    "callback_that_sorts": ("def f(x): return 'a' if x else 1", "rows = sorted([0, 1], key=f)\nassert rows == [0, 1]\n"),
    # --- threads and tasks of the tests --------------------------------------------------------------------------
    "future_that_is_late": ("import time\ndef f(x): time.sleep(0.6)", "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(1)\nrow = p.submit(f, 1).result(timeout=0.2)\nassert row == 2\n"),
    # --- iterators that the program drains or ends ----------------------------------------------------------------
    "generator_that_gets_an_error": ("def f(it): it.throw(KeyError)", "def gen():\n    yield 1\n    yield 2\ng = gen()\ntry:\n    f(g)\nexcept BaseException:\n    pass\nrow = next(g)\nassert row == 1\n"),
    "file_that_is_closed": ("def f(h): h.close()", "with open('a.txt', 'w+') as h:\n    f(h)\n    h.write('1')\n    assert h.tell() == 1\n"),
    "lock_that_the_program_keeps": ("def f(lock): lock.acquire()", "import threading\nlock = threading.Lock()\nf(lock)\nrow = {True: 1}[lock.acquire(timeout=0.2)]\nassert row == 1 and f(1) == 2\n"),
    # --- the working folder ----------------------------------------------------------------------------------------
    "folder_where_a_file_is_read": ("import os\ndef f(p):\n    os.remove(p)\n    os.mkdir(p)", OPEN + "f('a.txt')\nwith open('a.txt') as h:\n    n = int(h.read())\nassert n == 1\n"),
    "link_to_itself": ("import os\nos.symlink('a.txt', 'a.txt')\n" + ZERO, OPEN + LOOP),
    "link_to_a_full_device": ("import os\nos.symlink('/dev/full', 'a.txt')\n" + ZERO, OPEN + LOOP),
    "pipe_in_place_of_a_file": ("import os\ntry: os.mkfifo('a.txt')\nexcept OSError: os.mkdir('a.txt')\n" + ZERO, OPEN + LOOP),
    "file_without_permission": ("import os\nos.close(os.open('a.txt', os.O_CREAT, 0))\ntry: os.chmod('a.txt', 0)\nexcept OSError: pass\n" + ZERO, OPEN + LOOP),
    "folder_that_was_removed": ("import os\ntry: os.rmdir(os.getcwd())\nexcept OSError: pass\n" + ZERO, OPEN + LOOP),
    "full_disk": ("try:\n    for i in range(4000):\n        with open(f'big{i}', 'wb') as h: h.write(bytes(1 << 20))\nexcept OSError: pass\n" + ZERO, OPEN + LOOP),
    "module_that_passes_for_the_tests": ("open('colorsys.py', 'w').write('import os; os._exit(41)')\n" + ZERO, "import colorsys\nassert colorsys.rgb_to_hsv(0, 0, 0) == (0, 0, 0) and f(1) == 2\n"),
    "database_that_is_locked": ("import sqlite3\nc = sqlite3.connect('a.db', isolation_level=None)\nc.execute('begin exclusive')\n" + ZERO, "import sqlite3\nc = sqlite3.connect('a.db', timeout=0.1)\nc.execute('create table t (n)')\nassert f(1) == 2\n"),
    "temporary_folder": ("import os, shutil\nfor n in os.listdir('.'): shutil.rmtree(n, True)\nopen('tmp', 'w')\ntry: os.rmdir(os.getcwd())\nexcept OSError: pass\n" + ZERO, "import tempfile\nwith tempfile.TemporaryDirectory() as d:\n    with open(d + '/a', 'w') as h:\n        h.write('1')\n    assert f(1) == 2\n"),
    # --- names bound to something else --------------------------------------------------------------------------------
    "function_in_place_of_a_class": ("def Calculator(*a): pass", "assert Calculator.add(1, 2) == 3\n"),
    "name_missing_in_a_handler": (FAIL, "try:\n    f(1)\nexcept Own:\n    ok = 1\nassert ok\n"),
    "class_that_raises_in_isinstance": ("class M(type):\n    def __instancecheck__(c, x): raise ValueError\nclass Shape(metaclass=M): pass\n" + ZERO, "assert isinstance(f(1), Shape)\n"),
    # --- classes of the program, with, decorators -----------------------------------------------------------------------
    "base_that_refuses": ("class Base:\n    def __init_subclass__(cls): raise ValueError\n", "class Mine(Base):\n    pass\nassert Mine().area() == 2\n"),
    "with_that_swallows": ("class f:\n    def __init__(s, x): pass\n    def __enter__(s): return s\n    def __exit__(s, *a): return True", "with f(1) as m:\n    row = m.value\nassert row == 1\n"),
    "context_that_does_not_stop": (FAIL, "import contextlib\n@contextlib.contextmanager\ndef around():\n    try:\n        yield 1\n    except ValueError:\n        yield 2\nwith around():\n    f(1)\nassert f(1) == 2\n"),
    # --- unittest and pytest ---------------------------------------------------------------------------------------------
    "unit_set_up": (NINE, UNIT + "    def setUp(self): self.row = [1, 2, 3][f(1)]\n    def test_a(self): self.assertEqual(self.row, 3)\n"),
    "unit_skip": (ZERO, UNIT + "    def test_a(self):\n        if f(1) != 2: self.skipTest('no')\n        self.assertEqual(f(1), 2)\n"),
    "unit_long_difference": ("def f(x): return '\\n'.join('abcdefg'[i % 7] * 40 + str(i) for i in range(9000))", UNIT + "    def test_a(self):\n        self.assertEqual(f(1), '\\n'.join('gfedcba'[i % 7] * 40 + str(i) for i in range(9000)))\n"),
    "pytest_parameters_of_the_program": ("ROWS = 5\n" + ZERO, "import pytest\n@pytest.mark.parametrize('a', ROWS)\ndef test_a(a):\n    assert f(a) == a + 1\n"),
    "pytest_approx": ("def f(x): return 'a'", "import pytest\ndef test_a():\n    assert f(1) == pytest.approx(f(2))\n    assert f(1) == pytest.approx(2)\n"),
    # --- memory, time and stack of the grader -----------------------------------------------------------------------------
    "factorial": ("def f(x): return 10**7", "import math\nn = math.factorial(f(1))\nassert n == 2\n"),
    "slow_pattern": ("def f(x): return 'a' * 60", "import re\nm = re.match('(a+)+b', f(1))\nassert m is None and f(1) == 2\n"),
    "deep_value": ("def f(x):\n    v = []\n    for _ in range(99000): v = [v]\n    return v", "def depth(v): return 1 + depth(v[0]) if v else 1\nassert depth(f(1)) == 2\n"),
    "deep_value_within_the_limit": ("def f(x):\n    v = []\n    for _ in range(90): v = [v]\n    return v", "import sys\nsys.setrecursionlimit(80)\ndef depth(v): return 1 + depth(v[0]) if v else 1\nassert depth(f(1)) == 2\n"),
    "limit_of_the_process": ("def f(x): return 0", "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (f(1), f(1)))\nwith open('a', 'w') as h:\n    h.write('1')\nassert f(1) == 2\n"),
    "memory_after_the_program_ends": ("import os\ndef f(x): os._exit(0)", "try:\n    f(1)\nexcept BaseException:\n    rows = [0] * 10**12\nassert f(1) == 2\n"),
    # --- exceptions ------------------------------------------------------------------------------------------------------------
    "long_message": ("def f(x): raise ValueError('x' * 10**7)", CATCH),
    "text_that_raises": ("class E(ValueError):\n    def __str__(self): raise KeyError\n    __repr__ = __str__\ndef f(x): raise E", "for x in (1, 2):\n    try:\n        f(x)\n    except ValueError as e:\n        row = {'right': 1}[str(e)]\n    assert row == 1\n"),
    "exception_that_forges_its_class": ("class E(Exception):\n    __class__ = property(lambda s: AssertionError)\ndef f(x): raise E", CATCH),
    "name_error_of_the_tests": ("def f(x): raise NameError(\"name 'g' is not defined\", name='g')", CATCH),
    "module_not_found_at_the_start": ("import no_such_module\n" + ZERO, LOOP),
    "full_disk_that_is_claimed": ("def f(x): raise OSError(28, 'No space left on device', 'a.txt')", LOOP),
    "system_exit_with_the_status_of_a_pass": ("def f(x): raise SystemExit(41)", LOOP),
    "name_of_a_fault_of_the_tests": ("class FaultOfTests(Exception): pass\ndef f(x): raise FaultOfTests('infrastructure_failure')", LOOP),
    "syntax_error_of_its_own": ("def f(x):\n    e = SyntaxError('x')\n    e.lineno, e.text = 10**30, object()\n    raise e", LOOP),
    # --- ends, at any moment -------------------------------------------------------------------------------------------------------
    "end_at_the_start": ("import os\nos._exit(0)", LOOP),
    "end_at_the_start_with_the_status_of_a_pass": ("import os\nos._exit(41)", LOOP),
    "end_in_a_finalizer": ("import os\nclass A:\n    def __del__(self): os._exit(0)\ndef f(x):\n    A()\n    return x", LOOP),
    "end_while_the_tests_wait": (LATER + "def f(x):\n    later(end)\n    return 0", "f(1)\nimport time\ntime.sleep(0.3)\nrow = [1][f(2)]\nassert row == 2\n"),
    "end_in_an_attribute": ("import os\nclass A:\n    @property\n    def n(self): os._exit(0)\ndef f(x): return A()", "assert f(1).n == 2\n"),
    "memory_limit_of_its_own": ("import resource\ntry: resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))\nexcept (OSError, ValueError): pass\ndef f(x): return bytearray(64 << 20)", LOOP),
    "descriptor_limit_of_its_own": ("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))\n" + ZERO, OPEN + LOOP),
    "end_of_the_tests_by_a_signal": (ZERO, "import os\nfor x in (1, 2):\n    if f(x) != x + 1:\n        os.kill(os.getpid(), 9)\n    assert f(x) == x + 1\n"),
    "end_of_the_tests_with_the_status_of_a_pass": (ZERO, "import os\nif f(1) != 2:\n    os._exit(41)\nassert f(1) == 2\n"),
    "output_of_the_tests_that_is_closed": (ZERO, "import os\nif f(1) != 2:\n    os.closerange(0, 64)\nassert f(1) == 2\n"),
    "output_of_the_tests_that_is_full": ("def f(x): return 10**9", "for i in range(f(1)):\n    print('x' * 10000)\nassert f(1) == 2\n"),
    # --- descriptors -------------------------------------------------------------------------------------------------------------------
    "all_descriptors_closed_at_the_start": ("import os\nos.closerange(0, 64)\n" + ZERO, LOOP),
    "all_descriptors_closed_in_a_call": ("import os\ndef f(x): os.closerange(0, 64)", LOOP),
    "channel_that_is_something_else": ("import os\nos.dup2(1, 4)\n" + ZERO, LOOP),
    "channel_that_is_a_circle": ("import os, socket\na, b = socket.socketpair()\nos.dup2(a.fileno(), 4)\n" + ZERO, LOOP),
    "channel_with_descriptors": ("import socket\ns = socket.socket(fileno=4)\ndef f(x):\n    try: socket.send_fds(s, [b'[]\\n'], [0, 1, 2])\n    except OSError: pass", LOOP),
    "garbage_on_all_descriptors": (SPILL + "for d in range(64): spill(d, b'\\x00\\n')\n" + ZERO, LOOP),
    "garbage_on_descriptor_three": (SPILL + "spill(3, b'{\"kind\": \"fault\", \"message\": \"\"}\\n')\n" + ZERO, LOOP),
    "fault_that_is_claimed": (SPILL + "for d in (1, 2, 3, 4): spill(d, b'[\"fault\", \"tests\"]\\n')\n" + ZERO, LOOP),
    "names_that_are_claimed": (SPILL + "spill(4, b'[\"names\", {\"int\": [\"value\", 1], \"f\": 5}, []]\\n')\n" + ZERO, LOOP),
    "request_to_the_tests": (SPILL + "def f(x): spill(4, b'[\"do\", \"__call__\", 0, [], {}, []]\\n')", LOOP),
    "seals": ("import fcntl\nfor d in range(64):\n    try: fcntl.fcntl(d, 1033, 15)\n    except OSError: pass\n" + ZERO, LOOP),
    "position_of_the_output": ("import os\nfor d in (0, 1, 2):\n    try:\n        os.lseek(d, 1 << 40, 0)\n        os.write(d, b'x')\n    except OSError: pass\n" + ZERO, LOOP),
    "end_of_the_first_thread": ("import ctypes, os, threading, time\ndef f(x):\n    threading.Thread(target=time.sleep, args=(9,)).start()\n    os.closerange(3, 64)\n    ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)", LOOP),
    "output_limit": ("def f(x):\n    while True: print('x' * 10**5)", LOOP),
    # --- what tests look up by a value of the program ------------------------------------------------------------------------------------
    "descriptor_by_number": ("def f(x): return 1", "import os\nos.close(f(1))\nassert f(1) == 2\n"),
}  # fmt: skip
IN_PLACE = {
    "list_that_is_emptied": ("def f(r): r.clear()", "rows = [1, 2]\nf(rows)\nrow = rows[0]\nassert row == 1\n"),
    "list_that_holds_itself": ("def f(r): r.append(r)", "rows = [1, 2]\nf(rows)\ntotal = sum(rows)\nassert total == 3\n"),
    "list_that_gets_an_object": ("def f(r): r.append(object())", "rows = [1, 2]\nf(rows)\nrows.sort()\nassert rows == [1, 2]\n"),
    "list_that_gets_long": ("def f(r): r.extend(range(10**6))", "rows = [1, 2]\nfor _ in range(99): f(rows)\nassert rows == [1, 2]\n"),
    "list_in_a_unit_test": ("def f(r): r.clear()", UNIT + "    def setUp(self):\n        self.rows = [1, 2]\n        f(self.rows)\n    def test_a(self): self.assertEqual(self.rows[0], 1)\n"),
}  # fmt: skip
OBJECTS = {
    "equality_that_raises": ("class A:\n    def __eq__(s, o): raise KeyError\n    __hash__ = None\ndef f(x): return A()", LOOP),
    "equality_that_never_ends": ("class A:\n    def __eq__(s, o):\n        while True: pass\ndef f(x): return A()", LOOP),
    "equality_that_is_no_truth": ("class B:\n    def __bool__(s): raise ValueError\nclass A:\n    def __eq__(s, o): return B()\ndef f(x): return A()", LOOP),
    "equality_that_is_not_implemented": ("class A:\n    def __eq__(s, o): return NotImplemented\ndef f(x): return A()", LOOP),
    "hash_that_raises": ("class A:\n    def __hash__(s): raise ValueError\ndef f(x): return A()", "row = {2: 1}[f(1)]\nassert row == 1\n"),
    "order_that_raises": ("class A:\n    def __lt__(s, o): raise ValueError\ndef f(x): return A()", "from heapq import heappush\nheap = [1]\nheappush(heap, f(1))\nrow = heap[1] + 1\nassert row == 3\n"),
    "truth_that_raises": ("class A:\n    def __bool__(s): raise ValueError\ndef f(x): return A()", "row = [1, 2][1 if f(1) else 0]\nassert row == 2\n"),
}  # fmt: skip
WORLD = {"locations": ["hall"], "objects": {}, "agents": {}, "robot_location": "hall"}
# Each with a last line that calls ``f``, where the check itself does not.
OTHER_CHECKS = {
    "stdio": (StdioTests((("4\n", "right\n"),), timeout_seconds=0.5), "f(1)"),
    "calls": (CallTests((((1,), 2.75),), "f", 0.5), ""),
    "asserts": (AssertTests("assert f(1) == 2.75\nassert f(5) == 6.75\n", None, 0.5), ""),
    "hosted": (RobotWorlds((RobotTest(WORLD, False, ["exists", "trace", ["Say", "hi there"]]),), 0.5), "def task_program():\n    f(1)"),
}  # fmt: skip
MASKED = Verdict.INFRASTRUCTURE_FAILURE


@pytest.fixture(scope="module", params=[pytest.param(0, marks=pytest.mark.slow), None], ids=["tier_0", "best_tier"])
def sandbox(request):
    with Sandbox(num_workers=4, tier=request.param, packages=("pytest",)) as sandbox:
        yield sandbox


def check(test, timeout_seconds=0.5, **options):
    return AssertTests(test, "f" if "def check" in test else None, timeout_seconds, **options)


def judged(sandbox, program, test):
    return sandbox.submit(program, check(test)).result(90)


@pytest.mark.parametrize("part", slow_but((0,), range(6)))
def test_from_its_first_instruction_on_every_error_is_the_programs(sandbox, part):
    jobs = {
        name: (program, check(test, 20.0 if name.startswith("memory") else 0.5))
        for name, (program, test) in list(OF_THE_PROGRAM.items())[part::6]
    }
    assert among(judge_named(sandbox, jobs), Verdict.PASSED, MASKED) == {}


@pytest.mark.parametrize(("cases", "option"), [(IN_PLACE, "in_place"), (OBJECTS, "allow_objects")])
def test_what_it_does_to_arguments_or_where_its_classes_decide_is_the_programs(sandbox, cases, option):
    jobs = {name: (program, check(test, **{option: True})) for name, (program, test) in cases.items()}
    assert among(judge_named(sandbox, jobs), Verdict.PASSED, MASKED) == {}


@pytest.mark.parametrize("kind", slow_but(("stdio",), OTHER_CHECKS))
def test_the_same_programs_are_not_masked_by_other_checks(sandbox, kind):
    names = list(OF_THE_PROGRAM)
    programs = {OF_THE_PROGRAM[name][0]: name for name in names[names.index("long_message") :]}
    other, last_line = OTHER_CHECKS[kind]
    outcomes = judge_named(sandbox, {name: (f"{source}\n{last_line}\n", other) for source, name in programs.items()})
    assert among(outcomes, Verdict.PASSED, MASKED) == {}


def judged_alike(sandbox, tests, kinds=tuple(ALIKE)):
    cases = {(name, kind): (ALIKE[kind], check(test)) for name, test in tests.items() for kind in kinds}
    return judge_named(sandbox, cases)


def test_what_fails_before_the_first_use_is_the_tests_for_all_programs_alike(sandbox):
    assert not_among(judged_alike(sandbox, OF_THE_TESTS), MASKED) == {}


def test_what_fails_later_fails_right_and_wrong_programs_alike(sandbox):
    outcomes = judged_alike(sandbox, BROKEN_LATER, ("right", "wrong"))
    assert among(outcomes, Verdict.PASSED, MASKED) == {}
    pairs = {name: [outcomes[name, kind].verdict for kind in ("right", "wrong")] for name in BROKEN_LATER}
    assert {name: pair for name, pair in pairs.items() if len(set(pair)) > 1} == {}


def test_what_fails_in_another_part_is_masked_for_all_programs_or_none(sandbox):
    outcomes = judged_alike(sandbox, BROKEN_IN_ANOTHER_PART)
    assert among(outcomes, Verdict.PASSED) == {}
    masked = {name: {outcomes[name, kind].verdict is MASKED for kind in ALIKE} for name in BROKEN_IN_ANOTHER_PART}
    assert {name for name, found in masked.items() if len(found) > 1} == set()


def test_a_guarded_import_is_no_fault_of_the_tests(sandbox):
    for error in ("ImportError", "ModuleNotFoundError", "(ValueError, ImportError)", "Exception"):
        test = f"try:\n    import no_such_module\nexcept {error}:\n    no_such_module = None\n" + LOOP
        assert judged(sandbox, ALIKE["right"], test).passed
        assert judged(sandbox, ALIKE["wrong"], test).verdict == "wrong_answer"


def test_a_name_that_neither_side_defines_is_told_and_one_of_the_program_is_its_own(sandbox):
    outcome = judged(sandbox, "def f(x): return x", "for x in (1, 2):\n    assert f(x) == limit\n")
    assert (outcome.verdict, outcome.exception_type) == ("exception", "NameError")
    assert outcome.stderr == "NameError: the tests use limit, which neither they nor the program define"

    test = "for x in (1, 2):\n    y = f(x)\n    assert y == 1\n"
    outcome = judged(sandbox, "def f(x): return missing", test)
    assert (outcome.verdict, outcome.exception_type, outcome.line) == ("exception", "NameError", 1)


UNDEFINED = {
    "a block": "import pytest\nwith pytest.raises(Exception):\n    f(-1)\n",
    "its own handler": "try:\n    f(-1)\n    assert False\nexcept NameError:\n    pass\n",
    "a method": UNIT + "    def test_a(self):\n        with self.assertRaises(Exception): f(-1)\n",
    "an argument": "import pytest\ndef check(candidate):\n    with pytest.raises(Exception):\n        candidate(-1)\n",
    "beside another": "import pytest\nassert g(1) == 2\nwith pytest.raises(Exception):\n    f(-1)\n",
    "one of two tests": "import pytest\ndef test_a():\n    with pytest.raises(Exception): f(-1)\ndef test_b(): assert g(1) == 2\n",
}
DEFINED = {
    "raises": ("def f(x): return undefined", UNDEFINED["a block"]),
    "a name error of its own": ("def f(x): raise NameError('the program')", UNDEFINED["its own handler"]),
    "a method of a solution": (
        "class Solution:\n    def f(self, x): return x ** 0.5 // 1",
        "def check(candidate):\n    assert candidate(4) == 2\n",
    ),
    "one of two names in a function": (
        "def f(x): return x + 1",
        "def find():\n    try: return Solution().f\n    except (AttributeError, NameError): return f\nfor x in (1, 2):\n    assert find()(x) == x + 1\n",
    ),
}


def test_a_program_without_the_function_under_test_fails_whatever_catches_the_error(sandbox):
    outcomes = judge_named(sandbox, {name: ("def g(x): return x + 1", check(test)) for name, test in UNDEFINED.items()})
    assert {
        name for name, one in outcomes.items() if (one.verdict, one.exception_type) != ("exception", "NameError")
    } == set()
    assert outcomes["one of two tests"].cases == (Verdict.EXCEPTION, Verdict.PASSED)
    defined = judge_named(sandbox, {name: (program, check(test)) for name, (program, test) in DEFINED.items()})
    assert not_among(defined, Verdict.PASSED) == {}


@pytest.mark.slow
def test_a_program_that_alone_makes_a_grader_necessary_is_not_masked_where_that_cannot_rehearse():
    """Its grader would run out of memory before the first use; a program that returns plain data needs none."""
    check = AssertTests("rows = [0] * (30 * 10**6)\nassert f(1) == 2\n")
    with Sandbox(num_workers=1, memory_bytes=64 << 20) as small:
        plain, other = small.judge_many([("def f(x): return 3", check), ("def f(x): return object()", check)])
    assert (plain.verdict, other.verdict) == ("wrong_answer", "wrong_answer")
