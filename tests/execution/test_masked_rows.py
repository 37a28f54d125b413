# ruff: noqa: E501 - one case a line
"""Whose fault an error is: before the first use of the program the tests', from then on the program's, whatever it is.

An infrastructure failure leaves baseline and loss, so nothing that a program does may decide whether its row is one.
Each case is one line: a name and a test here, a name, a program and a test in ``programs_at_fault.py``.
"""

import pytest
from programs_at_fault import IN_PLACE, LOOP, OBJECTS, OF_THE_PROGRAM, UNIT
from support.named_jobs import among, judge_named, not_among
from support.slow_cases import slow_but

from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests, Verdict

# fmt: off
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
}
WORLD = {"locations": ["hall"], "objects": {}, "agents": {}, "robot_location": "hall"}
# Each with a last line that calls ``f``, where the check itself does not.
OTHER_CHECKS = {
    "stdio": (StdioTests((("4\n", "right\n"),), timeout_seconds=0.5), "f(1)"),
    "calls": (CallTests((((1,), 2.75),), "f", 0.5), ""),
    "asserts": (AssertTests("assert f(1) == 2.75\nassert f(5) == 6.75\n", None, 0.5), ""),
    "hosted": (RobotWorlds((RobotTest(WORLD, False, ["exists", "trace", ["Say", "hi there"]]),), 0.5), "def task_program():\n    f(1)"),
}
# fmt: on
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
    """Outcomes of the programs that are alike to a broken test, by the test's name and the program's."""
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
