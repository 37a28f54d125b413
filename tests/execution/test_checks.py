"""What checks say of themselves, and how a kind of check from outside the package is judged."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from lit_rl.execution import (
    AssertTests,
    BuildAndRun,
    CallTests,
    Check,
    InventedWorlds,
    ReferenceText,
    RobotTest,
    RobotWorlds,
    Sandbox,
    StdioTests,
    TokenTarget,
    Verdict,
)
from lit_rl.execution.check_base import WALL_FACTOR, WALL_SLACK_SECONDS
from lit_rl.execution.checks import COMPILE_SECONDS

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


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: type(check).__name__)
def test_every_check_is_plain_data(check: Check) -> None:
    again = pickle.loads(pickle.dumps(check))
    assert isinstance(check, Check) and again == check and type(again) is type(check)
    assert check.runs_program is (check in RUN)


def test_checks_know_their_tests_and_language() -> None:
    assert [check.num_tests for check in CHECKS] == [2, 3, 2, 1, 2, 100, 0, 0, 0]
    assert [check.language for check in CHECKS] == ["python"] * 3 + ["cpp"] + ["python"] * 2 + [
        "lines of a.cpp",
        "c",
        "python",
    ]


def test_asserts_that_cannot_be_counted_are_one_test() -> None:
    assert AssertTests("for x in (1, 2): assert f(x) == x").num_tests == 1
    assert AssertTests("def check(f):\n    assert f(1)\n    assert f(2)\n", "f").num_tests == 2
    assert AssertTests("assert (").num_tests == 1


def test_the_wall_budget_is_the_sum_of_the_limits() -> None:
    one = WALL_FACTOR * 2.0 + WALL_SLACK_SECONDS
    compiling = WALL_FACTOR * COMPILE_SECONDS + WALL_SLACK_SECONDS
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


OWN_CHECK = '''
from dataclasses import dataclass
from typing import ClassVar

from lit_rl.execution.check_base import wall_limit
from lit_rl.execution.checks import Check, StdioTests
from lit_rl.execution.judging.stdio import judge_stdio


@dataclass(frozen=True)
class Twice(Check):
    """The program prints the same when it is run again."""

    stdin: str
    judged_by: ClassVar[str] = "own_twice:judge_twice"

    @property
    def num_tests(self):
        return 2

    @property
    def wall_budget_seconds(self):
        return 2 * wall_limit(1.0)


def judge_twice(client, program, check):
    first = judge_stdio(client, program, StdioTests(((check.stdin, ""),)))
    return judge_stdio(client, program, StdioTests(((check.stdin, first.stdout),)))


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
'''


def test_a_kind_of_check_from_outside_is_one_class_and_one_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_twice.py").write_text(OWN_CHECK)
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("own_twice")
    try:
        with Sandbox(num_workers=1, tier=0) as sandbox:
            outcomes = sandbox.judge_many(
                [
                    ("print(input())", own.Twice("7")),
                    ("import time\nprint(time.time_ns())", own.Twice("7")),
                    ("print(1)", own.Unjudged()),
                    ("print(1)", own.Unsendable()),
                    ("print(1)", StdioTests((("", "1"),))),
                ]
            )
    finally:
        del sys.modules["own_twice"]
    failed = Verdict.INFRASTRUCTURE_FAILURE
    assert [one.verdict for one in outcomes] == [Verdict.PASSED, Verdict.WRONG_ANSWER, failed, failed, Verdict.PASSED]
    assert "no_such_judge" in outcomes[2].stderr
    assert "Unsendable must hold plain data that pickles" in outcomes[3].stderr


def test_a_check_that_the_worker_cannot_import_is_named_and_spoils_no_other(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from dataclasses import dataclass\n"
        "from lit_rl.execution import Check, Sandbox, StdioTests\n"
        "@dataclass(frozen=True)\n"
        "class Here(Check):\n"
        "    judged_by = 'script:judge'\n"
        "with Sandbox(num_workers=1, tier=0) as sandbox:\n"
        "    good = StdioTests((('', '1'),))\n"
        "    for one in sandbox.judge_many([('print(1)', good), ('print(1)', Here()), ('print(1)', good)]):\n"
        "        print(one.verdict, one.stderr.splitlines()[-1:])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True)
    first, second, third = done.stdout.splitlines()
    assert first == third == "passed []"
    assert second.startswith("infrastructure_failure") and "Here" in second
