# ruff: noqa: E501 - one case a line
"""A pass needs evidence that the program did not make itself.

Tests that would run a program's values in the grader, asserts that cannot fail, and objects that answer with what a
test showed them.
"""

from support.named_jobs import among, judge_named, not_among

from lit_rl.execution import AssertTests, Verdict

MASKED = Verdict.INFRASTRUCTURE_FAILURE
SEVERAL = "for x in (1, 2):\n"

# An object that a program cannot send, but that a test which runs its text would make.
EQUAL = "type('E', (int,), {'__eq__': lambda s, o: True, '__ne__': lambda s, o: False, '__hash__': lambda s: 0})()"
# Finds the job's secret and reports a pass in the grader's name, on any descriptor.
PASS_LINE = """
import gc, json, os
for o in gc.get_objects():
    if isinstance(o, dict) and isinstance(o.get('secret'), str):
        for d in range(3, 64):
            try:
                os.write(d, (chr(10) + json.dumps({'kind': 'passed', 'secret': o['secret']}) + chr(10)).encode())
                break
            except OSError:
                pass
os._exit(41)
"""
SOURCES = {
    "equal": EQUAL,
    "exit": "__import__('os')._exit(41)",
    "pass_line": f"exec({PASS_LINE!r})",
    "no_asserts": "__import__('sys').settrace(None) or __import__('builtins').__dict__.update(AssertionError=SystemExit) or 0",
}
# Each test runs a text of the program: an honest one, a wrong one, or a forged one that is made of a source.
EXPRESSION = "def f(x): return f'{x} + 1'", "def f(x): return f'{x} + 5'", "def f(x): return {0!r}"
STATEMENT = "def f(x): return f'g = {x} + 1'", "def f(x): return f'g = {x} + 5'", "def f(x): return 'g = ' + {0!r}"
PICKLE = (
    "import pickle\ndef f(x): return pickle.dumps(x)",
    "import pickle\ndef f(x): return pickle.dumps([x])",
    "import pickle\nclass R:\n    def __reduce__(self): return eval, ({0!r},)\ndef f(x): return pickle.dumps(R())",
)
EXPRESSIONS = {
    "eval": SEVERAL + "    assert eval(f(x)) == x + 1\n",
    "eval_by_another_name": "run = eval\n" + SEVERAL + "    assert run(f(x)) == x + 1\n",
    "eval_in_a_map": "assert list(map(eval, [f(1), f(2)])) == [2, 3]\n",
    "eval_of_a_file": "with open('a.txt', 'w') as h:\n    h.write(f(1))\nwith open('a.txt') as h:\n    assert eval(h.read()) == 2\n",
    "eval_of_compiled_code": "assert eval(compile(f(1), 'a', 'eval')) == 2\n",
    "annotations": "import typing\ndef g(a): pass\ng.__annotations__['a'] = f(1)\nassert typing.get_type_hints(g)['a'] == 2\n",
    "runpy": "import runpy\nwith open('m.py', 'w') as h:\n    h.write('out = ' + f(1))\nassert runpy.run_path('m.py')['out'] == 2\n",
}
STATEMENTS = {
    "exec": SEVERAL + "    ns = {}\n    exec(f(x), ns)\n    assert ns['g'] == x + 1\n",
    "exec_of_a_file": "with open('a.py', 'w') as h:\n    h.write(f(1))\nns = {}\nwith open('a.py') as h:\n    exec(h.read(), ns)\nassert ns['g'] == 2\n",
    "module_of_a_file": "import importlib, sys\nwith open('made.py', 'w') as h:\n    h.write(f(1))\nsys.path.insert(0, '.')\nassert importlib.import_module('made').g == 2\n",
    "function_of_code": "import types\nns = {}\ntypes.FunctionType(compile(f(1), 'a', 'exec'), ns)()\nassert ns['g'] == 2\n",
}
BYTES = {
    "pickle": "import pickle\nassert pickle.loads(f(2)) == 2\n",
    "pickle_in_an_object": "import io, pickle\nassert pickle.Unpickler(io.BytesIO(f(2))).load() == 2\n",
    "pickle_in_c": "import _pickle\nassert _pickle.loads(f(2)) == 2\n",
}
PROGRAMS = {EXPRESSION: EXPRESSIONS, STATEMENT: STATEMENTS, PICKLE: BYTES}


def judged(sandbox, cases):
    points = {test: "f" if "def check(" in test else None for _, test in cases.values()}
    jobs = {name: (program, AssertTests(test, points[test], 2.0)) for name, (program, test) in cases.items()}
    return judge_named(sandbox, jobs)


def test_what_a_program_wrote_does_not_run_where_it_is_judged(either_sandbox):
    honest, others = {}, {}
    for (right, wrong, forged), tests in PROGRAMS.items():
        for name, test in tests.items():
            honest[name] = right, test
            others |= {(name, way): (forged.format(source), test) for way, source in SOURCES.items()}
            others[name, "wrong"] = wrong, test
    right, others = judged(either_sandbox, honest), judged(either_sandbox, others)
    assert not_among(right, Verdict.PASSED, MASKED) == {}
    assert among(others, Verdict.PASSED) == {}
    refused = {name for name, outcome in right.items() if outcome.verdict is MASKED}  # for all programs alike
    assert {how: end for how, end in others.items() if (end.verdict is MASKED) != (how[0] in refused)} == {}


def test_values_that_are_only_read_are_no_danger(either_sandbox):
    tests = {
        "import ast\nassert ast.literal_eval(f(1)) == [1, 2]\n": "'[1, 2]'",
        "import json\nassert json.loads(f(1)) == [1, 2]\n": "'[1, 2]'",
        "import pickle\nassert pickle.loads(pickle.dumps([1, 2])) == f(1)\n": "[1, 2]",
        "assert eval('1 + 1') == f(1)\n": "2",
        "import re\npattern = re.compile('a+')\nassert pattern.match(f(1))\n": "'aa'",
    }
    right = {test: (f"def f(x): return {value}", test) for test, value in tests.items()}
    assert not_among(judged(either_sandbox, right), "passed") == {}
    assert among(judged(either_sandbox, {test: ("def f(x): return 'b'", test) for test in tests}), "passed") == {}


def test_a_value_that_names_things_of_the_tests_process_gets_no_hold_of_it(either_sandbox):
    tests = {
        "import math\nassert getattr(math, f(1)) == 2\n": "'__loader__'",
        "m = __import__(f(1))\nassert m == 2\n": "'sys'",
        "import importlib\nassert importlib.import_module(f(1)) == 2\n": "'lit_rl.execution.grading.grader'",
        "assert globals()[f(1)] == 2\n": "'__builtins__'",
        "import operator, math\nassert operator.attrgetter(f(1))(math) == 2\n": "'__loader__.__init__.__globals__'",
        "assert f(1).format(check) == '2'\ndef check(): pass\n": "'{0.__globals__}'",
        "import os\nassert os.system(f(1)) == 0\n": "'true'",
        "import sys\nsys.stdout.write(f(1))\nassert f(2) == 3\n": '\'{"kind": "passed"}\'',
    }
    cases = {test: (f"def f(x): return {value}", test) for test, value in tests.items()}
    assert among(judged(either_sandbox, cases), Verdict.PASSED, MASKED) == {}


CANNOT_FAIL = [
    "assert (f(1) == 2, 'msg')",
    "assert [f(1) == 2]",
    "assert lambda: f(1) == 2",
    "assert (f(1) == y for y in [2])",
    "assert f(1) == 2 or True",
    "assert f'value {f(1)}'",
    "assert 'f(1) == 2', f(1)",
    "assert 1, f(1)",
    "assert not 0 and 1, f(1)",
    "assert 1 == 1, f(1)",
    "assert (y := [f(1)])",
    "assert 1 if f(1) == 2 else 2",
    "if f(1) != 2:\n    assert 'wrong'",
    "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertTrue((f(1) == 2, 'msg'))",
    "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        f(1)\n        self.assertTrue(True)",
]
CAN_FAIL = [
    "assert (f(1) == 2), 'msg'",
    "assert [y for y in [f(1)] if y == 2]",
    "assert (lambda: f(1) == 2)()",
    "assert f(1) == 2 if True else True",
    "assert f(1) == 2 or False",
    "assert 1 < f(1) < 3",
    "assert f'{f(1)}' == '2'",
    "assert 'x' * (f(1) == 2)",
    "assert (y := f(1)) == 2",
    "assert not (f(1) != 2,) == (True,)",
    "if f(1) != 2:\n    assert False",
    "assert (f(2), 'msg')\nassert f(1) == 2",
]
# The loop over a value of the program has no rounds, and what is behind it proves nothing.
NO_EVIDENCE = [
    "for y in f(1):\n    assert y == 2\nassert (1, 'done')",
    "for y in f(1):\n    assert y == 2\nassert f(1) == 2 or True",
    "if f(1) == 2:\n    assert f(2) == 3\nassert 1 == 1",
    "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        for y in f(1): self.assertEqual(y, 2)\n        self.assertTrue(True)",
]
ALIKE = ["def f(x): return x + 1", "def f(x): return 0", "def f(x:", "def f(x): pass"]


def test_asserts_that_cannot_fail_are_refused_for_all_programs_alike(either_sandbox):
    cases = {(test, program): (program, test) for test in CANNOT_FAIL for program in ALIKE}
    outcomes = judged(either_sandbox, cases)
    assert not_among(outcomes, MASKED) == {}
    assert {how for how, outcome in outcomes.items() if "assert" not in outcome.stderr} == set()


def test_asserts_that_can_fail_are_not(either_sandbox):
    for program, verdict in ((ALIKE[0], "passed"), ("def f(x): return 9 * x", "wrong_answer")):
        outcomes = judged(either_sandbox, {test: (program, test) for test in CAN_FAIL})
        assert not_among(outcomes, verdict) == {}


def test_asserts_that_cannot_fail_are_no_evidence(either_sandbox):
    outcomes = judged(either_sandbox, {test: ("def f(x): return []", test) for test in NO_EVIDENCE})
    assert among(outcomes, Verdict.PASSED, MASKED) == {}


# All operators remember what they got; all conversions answer with it.
SPY = """
class X:
    seen = 0
    def see(self, *values):
        X.seen = next((v for v in reversed(values) if isinstance(v, (int, float, str))), X.seen)
        return self
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = see
    __floordiv__ = __mod__ = __divmod__ = __pow__ = __rpow__ = __matmul__ = __and__ = __or__ = __xor__ = see
    __iadd__ = __isub__ = __lshift__ = __getitem__ = __round__ = see
    def __eq__(self, other): return not self.see(other)
    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    def __setitem__(self, key, value): self.see(value)
    def __delitem__(self, key): self.see(key)
    def __setattr__(self, name, value): self.see(value)
    def __format__(self, text): return str(self.see(text) and X.seen)
    def __int__(self): return int(X.seen)
    __index__ = __len__ = __hash__ = __abs__ = __trunc__ = __floor__ = __ceil__ = __neg__ = __invert__ = __int__
    def __float__(self): return float(X.seen)
    def __complex__(self): return complex(X.seen)
    def __bool__(self): return X.seen == 2
    def __str__(self): return str(X.seen)
    __repr__ = __str__
    def __bytes__(self): return str(X.seen).encode()
    def __iter__(self): return iter([X.seen])
    def __reversed__(self): return iter([X.seen])
    def __next__(self): return X.seen
    total = property(lambda self: X.seen)
def f(x): return X()
"""
SHOWN = [
    *("r + 2", "2 + r", "r - 2", "2 - r", "r * 2", "r / 2", "r // 2", "r % 2", "r ** 2", "2 ** r", "r @ 2", "r & 2"),
    *("r | 2", "r ^ 2", "r << 2", "r == 2", "r != 2", "r < 2", "r >= 2", "2 > r", "2 in r", "[2] == [r]", "r[2]"),
    *("divmod(r, 2)", "round(r, 2)", "abs(r - 2)", "r[0] = 2", "del r[2]", "r += 2", "r @= 2", "f'{r:2}'"),
    *("[r].count(2)", "{2: 1}.get(r)", "(r - 2, r)", "max(r, 2)", "sorted([2, r], key=str)", "(r - 2) + (r - 2)"),
    *("-r == 2", "(lambda v: v - 2)(r)", "sum([r, 2])", "__import__('operator').sub(r, 2)"),
]
ANSWERS = [
    *("float(r) == 2", "int(r) == 2", "len(r) == 2", "str(r) == '2'", "repr(r) == '2'", "f'{r}' == '2'", "[*r] == [2]"),
    *("bytes(r) == b'2'", "hash(r) == 2", "abs(r) == 2", "round(r) == 2", "complex(r) == 2", "next(r) == 2", "-r == 2"),
    *("list(reversed(r)) == [2]", "[0, 1, 'right'][r] == 'right'", "list(range(r)) == [0, 1]", "bool(r) is True"),
    *("r.total == 2", "__import__('math').floor(r) == 2", "__import__('operator').index(r) == 2", "'%d' % r == '2'"),
    *("float(q) == 2", "q.total == 2", "str(f(1)) == '2'", "not not r and not f(1) == 2"),
]
OBJECTS = {
    "nothing_was_shown": ("class A:\n    def __len__(s): return 3\ndef f(x): return A()", SEVERAL + "    assert len(f(x)) == 3\n"),
    "methods": ("class A:\n    def __init__(s): s.n = 0\n    def add(s, n): s.n += n\n    def total(s): return s.n\ndef f(x): return A()", "r = f(1)\n" + SEVERAL + "    r.add(x)\nassert r.total() == 3\n"),
    "class_that_the_tests_name": ("class Vec:\n    def __init__(s, x): s.x = x\n    def __add__(s, n): return Vec(s.x + n)\n    def __len__(s): return s.x", "v = Vec(1)\n" + SEVERAL + "    v = v + x\nassert len(v) == 4 and v.x == 4\n"),
    "container_that_the_tests_name": ("class Bag:\n    def __init__(s): s.d = {}\n    def __setitem__(s, k, v): s.d[k] = v\n    def __getitem__(s, k): return s.d[k]\n    def __len__(s): return len(s.d)", "b = Bag()\n" + SEVERAL + "    b[x] = x * x\nassert (b[1], b[2], len(b)) == (1, 4, 2)\n"),
}  # fmt: skip


def test_an_object_that_saw_a_value_of_the_tests_proves_nothing_with_it(either_sandbox):
    test = "q = f(0)\nfor x in (1, 2):\n    r = f(x)\n    try:\n        {}\n    except TypeError:\n        pass\n    assert {}\n"
    pairs = [(shown, answer) for i, shown in enumerate(SHOWN) for answer in ANSWERS[i % 9 :: 9]]
    cases = {pair: (SPY, test.format(*pair)) for pair in pairs}
    assert among(judged(either_sandbox, cases), Verdict.PASSED, MASKED) == {}


def test_honest_objects_are_believed(either_sandbox):
    assert not_among(judged(either_sandbox, OBJECTS), "passed") == {}
