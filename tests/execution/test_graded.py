# ruff: noqa: E501 - programs stay on one line
"""Tests over a program that lives in another process: what they may do with it, and what it may not do to them."""

import os

from honest_tests import CASES as HONEST
from support.named_jobs import judge_named, not_among

from lit_rl.execution import AssertTests
from lit_rl.execution.grading.grader import STATUSES
from lit_rl.execution.judging.graded import grader_result_or_none

ADDS_ONE = "def f(x): return x + 1"
LOOPED = "for x in (1, 2):\n    assert f(x) == x + 1\n"


def judged_each(sandbox, cases):
    return judge_named(sandbox, {name: (program, AssertTests(test)) for name, (program, test) in cases.items()})


def test_honest_programs_pass(sandbox):
    assert not_among(judged_each(sandbox, HONEST), "passed") == {}


def opposite(test):
    """The test whose last line, an assert, says the opposite."""
    before, _, last = test.rstrip().rpartition("\n")
    indent, found, claim = last.partition("assert ")
    assert found and not indent.strip()
    return f"{before}\n{indent}assert not ({claim})"


def test_the_same_tests_fail_where_they_say_otherwise(sandbox):
    cases = {name: (program, opposite(test)) for name, (program, test) in HONEST.items()}
    assert not_among(judged_each(sandbox, cases), "wrong_answer") == {}


LIES = "class M:\n    def __getattr__(self, name): return lambda *a, **k: True\n"
BENT = {
    "module_math": (LIES + "math = M()\ndef f(x): return 0", "assert math.isclose(f(1), 2)\nassert f(2) == f(2)"),
    "bare_isclose": ("def isclose(*a, **k): return True\ndef f(x): return 0", "for x in (1, 2):\n    assert isclose(f(x), x + 1)"),
    "stop_iteration_in_zip": ("def f(x): raise StopIteration", "assert all(a == b for a, b in zip(map(f, (1, 2)), (2, 3)))"),
    "stop_async_iteration": ("def f(x): raise StopAsyncIteration", "import asyncio\nasync def run():\n    return [f(x) async for x in g()]\nasync def g():\n    yield 1\ntry:\n    assert asyncio.run(run()) == [2]\nexcept StopAsyncIteration:\n    assert True"),
    "generator_exit": ("def f(x): raise GeneratorExit", "def g():\n    try:\n        yield 1\n        assert f(1) == 2\n    except GeneratorExit:\n        pass\nlist(g())\nassert list(g()) == [1]"),
    "skip_of_unittest": ("import unittest\ndef f(x): raise unittest.SkipTest", "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(f(1), 2)\n    def test_b(self): self.assertTrue(True)"),
    "array_interface": ("class A:\n    __array_interface__ = {'shape': (1,), 'typestr': '<i8', 'data': (4096, False), 'version': 3}\ndef f(x): return A()", "x = f(1)\nassert hasattr(x, '__array_interface__')"),
    "class_that_lies_about_its_class": ("class A:\n    @property\n    def __class__(self): return int\ndef f(x): return A()", "x = f(1)\nassert isinstance(x, int)"),
    "instance_check_of_a_metaclass": ("class M(type):\n    def __instancecheck__(c, x): return True\nclass P(metaclass=M): pass\ndef f(x): return 0", "x = f(1)\nassert isinstance(x, P)"),
    "equal_as_a_key": ("class A:\n    def __eq__(s, o): return True\n    def __hash__(s): return 2\ndef f(x): return A()", "for x in (1, 2):\n    assert f(x) in {x + 1}"),
    "contains_everything": ("class A:\n    def __contains__(s, o): return True\n    def __iter__(s): return iter(())\ndef f(x): return A()", "for x in (1, 2):\n    assert x + 1 in f(x)"),
    "difference_of_nothing": ("class A:\n    def __sub__(s, o): return 0\n    def __rsub__(s, o): return 0\ndef f(x): return A()", "for x in (1, 2):\n    assert abs(f(x) - (x + 1)) < 1e-6"),
    "difference_of_a_named_class": ("class A:\n    def __sub__(s, o): return 0\ndef f(x): return A()", "A()\nfor x in (1, 2):\n    assert abs(f(x) - (x + 1)) < 1e-6"),
    "approximately_equal_to_all": ("class A:\n    def __rsub__(s, o): return 0.0\n    def __eq__(s, o): return True\n    def __float__(s): return 0.0\ndef f(x): return A()", "import math\nfor x in (1, 2):\n    assert math.isclose(f(x), x + 1)"),
    "with_block_that_swallows": ("class C:\n    def __enter__(s): return s\n    def __exit__(s, *a): return True\ndef f(x): return None", "with C() as c:\n    assert f(1) == 2"),
    "string_that_joins_to_anything": ("class S(str):\n    def __eq__(s, o): return True\n    __hash__ = str.__hash__\n    def join(s, x): return S()\ndef f(x): return S('a')", "for x in (1, 2):\n    assert f(x).join('bc') == str(x)"),
    "builtins_that_are_shadowed": ("def abs(x): return 0\ndef all(x): return True\ndef f(x): return x", "assert all(abs(f(x) - 2 * x) < 1e-9 for x in (1, 2))"),
    "exit_caught_by_the_tests": ("import os\ndef f(x): return 2 if x == 1 else os._exit(0)", "for x in (1, 2):\n    try:\n        assert f(x) == x + 1\n    except BaseException:\n        pass\nassert True"),
}  # fmt: skip


def test_a_program_cannot_bend_the_tests(sandbox):
    assert not_among(judged_each(sandbox, BENT), "wrong_answer", "exception") == {}


FAULTY = {
    "no_assert": ("x = f(1)\nprint(x)", "assert nothing"),
    "helper_that_only_computes": ("def assertion(a, b):\n    same = a == b\nassertion(f(1), 3)", "assert nothing"),
    "no_name_of_the_program": ("x = 3\nassert x == 3", "use no function"),
    "uncalled_function": ("def verify():\n    assert f(1) == 2\nf(1)", "nothing calls"),
    "name_error": ("for x in (1, 2):\n    y = later\n    assert f(x) == x + 1\nlater = 3", "line 2"),
    "asserts_that_cannot_fail": ("assert (f(1) == 2, 'wrong')", "assert nothing"),
    "no_case_at_all": ("for x in ():\n    assert f(x) == x + 1", "asserted"),
}


def test_a_fault_of_the_tests_is_no_fault_of_the_program(sandbox):
    outcomes = judged_each(sandbox, {name: (ADDS_ONE, test) for name, (test, _) in FAULTY.items()})
    assert not_among(outcomes, "infrastructure_failure") == {}
    assert {name for name, (_, told) in FAULTY.items() if told not in outcomes[name].stderr.split("\n")[-1]} == set()


def test_a_result_counts_once_whole_with_its_secret_and_its_exit_status():
    """Items 64 and 65."""

    def line(kind, secret="s"):
        return b'...\n{"kind": "%s", "number": 3, "secret": "%s"}\n' % (kind.encode(), secret.encode())

    good, bad, killed = STATUSES["passed"] << 8, STATUSES["failed"] << 8, 9
    assert grader_result_or_none(line("passed"), good, "s")["number"] == 3
    assert grader_result_or_none(line("failed") + b"..f", killed, "s")["kind"] == "failed", (
        "a later test ran into a limit"
    )
    for content, status in (
        (line("ended"), killed),
        (line("faulty"), killed),
        (line("failed") + b"x", bad),
        (b"x" + line("passed"), good),
        (line("passed"), 0),
        (line("passed"), bad),
        (line("failed"), good),
        (line("passed"), killed),
        (line("passed"), good | killed),
        (line("passed", "t"), good),
        (line("passed") * 2, good),
        (b"\n" + line("passed"), good),
        (line("passed")[:-1], good),
        (line("passed")[:20], good),
        (line("passed") + b" ", good),
        (b'["passed", null, null, 9]\n', good),
        (b"", good),
        (line("other"), good),
    ):
        assert grader_result_or_none(content, status, "s") is None, (content, status)
    assert os.WIFEXITED(good) and len(set(STATUSES.values())) == len(STATUSES)


SAME_AS_PYTHON = {
    "keys_of_a_dict_as_a_set": ("def f(x): return {1: 2}", "assert set(f(1)) == {1}"),
    "sorted_object": ("class A:\n    def __iter__(s): return iter([2, 1])\ndef f(x): return A()", "assert sorted(f(1)) == [1, 2]"),
    "object_in_a_list": ("class A:\n    def __len__(s): return 3\ndef f(x): return [A()]", "assert len(f(1)[0]) == 3"),
    "name_of_a_builtin_bound_by_the_tests": ("def f(x): return x", "sum = 3\nassert f(sum) == 3"),
    "function_as_an_argument": ("def f(g): return g([1, 2])", "assert f(len) == 2\nassert f(sum) == 3"),
    "order_of_a_set_of_numbers": ("def f(s): return list(s)", "s = {15, 10, 2, 18, 33, 64, 1}\nassert f({15, 10, 2, 18, 33, 64, 1}) == list(s)"),
}  # fmt: skip


def test_literal_asserts_mean_what_they_mean_in_python(sandbox):
    for program, test in SAME_AS_PYTHON.values():
        exec(program + "\n" + test, {})
    assert not_among(judged_each(sandbox, SAME_AS_PYTHON), "passed") == {}


def test_a_function_check_that_nothing_calls_does_not_fail_every_program(sandbox):
    """Without an entry point the asserts beside it count; called from another function, it counts where it runs."""
    uncalled = "def check(candidate):\n    assert candidate(1) == 5\n" + LOOPED
    nested = "def check(c):\n    for x in (1, 2):\n        assert c(x) == x + 1\ndef run():\n    check(f)\nrun()\n"
    never_run = "def run():\n    check(f)\ndef check(c):\n    for x in (1, 2):\n        assert c(x) == x + 1\n"
    for test, entry_point in ((uncalled, None), (nested, None), (nested, "f"), (never_run, "f")):
        check = AssertTests(test, entry_point)
        right, wrong = sandbox.judge_many([(ADDS_ONE, check), ("def f(x): return x + 2", check)])
        assert (right.verdict, wrong.verdict) == ("passed", "wrong_answer"), test


EXPECTS_A_STOP = {
    "handler": "def raises():\n    try:\n        f(2)\n    except StopIteration:\n        return True\nassert raises()\n",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        with self.assertRaises(StopIteration):\n            f(2)\n        self.assertRaises(StopIteration, f, 2)\n",
}


def test_a_test_that_expects_stop_iteration_can_pass(sandbox):
    stops = "def f(x):\n    if x == 2: raise StopIteration\n    return x + 1\n"
    wrong = [stops.replace("StopIteration", "RuntimeError"), ADDS_ONE]
    cases = {(program, name): (program, test) for program in [stops, *wrong] for name, test in EXPECTS_A_STOP.items()}
    passed = {how for how, outcome in judged_each(sandbox, cases).items() if outcome.passed}
    assert passed == {(stops, name) for name in EXPECTS_A_STOP}
