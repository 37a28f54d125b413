"""Declarations of checks, and judging of a kind of check from outside the package."""

import importlib
import pickle
import re
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from lit_rl.data.numerical.build_check import BuildAndRun
from lit_rl.data.robots.robot_checks import InventedWorlds, RobotTest, RobotWorlds
from lit_rl.execution import (
    AssertTests,
    CallTests,
    Check,
    Checker,
    ReferenceText,
    Sandbox,
    StdioTests,
    TokenTarget,
    Verdict,
)
from lit_rl.execution.checks import COMPILE_SECONDS, MAX_COMPILATIONS
from lit_rl.execution.interface import WALL_FACTOR, WALL_SLACK_SECONDS

WORLD = RobotTest({}, False, [])
CHECKS = (
    AssertTests("assert f(1) == 2\nassert f(2) == 3", timeout_seconds=2.0),
    CallTests((((1,), 2), ((2,), 3), ((3,), 4)), "f", timeout_seconds=2.0),
    StdioTests((("1", "2"), ("2", "3")), timeout_seconds=2.0),
    StdioTests((("1", "2"),), "cpp", timeout_seconds=2.0),
    RobotWorlds((WORLD, WORLD), timeout_seconds=2.0),
    InventedWorlds(num_worlds=100, timeout_seconds=2.0),
    BuildAndRun("/tree", "a.cpp", 1, 2, build_seconds=120.0, run_seconds=60.0),
    ReferenceText("int x;", "c"),
    TokenTarget((1, 2)),
)
RUN = CHECKS[:7]


def test_bytes_that_are_not_utf_8_may_be_read_and_printed(sandbox: Sandbox) -> None:
    text = b"\xff\n".decode("utf-8", "surrogateescape")
    program = "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())"
    outcomes = sandbox.judge_many([(program, StdioTests(((text, one),))) for one in (text, "\n")])
    assert [outcome.verdict for outcome in outcomes] == [Verdict.PASSED, Verdict.WRONG_ANSWER]


def test_every_check_is_plain_data_that_knows_its_tests_and_language() -> None:
    for check in CHECKS:
        again = pickle.loads(pickle.dumps(check))
        assert isinstance(check, Check) and again == check and type(again) is type(check)
        assert check.runs_program is (check in RUN)
    assert [check.num_tests for check in CHECKS] == [2, 3, 2, 1, 2, 100, 0, 0, 0]
    languages = ["python"] * 3 + ["cpp"] + ["python"] * 2 + ["lines of a.cpp", "c", "python"]
    assert [check.language for check in CHECKS] == languages
    assert AssertTests("for x in (1, 2): assert f(x) == x").num_tests == 2
    # Asserts that cannot be counted are one test.
    assert AssertTests("for x in f(2): assert x").num_tests == 1
    assert AssertTests("def check(f):\n    assert f(1)\n    assert f(2)\n", "f").num_tests == 2
    assert AssertTests("assert (").num_tests == 1


def test_the_wall_budget_is_the_sum_of_the_limits() -> None:
    one = WALL_FACTOR * 2.0 + WALL_SLACK_SECONDS
    compiling = MAX_COMPILATIONS * (WALL_FACTOR * COMPILE_SECONDS + WALL_SLACK_SECONDS)
    built = 3 * 120.0 + 2 * 60.0
    assert [check.wall_budget_seconds for check in CHECKS] == [
        one, 3 * one, 2 * one, one + compiling, 2 * one, 100 * one, built, 0.0, 0.0,
    ]  # fmt: skip


def test_a_check_finds_the_program_in_a_completion() -> None:
    text = "First:\n```python\nx = 1\n```\nBetter:\n```\ny = 2\n```\n"
    found = {type(check).__name__: check.extract(text) for check in CHECKS}
    assert found["TokenTarget"] is None
    robots = {"RobotWorlds", "InventedWorlds"}
    assert {name for name, one in found.items() if one and one.source == "x = 1\n"} == robots
    assert sum(one is not None and one.source == "y = 2\n" for one in found.values()) == len(found) - 3


PAGE = (Path(__file__).parents[2] / "docs" / "sandbox.md").read_text()
OWN_CHECK = PAGE.split("```python\n")[1].split("```")[0]
OTHERS = """

@dataclass(frozen=True)
class Unjudged(Check):
    judged_by: ClassVar[str] = "own_twice:no_such_judge"


@dataclass(frozen=True)
class Unsendable(Check):
    judged_by: ClassVar[str] = "own_twice:judge_twice"

    @property
    def stdin(self):
        return ""

    def __reduce__(self):
        raise ValueError("not me")


@dataclass(frozen=True)
class Elsewhere(Check):  # in a module that only this process has
    judged_by: ClassVar[str] = "no_such_module:judge"


import sys, types
Elsewhere.__module__ = "no_such_module"
sys.modules["no_such_module"] = types.ModuleType("no_such_module")
sys.modules["no_such_module"].Elsewhere = Elsewhere
"""


def test_a_kind_of_check_from_outside_is_one_class_and_one_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_twice.py").write_text(OWN_CHECK + OTHERS)
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("own_twice")
    try:
        jobs = [
            ("print(input())", own.Twice("7"), Verdict.PASSED, ""),
            ("import time\nprint(time.time_ns())", own.Twice("7"), Verdict.WRONG_ANSWER, ""),
            ("print(1)", own.Unjudged(), Verdict.INFRASTRUCTURE_FAILURE, "no_such_judge"),
            ("print(1)", own.Unsendable(), Verdict.INFRASTRUCTURE_FAILURE, "Unsendable must hold plain data"),
            ("print(1)", own.Elsewhere(), Verdict.INFRASTRUCTURE_FAILURE, "no_such_module"),
            ("print(1)", StdioTests((("", "1"),)), Verdict.PASSED, ""),
        ]
        with Sandbox(num_workers=1, tier=0) as sandbox:
            outcomes = sandbox.judge_many([(program, check) for program, check, _, _ in jobs])
    finally:
        del sys.modules["own_twice"], sys.modules["no_such_module"]
    for (_, check, verdict, told), outcome in zip(jobs, outcomes, strict=True):
        assert outcome.verdict is verdict and told in outcome.stderr, (check, outcome)


CASES = (("", ""),)
CALLS = (((1,), 2),)
NO_SENSE = [
    (lambda: StdioTests(()), "StdioTests.cases: expected a tuple of at least one case, got ()"),
    (lambda: StdioTests((("", ["YES", "NO"]),)), "StdioTests.cases[0]: expected two texts"),
    (lambda: StdioTests((("", ("a", "\ud83d")),)), "StdioTests.cases[0]: expected two texts"),
    (lambda: CallTests(((1, 2),), "f"), "CallTests.cases[0]: expected (arguments, expected) with"),
    (lambda: CallTests(CALLS, ""), "CallTests.entry_point: expected a function or Class.method"),
    (lambda: Checker(" "), "Checker.source: expected the text of a program"),
    (lambda: StdioTests(CASES, "cobol"), "StdioTests.language: expected one of python, c, cpp,"),
    (lambda: StdioTests(CASES, compare="words"), "StdioTests.compare: expected one of lines, decimals, tokens"),
    (lambda: StdioTests(CASES, grades=(("all", 2),)), "StdioTests.grades: expected different names"),
    (lambda: RobotWorlds(()), "RobotWorlds.tests: expected at least one, got ()"),
    (lambda: BuildAndRun("t", "f", 1, 1, weights=(0, 0, 0, 0)), "BuildAndRun.weights: expected numbers of at least 0"),
    (lambda: BuildAndRun("/t", "f", 1, 1, readable=("/t/data",)), "outside its tree"),
]


def test_values_that_make_no_sense_are_refused_in_one_line() -> None:
    for make, message in NO_SENSE:
        with pytest.raises(ValueError, match=re.escape(message)) as raised:
            make()
        assert "\n" not in str(raised.value)


def test_time_limits_that_make_no_sense_are_refused() -> None:
    for check, seconds in product(CHECKS[:4], (0, -1.0, float("nan"), float("inf"), "2", None)):
        with pytest.raises(ValueError, match=f"{type(check).__name__}.timeout_seconds: expected a finite number"):
            replace(check, timeout_seconds=seconds)
