"""Tests of literal asserts need no grader, and every program gets the verdict that a grader gives."""

import pytest
from support.named_jobs import judge_named

from lit_rl.execution import AssertTests
from lit_rl.execution.judging.asserts.assert_plan import plan_asserts

PLANNED = {
    "pairs": "assert f(1) == 2\nassert f(2) > f(1)",
    "a constant": "wanted = 3\nassert f(1) == 2\nassert f(2) == wanted",
    "containers": "assert [f(1), {2: f(2)}] == [2, {2: 3}], 'no'",
    "isclose": "import math\nassert math.isclose(f(1), 2.0001, rel_tol=1e-3)\nassert f(2) == 3",
    "isclose by its name": "from math import isclose\nassert isclose(f(1), 2)\nassert isclose(3.01, f(2), abs_tol=0.1)",
    "check": "def check(candidate):\n    assert candidate(1) == 2\n    assert not candidate(2) < 3",
}
BODIES = {
    "return x + 1": "passed",
    "return x + 1 if x == 1 else 0": "wrong_answer",
    "return 2 if x == 1 else [][x]": "exception",
    "while x == 2: pass\n    return 2": "timed_out",
}


def test_plan_and_grader_agree(sandbox):
    programs = {body: f"def f(x):\n    {body}\n" for body in BODIES}
    jobs = {}
    for name, test in PLANNED.items():
        graded = f"{test}\nif False:\n    pass\n"
        assert plan_asserts(test, "f") is not None and plan_asserts(graded, "f") is None, name
        for body in BODIES if name == "isclose" else list(BODIES)[:2]:
            jobs[name, body, "plan"] = programs[body], AssertTests(test, "f", 0.3)
            jobs[name, body, "grader"] = programs[body], AssertTests(graded, "f", 0.3)
    outcomes = judge_named(sandbox, jobs)
    assert {key: str(outcome.verdict) for key, outcome in outcomes.items()} == {key: BODIES[key[1]] for key in jobs}


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [("2.0000001", "passed"), ("2.1", "wrong_answer"), ("10**400", "wrong_answer"), ("'2'", "wrong_answer")],
)
def test_isclose_decides_over_what_came_back(sandbox, answer, verdict):
    check = AssertTests("from math import isclose\nassert isclose(f(1), 2, rel_tol=1e-6)", "f")
    assert plan_asserts(check.test, "f") is not None
    program = f"import math\nmath.isclose = isclose = lambda *a, **b: True\ndef f(x):\n    return {answer}\n"
    assert sandbox.judge_many([(program, check)])[0].verdict == verdict


GRADED = {
    "loop": "for x in [1, 2]:\n    assert f(x) == x + 1",
    "condition": "if f(1):\n    assert f(1) == 2",
    "helper": "def same(a, b): assert a == b\nsame(f(1), 2)",
    "method": "seen = [1]\nseen.append(2)\nassert f(1) == seen[1]",
    "a module that is changed": "import math\nmath = f\nassert math.isclose(f(1), 2)",
    "isclose of another module": "from cmath import isclose\nassert isclose(f(1), 2)",
    "isclose that is not imported": "assert isclose(f(1), 2)",
    "isclose with a computed tolerance": "import math\nassert math.isclose(f(1), 2, rel_tol=f(0))",
    "another function of math": "import math\nassert math.floor(f(1)) == 2",
    "foreign module": "import nothing_of_this_name\nassert f(1) == 2",
    "name of the function": "f = 1\nassert f(1) == 2",
}


def test_other_tests_are_left_to_a_grader():
    assert [name for name, test in GRADED.items() if plan_asserts(test, "f") is not None] == []
