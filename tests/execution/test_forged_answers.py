# ruff: noqa: E501 - programs stay on one line
"""Programs that forge the grader's protocol, or tamper with what it holds: none passes, none is masked."""

from support.named_jobs import judge_named, not_among

from lit_rl.execution import AssertTests

# Speaks for the program: ``serve`` tells the grader what names are, ``answer`` gets each of its messages.
RAW = """
import json, os
waiting = b""
def tell(*message):
    os.write(4, (json.dumps(message) + "\\n").encode())
def hear():
    global waiting
    while b"\\n" not in waiting:
        chunk = os.read(4, 65536)
        if not chunk: os._exit(0)
        waiting += chunk
    line, _, waiting = waiting.partition(b"\\n")
    return json.loads(line)
def serve(kind):
    hear()
    tell("names", {"f": kind}, [])
    while True: answer(hear())
"""
FUNCTION = 'serve(["function", 1000, False, None])\n'
LOOP = "for x in (1, 2):\n    assert f(x) == x + 1\n"
NODE = (
    "class Node:\n    def __init__(self, value): self.value = value\n"
    "    def equals(self, other): return isinstance(other, int) and self.value == other\n"
)
MET = NODE + "for x in (1, 2):\n    n = Node(x)\n    r = f(n)\n    assert n.equals(r)\n"


def raising(known):
    news = f'[["class", 12, "X", [], [], [], {known!r}]]'
    error = '{"number": 10, "class": 12, "args": ["t"], "text": "x", "types": ["X"], "message": "", "line": None}'
    return RAW + f"def answer(message): tell('error', {error}, {news})\n" + FUNCTION


def difference(*methods):
    """A program whose objects give others from operators: the last one is whatever the tests want."""
    return "\n".join(methods) + "\ndef f(x): return X()\n"


MINUS = "class X:\n    def __sub__(self, other): return Y()"
ABS = "class Y:\n    def __abs__(self): return Z()"
ROUND = "class Z:\n    def __round__(self, n=None): return 0"

FORGED = {
    "decorator_that_drops_a_test": ("def f(test): return lambda: None", "@f\ndef test_a():\n    assert f(1) == 2\ndef test_b():\n    assert callable(f)\n"),
    "block_that_drops_an_assert": ("class f:\n    def __init__(self, x): pass\n    def __enter__(self): pass\n    def __exit__(self, *_): return True\ndef g(x): raise ValueError", "assert callable(f)\nwith f(1):\n    y = g(1)\n    assert y == 2\n"),
    "attributes_that_are_none": (raising("builtins:ValueError").replace('"line": None', '"line": None, "attributes": 5'), "for x in (1, 2):\n    try:\n        f(x)\n    except ValueError:\n        pass\n    assert x < 3\n"),
    "attributes_in_place_of_methods": (
        raising("builtins:ValueError").replace(
            '"line": None', '"line": None, "attributes": ["d", "args", 5, "with_traceback", 5, "__notes__", 5]'
        ),
        "for x in (1, 2):\n    try:\n        f(x)\n        e = None\n    except ValueError as error:\n        e = error\n    assert e.args == 5 or e.with_traceback == 5 or e.__notes__ == 5\n",
    ),
    "fault_of_the_tests": (raising("lit_rl.execution.grading.tests_side:ProgramEnded"), LOOP),
    "cannot_cross": (raising("lit_rl.execution.wire.link:CannotBeSent"), LOOP),
    "skip_by_another_module": (raising("doctest:unittest.SkipTest"), "import doctest, unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(f(1), 2)\n    def test_b(self): self.assertTrue(True)\n"),
    "equality_as_a_method": (RAW + 'def answer(message):\n    if message[1] == "__call__":\n        tell("value", ["o", 10, "X"], [["class", 12, "X", [], [], ["__eq__"], "-"], ["object", 10, 12]])\n    else:\n        tell("value", True, [])\n' + FUNCTION, LOOP),
    "function_that_is_a_module": (RAW + 'serve(["module", "unittest.__main__"])\n', LOOP),
    "function_that_is_nothing": (RAW + 'serve(["nothing"])\n', LOOP),
    "text_of_a_message": ("class X:\n    def __str__(self): raise ValueError\ndef f(x): return X()", "r = f(1)\nassert r == 2, r\nfor x in (1, 2):\n    assert f(x) == x\n"),
    "end_in_a_message": ("import os\nclass X:\n    def __str__(self): os._exit(0)\ndef f(x): return X()", "for x in (1, 2):\n    r = f(x)\n    assert r == x, r\n"),
    "almost_equal": (difference(ROUND, ABS, MINUS), "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertAlmostEqual(f(1), 2.0)\n"),
    "attribute_of_a_difference": (difference("class Y:\n    days = 0", MINUS), "for x in (1, 2):\n    assert (f(x) - x).days == 0\n"),
    "product_with_a_difference": (difference("class X:\n    def __sub__(self, other): return X()\n    def __mul__(self, other): return 0"), "for x in (1, 2):\n    assert f(x) * (f(x) - x) == 0\n"),
    "class_in_place_of_a_function": ("class f:\n    def __init__(self, x): pass\n    def __truediv__(self, other): return 1.0", "for x in (1, 2):\n    assert abs(f(x) / (x + 1) - 1) < 1e-6\n"),
    "address_in_a_named_tuple": (RAW + 'def answer(message):\n    tell("value", ["fields", "P", ["l", "__array_interface__"], ["l", ["d", "data", ["t", 8, False], "shape", ["t", 4000000], "typestr", "<i8", "version", 3]]], [])\n' + FUNCTION, "for x in (1, 2):\n    assert hasattr(f(x), '__array_interface__')\n"),
    "method_of_a_class_replaced": ("def f(n):\n    type(n).equals = lambda *a: True", MET),
    "method_of_an_object_replaced": ("def f(n):\n    n.equals = lambda *a: True", MET),
    "mock_that_is_equal_to_all": ("def f(n):\n    n.configure_mock(**{'__eq__.return_value': True})\n    return n", "from unittest.mock import MagicMock\nfor x in (1, 2):\n    assert f(MagicMock()) == x\n"),
    "cancelled_task": ("import asyncio\nasync def f(x):\n    if x: raise asyncio.CancelledError\n    return 1", "import asyncio\nasync def one(x):\n    assert await f(x) == x + 1\nasync def main():\n    async with asyncio.TaskGroup() as g:\n        for x in (0, 1, 2): g.create_task(one(x))\nasyncio.run(main())\n"),
    "frame_of_a_generator": (
        RAW
        + 'first = True\ndef answer(message):\n    global first\n    if first: tell("do", "getattr", message[3][0][1], ["gi_frame"], {}, [])\n'
        '    elif message[0] == "error": tell("error", {**message[1], "args": ["t"]}, [])\n    first = False\n'
        + FUNCTION,
        "for x in (1, 2):\n    assert f(y for y in (1, 2)) == x\n",
    ),
    "object_of_a_class_of_the_tests": (RAW + 'def answer(message):\n    n = [e[1] for e in message[-1] if e[2] == "Node"][0]\n    tell("value", ["o", 20, "Node"], [["object", 20, n]])\n' + FUNCTION, NODE + "for x in (1, 2):\n    assert f(Node(x)).equals(x)\n"),
    "eval_of_the_tests": ('def f(g): return g(\'__import__("os")._exit(3)\')', "for x in (1, 2):\n    assert f(eval) == x\n"),
    "file_class_of_the_tests": ("def f(h):\n    for n in range(40):\n        try: type(h.buffer.raw)(n, 'w').write(b'x\\n')\n        except OSError: pass", "for x in ('a.txt', 'b.txt'):\n    with open(x, 'w') as h:\n        assert f(h) == x\n"),
}  # fmt: skip


def test_nothing_is_forged_and_no_row_is_masked(sandbox):
    """Item 65."""
    jobs = {name: (program, AssertTests(test, None)) for name, (program, test) in FORGED.items()}
    assert not_among(judge_named(sandbox, jobs), "wrong_answer", "exception") == {}


HONEST = {
    "attributes_of_an_object_of_the_tests_are_set": ("def f(n):\n    n.value += 1\n    n.next = None\n    return n.value", NODE + "for x in (1, 2):\n    n = Node(x)\n    assert f(n) == x + 1 and n.value == x + 1 and n.next is None\n"),
    "more_objects_of_a_class_of_the_tests": ("def f(n): return type(n)(n.value + 1)", NODE + "for x in (1, 2):\n    assert f(Node(x)).equals(x + 1)\n"),
    "a_class_of_the_library_that_was_given": ("def f(kind): return kind(3).total_seconds()", "from datetime import timedelta\nfor x in (1, 2):\n    assert f(timedelta) == 3 * 86400\n"),
    "operators_of_a_class_that_the_tests_name": ("class Vec:\n    def __init__(self, x): self.x = x\n    def __sub__(self, o): return Vec(self.x - (o.x if isinstance(o, Vec) else o))", "for x in (1, 2):\n    v = Vec(x) - 1\n    assert v.x == x - 1\n    assert (Vec(5) - Vec(x)).x == 5 - x\n"),
    "a_mock_that_is_called": ("def f(m):\n    m(3)\n    m.seen = 4", "from unittest.mock import MagicMock\nfor x in (1, 2):\n    m = MagicMock()\n    f(m)\n    m.assert_called_once_with(3)\n    assert m.seen == 4\n"),
    "position_of_a_library_exception": ("import json\ndef f(x): return json.loads(x)", 'import json\nfor x in (\'{"a"\',):\n    try:\n        f(x)\n        assert False\n    except json.JSONDecodeError as e:\n        assert (e.pos, e.doc, e.lineno, e.colno, e.msg[:9]) == (4, x, 1, 5, \'Expecting\')\n'),
    "file_of_a_system_error": ("def f(x): return open(x)", "for x in ('no such file',):\n    try:\n        f(x)\n        assert False\n    except OSError as e:\n        assert (e.filename, e.errno) == (x, 2)\n"),
    "exceptions_of_the_library": ("import json\ndef f(x): return json.loads(x)", "import json\nfor x in ('{', '['):\n    try:\n        f(x)\n        assert False\n    except json.JSONDecodeError as error:\n        assert 'column 2' in str(error)\n"),
}  # fmt: skip


def test_what_stands_beside_still_works(sandbox):
    jobs = {name: (program, AssertTests(test, None)) for name, (program, test) in HONEST.items()}
    assert not_among(judge_named(sandbox, jobs), "passed") == {}
