"""``lit-rl check-data``: a verdict first, faults grouped by cause, and an exit status."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lit_rl.cli.main
from lit_rl.cli.check_data import check_task
from lit_rl.cli.checked_data import TaskCheckResult
from lit_rl.data.rows import Row, RowError, parse_rows, read_rows
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests
from lit_rl.types import Problem

HEAD = "def f(x):\n"
BODY = "    y = x\n\n    return y + 1\n"


class Given(TaskDataModule):
    """A task of given problems."""

    def __init__(self, **given: Sequence[Problem]) -> None:
        super().__init__()
        self.given = given

    def load_problems(self, split: Split) -> list[Problem]:
        return list(self.given.get(split, ()))


def several(count: int, tested: str = "f", **changes: Any) -> list[Problem]:
    """Problems in completion form that ask for ``f(x) = x + 1`` and call a function of another name if asked to."""
    check = CallTests((((1,), 2),), tested, timeout_seconds=2.0)
    one = Problem("", HEAD, check, program_prefix=HEAD, reference=HEAD + BODY)
    return [replace(one, task_id=f"own/{number}", **changes) for number in range(count)]


def report_of(sandbox: Sandbox, **given: Sequence[Problem]) -> tuple[TaskCheckResult, list[str]]:
    findings = check_task(Given(**given), sandbox)
    return findings, findings.report_text().splitlines()


def test_the_verdict_and_the_counts_of_each_split_come_first(sandbox: Sandbox) -> None:
    held_out = [replace(several(1)[0], task_id="held_out"), replace(several(1, reference=None)[0], task_id="bare")]
    findings, report = report_of(sandbox, train=several(3), validation=held_out)
    assert findings.is_fine
    assert report[:4] == [
        "nothing wrong found: 4 of 4 references pass",
        "  train: 3 problems, 3 references pass, 0 without a reference that runs",
        "  validation: 2 problems, 1 references pass, 1 without a reference that runs",
        "  test: 0 problems, 0 references pass, 0 without a reference that runs",
    ]
    assert report[-1] == "calibrated time limit: 1 s per problem (5 x the slowest)"
    assert report_of(sandbox, train=several(2, reference=None))[1][0].endswith("nothing ran: no reference")
    assert not report_of(sandbox)[0].is_fine, "no problem at all"


CAUSES: dict[str, tuple[list[Problem], str, str]] = {
    "swapped tests": (
        several(9, "g"),
        "the reference ends with exception NameError: 9 problems",
        "  own/2: exception the program defines no g",
    ),
    "other answers": (
        several(2, reference=HEAD + "    return x\n"),
        "the reference ends with wrong_answer: 2 problems",
        "  own/0: wrong_answer f(1): 2, not 1",
    ),
    "a package": (
        several(2, reference="import numpy\n" + HEAD + BODY),
        "the reference ends with exception ModuleNotFoundError (--packages NAME permits a package here; set "
        "sandbox packages: [NAME] in a run): 2 problems",
        "  own/1: exception line 1 No module named 'numpy'",
    ),
    "a time-out": (
        several(1, reference="while True: pass", check=CallTests((((1,), 2),), "f", timeout_seconds=0.2)),
        "the reference ends with timed_out: 1 problems",
        "  train: 1 problems, 0 references pass, 0 without a reference that runs",
    ),
    "a public check": (
        several(2, public_check=CallTests((((1,), 3),), "f")),
        "under the public check, the reference ends with wrong_answer: 2 problems",
        "  own/0: wrong_answer f(1): 3, not 2",
    ),
}


@pytest.mark.parametrize("case", CAUSES)
def test_failing_references_are_grouped_by_how_they_end(case: str, sandbox: Sandbox) -> None:
    problems, *told = CAUSES[case]
    findings, report = report_of(sandbox, train=problems)
    assert not findings.is_fine and set(told) <= set(report), "\n".join(report)


def test_a_reference_with_future_imports_runs_behind_the_prefix_of_its_problem(sandbox: Sandbox) -> None:
    solution = f"from __future__ import annotations\n{HEAD}{BODY}"
    right = several(1, prompt="Finish.", program_prefix="import math\n", reference=f"import math\n{solution}")
    findings, report = report_of(sandbox, train=right)
    assert findings.is_fine, report


ALWAYS = AssertTests("assert f(1) is not 0", "f")
CAREFUL = HEAD + "    if x < 0: raise ValueError(x)\n    return x + 1\n"
WRONG: dict[str, tuple[list[Problem], str]] = {
    "a stub": (several(2, check=ALWAYS), "a stub"),
    "a stub that raises": (
        several(2, reference=CAREFUL, check=AssertTests(
            "try:\n    f(-1)\nexcept ValueError:\n    pass\nelse:\n    assert False\n", "f")),
        "a stub that raises",
    ),
    "all stubs": (
        several(2, prompt="Add.", program_prefix="", reference=CAREFUL, check=AssertTests(
            "try:\n    got = f(-1)\nexcept ValueError:\n    got = None\nassert got is None\n", "f")),
        "a stub and a stub that raises",
    ),
    "an empty program": (
        several(2, check=StdioTests((("1\n", ""),)), prompt="Print.", program_prefix="", reference="print('')"),
        "an empty program",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_tests_that_accept_a_wrong_program_are_named(case: str, sandbox: Sandbox) -> None:
    problems, what = WRONG[case]
    findings, report = report_of(sandbox, train=problems)
    for one in what.split(" and "):
        assert f"the tests accept {one}: 2 problems" in report
    assert not findings.is_fine
    assert [one.accepted_wrong_programs for one in findings.checked_problems if one.faults] == [what.split(" and ")] * 2


def test_a_reference_that_fails_its_own_tests_is_named_for_that_alone(sandbox: Sandbox) -> None:
    _, report = report_of(
        sandbox, train=several(2, reference=HEAD + "    return x\n", check=AssertTests("assert f(1) != 1", "f"))
    )
    assert not any("the tests accept" in line for line in report)


class OwnRows(TaskDataModule):
    """A task that parses rows as the guide says."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def load_problems(self, split: Split) -> list[Problem]:
        if split == "test":
            return []
        return list(parse_rows(read_rows(f"{self.path}/{split}.jsonl"), self.parse))

    def parse(self, row: Row) -> Problem:
        return replace(several(1)[0], task_id=row.text("id"), prompt=row.text("prompt"))


def test_the_first_row_that_makes_no_problem_is_named(tmp_path: Path, sandbox: Sandbox) -> None:
    rows = [json.dumps({"id": "1", "prompt": HEAD}), '{"id": "4"}', "{"]
    (tmp_path / "train.jsonl").write_text("\n".join(rows))
    with pytest.raises(RowError, match=r"train.jsonl, row 2, field 'prompt': is missing"):
        check_task(OwnRows(str(tmp_path)), sandbox)


SWAPPED = '''
from dataclasses import replace

from lit_rl.data import Basics


class Swapped(Basics):
    """The embedded task, half of it with the tests of the next problem."""

    def load_problems(self, split):
        rows = super().load_problems(split)
        half = len(rows) // 2
        return [replace(a, check=b.check) for a, b in zip(rows[:half], rows[1:])] + rows[half:]
'''


def test_the_command_ends_with_status_1_and_counts_the_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "swapped_of_my_own.py").write_text(SWAPPED)
    monkeypatch.chdir(tmp_path)
    sizes = ["--data.num_train_problems=26", "--data.num_validation_problems=2"]
    command = ["check-data", "--data=swapped_of_my_own.Swapped", *sizes, "--examples=1"]
    with pytest.raises(SystemExit) as left:
        lit_rl.cli.main.main(command)
    assert left.value.code == 1
    report = capsys.readouterr().out.splitlines()
    assert report[0] == "task Swapped"
    (faults,) = re.findall(r"something is wrong: (\d+) of 28 problems", report[1])
    assert 12 <= int(faults) <= 14
    assert report[2].startswith("  train: 26 problems, 13 references pass")
