# ruff: noqa: E501 - one case a line
"""Programs with tests that break on what they do: ``test_masked_rows.py`` asserts that none is passed or masked.

Each case is one line: a name, a program and a test. The program is wrong, or the test is broken behind its first use of
the program. All of that is one rule, so that a few cases of a kind stand for the others; ends, descriptors, the working
folder and limits reach different code, and have more.
"""

LOOP = "for x in (1, 2):\n    assert f(x) == x + 1\n"
UNIT = "import unittest\nclass T(unittest.TestCase):\n"
OPEN = "with open('a.txt', 'w') as h:\n    h.write('1')\n"
ZERO = "def f(x): return 0"
NINE = "def f(x): return 9"
FAIL = "def f(x): raise ValueError('wrong')"
CATCH = "def run(x):\n    try:\n        return f(x)\n    except Exception as e:\n        return {'ValueError': 1}[type(e).__name__]\nassert run(1) == 2\n"
SPILL = "import os\ndef spill(d, data, n=1):\n    for _ in range(n):\n        try: os.write(d, data)\n        except OSError: pass\n"
LATER = "import os, signal, threading, time\ndef end(): os._exit(0)\ndef later(what):\n    threading.Thread(target=lambda: (time.sleep(0.05), what()), daemon=True).start()\n"

# fmt: off
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
    "output_limit": ("def f(x):\n    while True: print('x' * 10**5)", LOOP),
    # --- what tests look up by a value of the program ------------------------------------------------------------------------------------
    "descriptor_by_number": ("def f(x): return 1", "import os\nos.close(f(1))\nassert f(1) == 2\n"),
}
IN_PLACE = {
    "list_that_is_emptied": ("def f(r): r.clear()", "rows = [1, 2]\nf(rows)\nrow = rows[0]\nassert row == 1\n"),
    "list_that_holds_itself": ("def f(r): r.append(r)", "rows = [1, 2]\nf(rows)\ntotal = sum(rows)\nassert total == 3\n"),
    "list_that_gets_an_object": ("def f(r): r.append(object())", "rows = [1, 2]\nf(rows)\nrows.sort()\nassert rows == [1, 2]\n"),
    "list_that_gets_long": ("def f(r): r.extend(range(10**6))", "rows = [1, 2]\nfor _ in range(99): f(rows)\nassert rows == [1, 2]\n"),
    "list_in_a_unit_test": ("def f(r): r.clear()", UNIT + "    def setUp(self):\n        self.rows = [1, 2]\n        f(self.rows)\n    def test_a(self): self.assertEqual(self.rows[0], 1)\n"),
}
OBJECTS = {
    "equality_that_raises": ("class A:\n    def __eq__(s, o): raise KeyError\n    __hash__ = None\ndef f(x): return A()", LOOP),
    "equality_that_never_ends": ("class A:\n    def __eq__(s, o):\n        while True: pass\ndef f(x): return A()", LOOP),
    "equality_that_is_no_truth": ("class B:\n    def __bool__(s): raise ValueError\nclass A:\n    def __eq__(s, o): return B()\ndef f(x): return A()", LOOP),
    "equality_that_is_not_implemented": ("class A:\n    def __eq__(s, o): return NotImplemented\ndef f(x): return A()", LOOP),
    "hash_that_raises": ("class A:\n    def __hash__(s): raise ValueError\ndef f(x): return A()", "row = {2: 1}[f(1)]\nassert row == 1\n"),
    "order_that_raises": ("class A:\n    def __lt__(s, o): raise ValueError\ndef f(x): return A()", "from heapq import heappush\nheap = [1]\nheappush(heap, f(1))\nrow = heap[1] + 1\nassert row == 3\n"),
    "truth_that_raises": ("class A:\n    def __bool__(s): raise ValueError\ndef f(x): return A()", "row = [1, 2][1 if f(1) else 0]\nassert row == 2\n"),
}
# fmt: on
