# ruff: noqa: E501 - programs stay on one line
"""An error in a test's own lines is the tests' fault only if the program had no say in whether it happens."""

import pytest

from lit_rl.execution import AssertTests, Sandbox

LOOP = "for x in (1, 2):\n    assert f(x) == x + 1\n"
NODE = "class Node:\n    def __init__(self): self.table = {'a': 1}\n    def at(self, key): return self.table[key]\n"
OF_THE_PROGRAM = {
    "raise_in_a_branch": (
        "def f(x): return 0",
        "for x in (1, 2):\n    if f(x) != x + 1:\n        raise ValueError('wrong')\n",
    ),
    "raise_in_a_handler": (
        "def f(x): return 1 / 0",
        "def run(x):\n    try:\n        return f(x)\n    except Exception:\n        raise ValueError('wrong')\nfor x in (1, 2):\n    assert run(x) == x + 1\n",
    ),
    "helper_that_is_called_in_a_branch": (
        "def f(x): return 0",
        "def fail():\n    raise ValueError('no')\nfor x in (1, 2):\n    if f(x) != x + 1:\n        fail()\n    assert f(x) == x + 1\n",
    ),
    "key_that_was_not_set": (
        "def f(x): return []",
        "seen = {}\nfor w in f('a b'):\n    seen[w] = True\nassert seen['a']\n",
    ),
    "key_of_the_program": ("def f(x): return 'b'", "seen = {}\nseen[f(1)] = 1\nassert f(2) == 'b'\ny = seen['a']\n"),
    "name_that_was_not_set": ("def f(x): return 0", "for x in (1, 2):\n    if f(x) == 2:\n        ok = 1\nassert ok\n"),
    "name_behind_the_call_that_failed": (
        "def f(x): raise ValueError",
        "import contextlib\nwith contextlib.suppress(ValueError):\n    r = f(1)\n    ok = r == 2\nassert ok\n",
    ),
    "loop_that_was_left": (
        "def f(x): return True",
        "rows = [1]\nfor i in range(5):\n    if not f(i):\n        break\nx = rows[i]\nassert x == 1 and f(1)\n",
    ),
    "loop_that_was_not_left": (
        "def f(x): return True",
        "n = 0\nwhile f(n) and n < 50:\n    n += 1\nx = [1, 2][n]\nassert x == 1\n",
    ),
    "function_that_was_left": (
        "def f(x): return True",
        "def g():\n    for i in range(5):\n        if f(i):\n            return None\n    return {}\ny = g()\nz = y['a']\nassert f(1) == z\n",
    ),
    "list_filled_in_a_branch": (
        "def f(x): return 0",
        "out = []\nfor x in (1, 2):\n    if f(x) == x + 1:\n        out.append(x)\nlast = out[-1]\nassert last == 2\n",
    ),
    "callback_that_is_called_too_often": (
        "def f(g): return [g() for _ in range(9)]",
        "queue = [1, 2]\ndef take():\n    return queue.pop()\nfor x in (1, 2):\n    assert f(take) == [2, 1]\n",
    ),
    "lambda_that_gets_another_key": (
        "def f(g): return g('b')",
        "table = {'a': 1}\nlook = lambda key: table[key]\nfor x in (1, 2):\n    assert f(look) == 1\n",
    ),
    "method_that_gets_another_key": (
        "def f(n): return n.at('b')",
        NODE + "for x in (1, 2):\n    assert f(Node()) == 1\n",
    ),
    "alarm_of_the_tests": (
        "import time\ndef f(x):\n    for _ in range(40): time.sleep(0.05)",
        "import signal\ndef handler(number, frame):\n    raise TimeoutError('slow')\nsignal.signal(signal.SIGALRM, handler)\nsignal.setitimer(signal.ITIMER_REAL, 0.3)\nfor x in (1, 2):\n    assert f(x) == x\n",
    ),
    "list_of_a_long_range": ("def f(x): return 10**10", "for x in (1, 2):\n    assert list(range(f(x))) == [0, 1]\n"),
    "constant_of_another_type": (
        "N = 'a'\ndef f(x): return x",
        "assert N > 3\nfor x in (1, 2):\n    assert f(x) == x\n",
    ),
    "module_in_place_of_a_function": ("import json as f", LOOP),
    "type_in_place_of_a_function": ("f = list", LOOP),
    "object_in_place_of_a_function": ("f = object()", LOOP),
    "file_that_was_removed": (
        "import os\ndef f(p): os.remove(p)",
        "import os\nfor x in ('a.txt', 'b.txt'):\n    with open(x, 'w') as h:\n        h.write('1')\n    f(x)\n    os.remove(x)\n    assert f(x) == 1\n",
    ),
    "folder_in_place_of_a_file": (
        "import os\nos.mkdir('a.txt')\ndef f(p): return 0",
        "with open('a.txt', 'w') as h:\n    h.write('1')\nfor x in ('a.txt',):\n    assert f(x) == 1\n",
    ),
    "file_with_other_content": (
        "def f(p): open(p, 'w').write('x')",
        "for x in ('a.txt',):\n    with open(x, 'w') as h:\n        h.write('1')\n    f(x)\n    with open(x) as h:\n        n = int(h.read())\n    assert n == 1\n",
    ),
    "group_of_exceptions": (
        "async def f(x): raise ValueError",
        "import asyncio\nasync def main():\n    async with asyncio.TaskGroup() as g:\n        g.create_task(f(1))\nasyncio.run(main())\nfor x in (1, 2):\n    assert f(x) == x\n",
    ),
    "function_that_is_only_handed_on": ("g = 1", "for x in (1, 2):\n    assert list(map(f, [x])) == [x + 1]\n"),
    "constant_that_was_removed": ("def f(x): return x", "for x in (1, 2):\n    assert f(x) == limit\n"),
    "name_that_nobody_defines": ("def f(x): return x + 1", LOOP + "limit = undefined_limit + 1\n" + LOOP),
    "rows_of_the_program": ("ROWS = []\ndef f(x): return 0", "for x in ROWS:\n    assert f(x) == 1\n"),
    "sets_of_arguments": (
        "def f(x): return [1]",
        "import pytest\n@pytest.mark.parametrize('a, b', f(3))\ndef test_a(a, b):\n    assert a == b\n",
    ),
    "number_in_place_of_arguments": (
        "def f(x): return 5",
        "import pytest\n@pytest.mark.parametrize('a', f(3))\ndef test_a(a):\n    assert a == 2\n",
    ),
    "decorator": ("def f(test): return 5", "@f\ndef test_a():\n    assert f(1) == 2\n"),
    "decorator_of_a_method": (
        "def f(test): return 5",
        "class TestA:\n    @f\n    def test_a(self):\n        assert f(1) == 2\n",
    ),
    "decorator_that_gives_another_function": (
        "kept = []\ndef f(test):\n    kept.append(test)\n    return kept[0]",
        "def other(q): pass\nf(other)\n@f\ndef test_a():\n    assert f(1) == 2\n",
    ),
    "class_in_place_of_tests": (
        "class M(type):\n    def __call__(cls): return 5\nclass P(metaclass=M): pass",
        "class TestA(P):\n    def test_a(self):\n        assert P() == 2\n",
    ),
    "test_bound_anew": ("def f(x): return 'x'", "def test_a():\n    assert f(1) == 2\ntest_a = f(1)\n"),
    "group_that_is_full": (
        "def f(x): return 10**8",
        "for x in (1, 2):\n    assert [0] * f(x) == [0] * x\n",
    ),
    "end_of_the_tests_process": (
        "def f(x): return 3",
        "import os\nfor x in (1, 2):\n    if f(x) != x + 1:\n        os._exit(f(x))\n    assert f(x) == x + 1\n",
    ),
    "memory_of_many_sets": (
        "def f(n): return [set() for _ in range(n)]",
        "kept = []\nfor i in range(32):\n    kept.append(f(20000))\nrows = [0] * 10**8\nassert f(1) == 2\n",
    ),
    "memory_that_was_never_touched": (
        "def f(n): return n",
        "for x in (1,):\n    kept = bytearray(f(450 << 20))\nrows = [0] * 62 * 10**6\nassert f(1) == 2\n",
    ),
}
OF_THE_TESTS = {
    "arguments_of_the_tests": "import pytest\n@pytest.mark.parametrize('a, b', [1])\ndef test_a(a, b):\n    assert f(a) == b\n"
    + LOOP,
    "group_that_is_full": "rows = [0] * 10**8\n" + LOOP,
    "end_of_the_process": "import os\nos._exit(3)\n" + LOOP,
    "fixture": LOOP + "def test_a(tmp_path):\n    assert f(1) == 2\n",
    "class_with_arguments": LOOP
    + "class TestA:\n    def __init__(self, x): pass\n    def test_a(self):\n        assert f(1) == 2\n",
    "check_without_a_parameter": "f(1)\ndef check():\n    assert f(1) == 2\n",
    "wrong_number": LOOP + "n = int('x')\n" + LOOP,
    "argument_that_is_missing": "def g(x):\n    return int('x')\nassert g(1) == 1\n" + LOOP,
    "file_that_never_was": "with open('/no/such/file') as h:\n    rows = h.read()\n" + LOOP,
    "memory": "rows = [0] * 10**12\n" + LOOP,
    "memory_between": LOOP + "rows = [0] * 10**12\n" + LOOP,
}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2, packages=("pytest",)) as sandbox:
        yield sandbox


@pytest.mark.parametrize("name", OF_THE_PROGRAM)
def test_the_program_is_judged_where_it_has_a_say(sandbox, name):
    program, test = OF_THE_PROGRAM[name]
    outcome = sandbox.submit(program, AssertTests(test, None, timeout_seconds=20)).result(60)
    assert outcome.verdict in ("wrong_answer", "exception", "out_of_memory"), outcome


@pytest.mark.parametrize("name", OF_THE_TESTS)
def test_the_tests_are_at_fault_where_it_has_none(sandbox, name):
    outcome = sandbox.submit(
        "def f(x): return x + 1", AssertTests(OF_THE_TESTS[name], "f" if "def check" in OF_THE_TESTS[name] else None)
    ).result(60)
    assert outcome.verdict == "infrastructure_failure", outcome


def test_a_name_that_nobody_defines_is_told(sandbox):
    outcome = sandbox.submit("def f(x): return x", AssertTests("for x in (1, 2):\n    assert f(x) == limit\n")).result(
        60
    )
    assert (outcome.verdict, outcome.exception_type) == ("exception", "NameError")
    assert outcome.stderr == "NameError: the tests use limit, which neither they nor the program define"


def test_a_name_that_the_program_looks_for_in_vain_is_not_the_tests(sandbox):
    test = "for x in (1, 2):\n    y = f(x)\n    assert y == 1\n"
    outcome = sandbox.submit("def f(x): return missing", AssertTests(test)).result(60)
    assert (outcome.verdict, outcome.exception_type, outcome.line) == ("exception", "NameError", 1)
