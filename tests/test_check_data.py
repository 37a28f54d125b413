"""``lit-rl check-data``: a verdict first, faults grouped by cause, what to do, and an exit status."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lit_rl.cli.main
from lit_rl.cli.check_data import check_task
from lit_rl.cli.data_check.findings import Findings
from lit_rl.data.prompts import chat, fenced
from lit_rl.data.rows import Row, RowError, parse_rows, read_rows
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution import AssertTests, CallTests, Checker, Sandbox, StdioTests
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


def in_chat(count: int, stop: str) -> list[Problem]:
    asked = chat(f"Finish this.\n{fenced(HEAD)}")
    return several(count, prompt=asked, program_prefix="", stop_strings=(stop,))


@pytest.fixture(scope="module")
def sandbox() -> Any:
    with Sandbox(num_workers=2) as running:
        yield running


def report_of(sandbox: Sandbox, num_examples: int = 3, **given: Sequence[Problem]) -> tuple[Findings, list[str]]:
    findings = check_task(Given(**given), sandbox)
    return findings, findings.report(num_examples).splitlines()


def test_the_verdict_and_the_counts_of_each_split_come_first(sandbox: Sandbox) -> None:
    held_out = [replace(several(1)[0], task_id="held_out")]
    findings, report = report_of(sandbox, train=several(3), validation=held_out)
    assert findings.fine
    assert report[:4] == [
        "nothing wrong found: 4 of 4 references pass",
        "  train: 3 problems, 3 references pass",
        "  validation: 1 problem, 1 reference passes",
        "  test: no problems",
    ]
    assert report[-1] == "what to do: nothing"


def test_swapped_tests_are_one_group_that_names_both_functions(sandbox: Sandbox) -> None:
    held_out = [replace(several(1)[0], task_id="held_out")]
    findings, report = report_of(sandbox, train=several(9, "g"), validation=held_out)
    assert not findings.fine
    assert report[:9] == [
        "something is wrong with 9 of 10 problems: 1 of 10 references pass",
        "  train: 9 problems, 0 references pass, 9 fail",
        "  validation: 1 problem, 1 reference passes",
        "  test: no problems",
        "the tests call `g`, the prompt asks for `f`: 9 problems (train)",
        "  own/0: exception NameError (the program defines no g)",
        "  own/1: exception NameError (the program defines no g)",
        "  own/2: exception NameError (the program defines no g)",
        "  and 6 more: --examples 9 shows all, --output FILE writes them",
    ]
    assert report[-1].startswith("what to do: bring prompts, references and tests of the same problem together")
    failed_and_slowest = [line for line in findings.report(num_examples=9).splitlines() if line.startswith("  ")][3:]
    assert sum(("own/" in line) or ("held_out" in line) for line in failed_and_slowest) == 9 + 5, "and 5 slowest"


STDIO = StdioTests((("", "1.50\n"),))
CHECKER = Checker("import sys\n_, printed, _ = map(open, sys.argv[1:])\nassert printed.read() == '1.50\\n'", "python")
CAUSES: dict[str, tuple[list[Problem], str, str]] = {
    "other answers": (
        several(2, reference=HEAD + "    return x\n"),
        "the tests expect other answers than the reference gives: 2 problems (train)",
        "  own/0: wrong_answer (f(1): 2, not 1)",
    ),
    "a looser rule": (
        several(2, prompt="Print it.", program_prefix="", check=STDIO, reference="print('1.5')"),
        "the output is right only with compare: decimals: 2 problems (train)",
        "what to do: set compare: decimals for these rows or for the task",
    ),
    "a checker that fails": (
        several(1, prompt="Print it.", program_prefix="", check=replace(STDIO, checker=CHECKER), reference="print(1)"),
        "the checker fails on the output of the reference (the checker failed: it ended with AssertionError): "
        "1 problem (train)",
        "  own/0: wrong_answer CheckerFailed (the checker failed: it ended with AssertionError)",
    ),
    "a package": (
        several(2, reference="import numpy\n" + HEAD + BODY),
        "the reference imports numpy, which programs may not import: 2 problems (train)",
        "what to do: give --packages NAME here and packages: [NAME] to the run's sandbox, or leave these rows out",
    ),
    "an exception": (
        several(2, reference=HEAD + "    return x + y\n"),
        "the reference ends with NameError: 2 problems (train)",
        "  own/0: exception NameError line 2 (name 'y' is not defined)",
    ),
    "a time-out": (
        several(1, reference="while True: pass", check=CallTests((((1,), 2),), "f", timeout_seconds=0.2)),
        "the reference takes longer than the time limit: 1 problem (train)",
        "what to do: raise the task's timeout_seconds",
    ),
    "tests with an unknown name": (
        several(1, check=AssertTests("for x in (1,):\n    assert f(x) == 2\nassert f(1) == expected", "f")),
        "the tests use a name that neither they nor the reference define: 1 problem (train)",
        "what to do: complete these tests or leave the rows out",
    ),
    "bare asserts of another function": (
        several(2, check=AssertTests("assert list(map(int, [g(1)])) == [2]")),
        "the tests call `g`, the prompt asks for `f`: 2 problems (train)",
        "  own/0: exception NameError (the tests use g, which neither they nor the program define)",
    ),
    "a public check": (
        several(2, public_check=CallTests((((1,), 3),), "f")),
        "under the public check, the tests expect other answers than the reference gives: 2 problems (train)",
        "  own/0: wrong_answer (f(1): 3, not 2)",
    ),
    "no problems at all": (
        [],
        "something is wrong: no split has a problem",
        "what to do: see that load_problems returns problems for train or validation, and that its paths are right",
    ),
}


@pytest.mark.parametrize("case", CAUSES)
def test_each_cause_is_told_with_what_to_do(case: str, sandbox: Sandbox) -> None:
    problems, *told = CAUSES[case]
    findings, report = report_of(sandbox, train=problems)
    assert not findings.fine
    for line in told:
        assert line in report, "\n".join(report)


def test_a_reference_with_future_imports_runs_behind_the_prefix_of_its_problem(sandbox: Sandbox) -> None:
    solution = f"from __future__ import annotations\n{HEAD}{BODY}"
    right = several(1, prompt="Finish.", program_prefix="import math\n", reference=f"import math\n{solution}")
    findings, report = report_of(sandbox, train=right)
    assert findings.fine, report


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
    "the reference of another problem": (
        [
            several(1, prompt="At least.", program_prefix="", reference="def f(x):\n    return max(x, 2)\n",
                    check=CallTests((((3,), 3),), "f"))[0],
            replace(several(1, prompt="It.", program_prefix="", reference="def g(x):\n    return x\n",
                            check=CallTests((((3,), 3), ((1,), 1)), "g"))[0], task_id="other"),
        ],
        "the reference of another problem",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_tests_that_accept_a_wrong_program_are_named(case: str, sandbox: Sandbox) -> None:
    problems, what = WRONG[case]
    findings, report = report_of(sandbox, train=problems)
    faulty = 1 if "another" in what else 2
    assert f"the tests accept a wrong program, {what}: {faulty} problem{'s' * (faulty > 1)} (train)" in report
    assert not findings.fine and report[-1].startswith("what to do: add cases")
    assert [row["accepts"] for row in findings.rows()] == [
        ["the reference of other"] if faulty == 1 else what.split(" and ")
    ] * faulty


def test_problems_that_ask_for_the_same_and_tests_that_fail_are_not_accused(sandbox: Sandbox) -> None:
    """Each reference solves the other problem; a reference that fails its own tests is named for that alone."""
    same = [
        replace(one, reference=HEAD + body) for one, body in zip(several(2), (BODY, "    return 1 + x\n"), strict=True)
    ]
    assert report_of(sandbox, train=same)[0].fine
    _, report = report_of(
        sandbox, train=several(2, reference=HEAD + "    return x\n", check=AssertTests("assert f(1) != 1", "f"))
    )
    assert not any("accept a wrong program" in line for line in report)


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


def test_malformed_rows_are_counted_by_cause_and_split_and_the_others_are_checked(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    good = [json.dumps({"id": str(i), "prompt": HEAD}) for i in range(3)]
    bad = ['{"id": 3, "prompt": "x"}', '{"id": "4"}', '{"id": "5"}', "{", "[]"]
    (tmp_path / "train.jsonl").write_text("\n".join([good[0], *bad, good[1]]))
    (tmp_path / "validation.jsonl").write_text("\n".join([bad[1], good[2]]))
    findings = check_task(OwnRows(str(tmp_path)), sandbox)
    report = findings.report(1).splitlines()
    assert not findings.fine
    assert report[:3] == [
        "something is wrong: 6 rows that make no problem; 3 of 3 references pass",
        "  train: 2 problems, 2 references pass, 5 rows unread",
        "  validation: 1 problem, 1 reference passes, 1 row unread",
    ]
    assert "field 'prompt' is missing: 2 rows (train), 1 row (validation)" in report
    assert {
        "field 'id' needs text: 1 row (train)",
        "broken JSON: 1 row (train)",
        "needs a JSON object: 1 row (train)",
    } <= {*report}
    assert report[-1].startswith("what to do: correct or remove the rows")
    with pytest.raises(RowError, match="row 2"):
        OwnRows(str(tmp_path)).problems("train")


CUT: dict[str, tuple[list[Problem], str | None]] = {
    "inside the reference": (several(3, stop_strings=("\n\n",)), r"'\n\n'"),
    "after the end": (several(3, reference=HEAD + BODY + "\nprint(1)\n", stop_strings=("\nprint",)), None),
    "inside a demonstration": (
        several(3, reference=None, fields={"demonstration": BODY}, stop_strings=("return",)),
        "'return'",
    ),
    "inside the answer of a chat": (in_chat(3, "\n\n"), r"'\n\n'"),
    "at the opening fence of a chat": (in_chat(3, "```"), "'```'"),
}


@pytest.mark.parametrize("case", CUT)
def test_a_stop_string_that_cuts_right_answers_is_named(case: str, sandbox: Sandbox) -> None:
    problems, string = CUT[case]
    findings, report = report_of(sandbox, train=problems, validation=several(1)[:0])
    if string is None:
        assert findings.fine, report
        return
    assert f"the stop string {string} occurs inside right answers and cuts them: 3 problems (train)" in report
    assert report[0].startswith("something is wrong with 3 of 3 problems")
    assert report[-1] == f"what to do: take {string} out of the problems' stop_strings: an answer ends before it"


def test_data_without_references_is_said_to_be_unchecked(sandbox: Sandbox) -> None:
    findings, report = report_of(sandbox, train=several(2, reference=None), validation=several(1))
    assert findings.fine and report[:3] == [
        "nothing wrong found: 1 of 1 references pass",
        "  train: 2 problems, 2 without a reference that runs",
        "  validation: 1 problem, 1 reference passes",
    ]
    findings, report = report_of(sandbox, train=several(2, reference=None))
    assert findings.fine
    assert report[0] == "nothing wrong found, but nothing ran: no problem of this task has a reference solution"
    assert report[-1].startswith("what to do: nothing; fill in Problem.reference")


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


def test_the_command_ends_with_status_1_and_writes_a_row_for_each_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "swapped_of_my_own.py").write_text(SWAPPED)
    monkeypatch.chdir(tmp_path)
    sizes = ["--data.num_train_problems=26", "--data.num_validation_problems=2"]
    command = ["check-data", "--data=swapped_of_my_own.Swapped", *sizes, "--examples=1", "--output=faults.jsonl"]
    with pytest.raises(SystemExit) as left:
        lit_rl.cli.main.main(command)
    assert left.value.code == 1
    report = capsys.readouterr().out.splitlines()
    rows = [json.loads(line) for line in (tmp_path / "faults.jsonl").read_text().splitlines()]
    assert report[0] == "task Swapped"
    assert report[1].startswith(f"something is wrong with {len(rows)} of 28 problems") and 12 <= len(rows) <= 14
    assert report[2] == f"  train: 26 problems, {26 - 13} references pass, 13 fail"
    assert {"task_id", "verdict", "splits", "causes", "stderr"} <= rows[0].keys()
    assert "calls another" not in "".join(report) and rows[0]["causes"][0].startswith("the tests call `")
