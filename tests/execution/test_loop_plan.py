"""Loops over literal cases need no grader, and every program gets the verdict that a grader gives."""

from __future__ import annotations

import ast

from support.named_jobs import judge_named

from lit_rl.data.mbpp import MBPPPlus
from lit_rl.data.mbpp_plus import plain_test
from lit_rl.execution import AssertTests
from lit_rl.execution.judging.asserts.assert_plan import plan_asserts

IS_FLOATS = """
def is_floats(value) -> bool:
    if isinstance(value, float):
        return True
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, float) for item in value)
    if isinstance(value, np.ndarray):
        return value.dtype == np.float64 or value.dtype == np.float32
    return False
"""
ASSERTIONS = {
    "as_is": """
def assertion(result, wanted, slack):
    if slack == 0 and is_floats(wanted):
        slack = 1e-6
    if result != wanted and slack != 0:
        assert np.allclose(result, wanted, rtol=1e-07, atol=slack)
    else:
        assert result == wanted, f"{result} instead of {wanted}"
""",
    "in_a_variable": """
def assertion(result, wanted, slack):
    exact_match = result == wanted
    if slack == 0 and is_floats(wanted):
        slack = 1e-6
    if not exact_match and slack != 0:
        assert np.allclose(result, wanted, rtol=1e-07, atol=slack)
    else:
        assert exact_match
""",
    "as_sets": """
def assertion(result, wanted, slack):
    if slack == 0 and is_floats(wanted):
        slack = 1e-6
    result = set(result)
    wanted = set(wanted)
    if result != wanted and slack != 0:
        assert np.allclose(result, wanted, rtol=1e-07, atol=slack)
    else:
        assert result == wanted, f"{result} instead of {wanted}"
""",
    "as_truth": """
def assertion(result, wanted, slack):
    if isinstance(result, bool):
        exact_match = result == wanted
    else:
        exact_match = wanted == (result is not None)
""",
}
LOOP = "for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion({function}(*inp), exp, {slack})\n"


def evalplus(kind: str, inputs: object, results: object, slack: object = 0) -> str:
    """A test as EvalPlus writes it, as the DataModules hand it on."""
    head = f"import numpy as np\nfrom math import inf\n{IS_FLOATS}{ASSERTIONS[kind]}\n"
    return plain_test(f"{head}\ninputs = {inputs!r}\nresults = {results!r}\n{LOOP.format(function='f', slack=slack)}")


def in_check(test: str) -> str:
    """The same inside ``check(candidate)``, as HumanEval+ has it."""
    head, found, cases = test.partition("\ninputs = ")
    lines = (found + cases).strip("\n").replace("f(*inp)", "candidate(*inp)").split("\n")
    return head + "\ndef check(candidate):\n" + "".join(f"    {line}\n" for line in lines)


def for_a_grader(test: str) -> str:
    """The same test with a statement that no plan has; it does nothing."""
    return f"{test}\nif False:\n    pass\n"


def disagreements(sandbox, cases: dict[object, tuple[str, str, str]]) -> dict[object, list[str]]:
    """Cases, by name a program, a test and a verdict, in which plan or grader say otherwise, with what both say."""
    jobs = {}
    for name, (program, test, _) in cases.items():
        graded = for_a_grader(test)
        assert plan_asserts(test, "f") is not None and plan_asserts(graded, "f") is None, name
        jobs[name, "plan"] = program, AssertTests(test, "f", SECONDS)
        jobs[name, "grader"] = program, AssertTests(graded, "f", SECONDS)
    outcomes = judge_named(sandbox, jobs)
    found = {name: [str(outcomes[name, how].verdict) for how in ("plan", "grader")] for name in cases}
    return {name: both for name, both in found.items() if set(both) != {cases[name][2]}}


SECONDS = 0.3
OBJECT = "class A:\n    def __eq__(s, o): return True\n    def __hash__(s): return 1\n"
FLOATS = ([[1], [2]], [0.5, 2.0], 0)
SLACK = ([[1], [2]], [1000.0, 2000], 0.0001)
LISTS = ([[1], [2]], [[0.5, 1.5], [1.0, 2.0]], 0)
DEEP = ([[1], [2]], [[(1, [2, {3: "a"}])], []], 0)
SETS = ([[1], [2]], [(1, 2), ()], 0)
TRUTH = ([["a"], ["b"]], [True, False], 0)
# kind of helper, cases, program, verdict
PROGRAMS = {
    "right": ("as_is", DEEP, "def f(x): return [(1, [2, {3: 'a'}])] if x == 1 else []", "passed"),
    "list for a tuple": ("as_is", DEEP, "def f(x): return [[1, [2, {3: 'a'}]]] if x == 1 else []", "wrong_answer"),
    "wrong at the last": ("as_is", DEEP, "def f(x): return [(1, [2, {3: 'a'}])]", "wrong_answer"),
    "float": ("as_is", FLOATS, "def f(x): return [0.5, 2.0][x - 1]", "passed"),
    "float within": ("as_is", FLOATS, "def f(x): return [0.5, 2.0][x - 1] + 1.0e-6", "passed"),
    "float beyond": ("as_is", FLOATS, "def f(x): return [0.5, 2.0][x - 1] + 1.3e-6", "wrong_answer"),
    "inf": ("as_is", FLOATS, "def f(x): return float('inf')", "wrong_answer"),
    "complex": ("as_is", FLOATS, "def f(x): return complex([0.5, 2.0][x - 1], 1e-9)", "passed"),
    "slack within": ("as_is", SLACK, "def f(x): return x * 1000.0001", "passed"),
    "slack beyond": ("as_is", SLACK, "def f(x): return x * 1000.001", "wrong_answer"),
    "floats in a list": ("as_is", LISTS, "def f(x): return [x / 2, x / 2 + 1 + 1e-7]", "passed"),
    "too few floats": ("as_is", LISTS, "def f(x): return [x / 2]", "wrong_answer"),
    "object that equals all": ("as_is", FLOATS, f"{OBJECT}def f(x): return A()", "wrong_answer"),
    "difference of nothing": (
        "as_is",
        LISTS,
        "class A:\n    def __sub__(s, o): return 0\ndef f(x): return [A(), A()]",
        "wrong_answer",
    ),
    "object with items": (
        "as_is",
        LISTS,
        "class A(list):\n    def __eq__(s, o): return False\ndef f(x): return A([x / 2, x / 2 + 1])",
        "passed",
    ),
    "object like a list": (
        "as_is",
        LISTS,
        "class A:\n    def __init__(s, x): s.x = x\n    def __len__(s): return 2\n"
        "    def __iter__(s): return iter([s.x / 2, s.x / 2 + 1])\ndef f(x): return A(x)",
        "wrong_answer",
    ),
    "objects like lists in a list": (
        "as_is",
        ([[1], [2]], [[[[1.5, 2.0]]], [[[2.5, 2.0]]]], 0.0001),
        "class A:\n    def __init__(s, x): s.x = x\n    def __len__(s): return 2\n"
        "    def __iter__(s): return iter([s.x + 0.5, 2.0])\ndef f(x): return [[A(x)]]",
        "wrong_answer",
    ),
    "variable beyond": ("in_a_variable", FLOATS, "def f(x): return [0.5, 2.0][x - 1] + 1e-5", "wrong_answer"),
    "set in any order": ("as_sets", SETS, "def f(x): return [2, 1, 2] if x == 1 else set()", "passed"),
    "generator": ("as_sets", SETS, "def f(x): return (y for y in ((2, 1) if x == 1 else ()))", "passed"),
    "set that lacks one": ("as_sets", SETS, "def f(x): return [2] if x == 1 else ()", "wrong_answer"),
    "unhashable items": ("as_sets", SETS, "def f(x): return [[1], [2]]", "wrong_answer"),
    "object as a set": (
        "as_sets",
        SETS,
        "class A:\n    def __init__(s, x): s.x = x\n    def __iter__(s): return iter((1, 2) if s.x == 1 else ())\n"
        "def f(x): return A(x)",
        "passed",
    ),
    "match": ("as_truth", TRUTH, "import re\ndef f(x): return re.match('a', x)", "passed"),
    "exception": ("as_is", FLOATS, "def f(x): return [0.5][x - 1]", "exception"),
    "exits": ("as_is", FLOATS, "import os\ndef f(x): return 0.5 if x == 1 else os._exit(0)", "exception"),
    "no python": ("as_is", FLOATS, "def f(x) return 0.5", "syntax_error"),
    "ends once": ("as_is", FLOATS, "def f(x):\n    while x == 2: pass\n    return 0.5", "timed_out"),
    "bends a builtin": (
        "as_is",
        FLOATS,
        "import builtins\nbuiltins.abs = lambda x: 0\ndef isinstance(*a): return True\n"
        "def is_floats(x): return True\ndef assertion(*a): pass\nclass np: pass\ndef f(x): return 7.0",
        "wrong_answer",
    ),
    "changes what it is given": (
        "as_is",
        ([[[3, 1]], [[2]]], [4, 2], 0),
        "def f(x):\n    s = sum(x)\n    x.clear()\n    return s",
        "passed",
    ),
}


def test_plan_and_grader_agree(sandbox):
    cases = {}
    for number, (name, (kind, values, program, verdict)) in enumerate(PROGRAMS.items()):
        test = evalplus(kind, *values)
        cases[name] = program, in_check(test) if number % 3 == 0 else test, verdict
    assert disagreements(sandbox, cases) == {}


PLAIN = {
    "pairs": "for x, y in [(1, 2), (2, 3)]:\n    assert f(x) == y",
    "two asserts": "for x in [1, 2]:\n    assert f(x) > x\n    assert f(x) - 1 == x, 'no'",
    "names": "xs = [1, 2]\nys = [2, 3]\nfor x, y in zip(xs, ys):\n    assert f(x) == y",
    "numbered": "for i, x in enumerate([1, 2]):\n    assert f(x) == x + 1",
    "a constant": "wanted = 3\nassert f(1) == 2\nassert f(2) == wanted",
    "containers": "for x in [1, 2]:\n    assert [f(x), {x: f(x)}] == [x + 1, {x: x + 1}]",
}


BODIES = {
    "return x + 1": "passed",
    "return x + 1 if x == 1 else 0": "wrong_answer",
    "return str(x + 1)": "wrong_answer",  # of "two asserts", too: '2' > 1 has no answer
    "return 2 if x == 1 else [][x]": "exception",
    "while x == 2: pass\n    return 2": "timed_out",
}


def test_plain_loops_agree(sandbox):
    programs = {body: f"def f(x):\n    {body}\n" for body in BODIES}
    bodies = {name: list(BODIES)[:2] for name in PLAIN} | {"two asserts": BODIES}
    cases = {(name, body): (programs[body], PLAIN[name], BODIES[body]) for name in PLAIN for body in bodies[name]}
    assert disagreements(sandbox, cases) == {}


GRADED = {
    "else": "for x in [1]:\n    assert f(x) == 2\nelse:\n    assert f(2) == 4",
    "condition": "for x in [1, 2]:\n    if x > 1:\n        assert f(x) == 3",
    "range": "for x in range(3):\n    assert f(x) == x + 1",
    "list of the program": "for x in f(1):\n    assert f(x) == 2",
    "name after its loop": "for x in [1, 2]:\n    assert f(x) == x + 1\nassert f(1) == x",
    "name bound after check": "xs = [1]\ndef check(c):\n    for x in xs:\n        assert c(x) == 3\nxs = [2]",
    "name of the function": "for f in [1]:\n    assert f == 1\nassert f(1) == 2",
    "name of a builtin": "for len in [[1]]:\n    assert f(1) == 2",
    "strict zip": "for x, y in zip([1], [2], strict=True):\n    assert f(x) == y",
    "unequal unpacking": "for x, y in [(1, 2), (1, 2, 3)]:\n    assert f(x) == y",
    "nothing at all": "for x in []:\n    assert f(x) == 2",
    "method": "seen = [1]\nseen.append(2)\nassert f(1) == seen[1]",
    "foreign module": "import nothing_of_this_name\nfor x in [1]:\n    assert f(x) == 2",
}


def test_other_loops_are_left_to_a_grader():
    assert [name for name, test in GRADED.items() if plan_asserts(test, "f") is not None] == []


def test_helpers_of_another_shape_are_left_to_a_grader():
    """One word changed anywhere, and nothing is known of the helpers any more."""
    test = evalplus("as_is", *FLOATS)
    assert plan_asserts(test, "f") is not None
    for old, new in (
        ("1e-6", "1e-5"),
        ("rtol=1e-07", "rtol=1e-06"),
        ("!= wanted and", "!= wanted or"),
        ("== wanted, f", "is wanted, f"),
        ("isinstance(item, float)", "isinstance(item, int)"),
        ("    return False\n", "    return True\n"),
        ("all(isinstance", "any(isinstance"),
        ("<= atol + rtol", "< atol + rtol"),
        (" or len(shapes) > 1", ""),
        ("float64 = ()", "float64 = (list,)"),
        ("def assertion(result, wanted, slack)", "def assertion(wanted, result, slack)"),
        ("def assertion(result, wanted, slack)", "def assertion(result, wanted, slack=0)"),
        ("def assertion", "@staticmethod\ndef assertion"),
        ("\ninputs =", "\nassertion = print\ninputs ="),
        ("\ninputs =", "\ndef assertion(a, b, c): pass\ninputs ="),
        ("\ninputs =", "\nimport math as np\ninputs ="),
        (", exp, 0)", ", exp)"),
        ("assertion(f(*inp), exp, 0)", "assertion(exp, f(*inp), 0)"),
        ("assertion(f(*inp), exp, 0)", "assertion(f(*inp), f(*inp), 0)"),
    ):
        assert test.count(old) >= 1
        assert plan_asserts(test.replace(old, new), "f") is None, (old, new)
    assert plan_asserts(test.replace("f(*inp)", "set(*inp)"), "set") is None  # their names would mean the program's


def test_an_expected_value_that_is_no_answer_is_left_to_a_grader():
    assert plan_asserts(evalplus("as_sets", [[1]], [[[1]]]), "f") is None  # a list in a set
    test = evalplus("as_is", [[1]], [1.0]).replace("from math import inf", "from math import nan")
    assert plan_asserts(test, "f") is not None
    assert plan_asserts(test.replace("results = [1.0]", "results = [nan]"), "f") is None  # nothing equals it


def test_plan_and_grader_agree_on_a_sample_of_mbpp_plus(real_data, sandbox):
    rows = MBPPPlus(str(real_data / "evalplus" / "MbppPlus-OriginFmt.jsonl.gz")).problems("test")
    problems = [problem for problem in rows if len(problem.check.test) < 20_000][::36]
    assert len(problems) > 7
    for problem in problems:
        function = problem.check.entry_point or "check"
        right = problem.reference
        lying = (
            f"{right}\nright = {function}\ncalls = []\ndef {function}(*args):\n"
            "    calls.append(1)\n    value = right(*args)\n    return [value, 'not'] if len(calls) == 2 else value\n"
        )
        if "def " + function in ast.unparse(ast.parse(right)):
            check = problem.check
            graded = AssertTests(for_a_grader(check.test), check.entry_point, check.timeout_seconds)
            for program, verdict in ((right, "passed"), (lying, None)):
                both = [o.verdict for o in sandbox.judge_many([(program, check), (program, graded)])]
                assert both[0] == both[1], (problem.task_id, both)
                assert (both[0] == "passed") == (verdict == "passed"), (problem.task_id, both)
