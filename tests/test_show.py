"""`lit-rl show` on recorded rollouts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.browser import browser
from support.recorded_runs import row, write_run

from lit_rl.cli.report import report_on_runs
from lit_rl.cli.show import show_recorded_completion
from lit_rl.run_files.files import ROLLOUTS_FILE, append_record_batch, read_rollouts
from lit_rl.run_files.row_text import KINDS, token_values_by_column

FAILED = {"stderr": "KeyError: 3", "line": 2, "exception_type": "KeyError", "cases": ["passed", "exception"]}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two rollouts; the best row is in the first one."""
    first = [
        row(0, "ab", 1.0),
        row(7, "c\nd", -0.5, outcome=FAILED, failing=[2, 3], terms={"tests": 0.0, "lint": -0.5}),
    ]
    return write_run(tmp_path / "run", {1: first, 2: [row(3, "e", 0.25), row(4, "f", None)]})


def shown(capsys: pytest.CaptureFixture[str], run: Path, *options: str) -> str:
    show_recorded_completion([str(run), *options])
    return capsys.readouterr().out


def test_a_row_is_shown_with_what_the_sandbox_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, run, "--rollout", "1", "--row", "7").splitlines()[1:] == [
        "rollout 1, row 7: p/0",
        "reward -0.5 (tests 0, lint -0.5), exception: KeyError, line 2, case 2",
        "others of its group: row 0 1",
        "",
        "prompt",
        "Write it.",
        "",
        "completion, 4 tokens; credit (part of the reward) is from -0.125 to -0.125",
        "c",
        "d",
        "    credit  tokens  text",
        "    -0.125       4  'c\\nd'",
        "",
        "failing line",
        "    1 c",
        ">   2 d",
        "",
        "standard error",
        "KeyError: 3",
    ]


def test_without_a_row_the_rows_of_the_last_rollout_are_listed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, run).splitlines()
    assert lines[1:3] == ["rollout 2: 2 of 8 rows were kept; --row shows one", "  p/0"]
    assert [line.split()[:4] for line in lines[3:]] == [["row", "3", "reward", "0.25"], ["row", "4", "reward", "none"]]


def test_a_table_after_each_turn_has_the_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of equal credit, those of the largest if there are many; EOS has no text."""
    two = row(0, "a\nbé", 1.0)
    (turn,) = two["turns"]
    two["turns"] = [turn | {"message": "again"}, turn | {"start": 5, "end": 10}]
    two["tokens"] = {"ids": list(range(10)), "credit": [0.5, 0.5, -0.25, -0.25, 0.0, 0.125, 0.0, 0.125, None, 1.0]}
    folder = write_run(tmp_path / "run", {1: [two]})
    text = shown(capsys, folder, "--best", "--lines", "3")
    assert "completion, 10 tokens; credit (part of the reward) is from -0.25 to 1\n" in text
    assert [line for line in text.splitlines() if "  " in line or "--lines" in line] == [
        "    credit  tokens  text",
        r"       0.5       2  'a\n'",
        "     -0.25       2  'bé'",
        "         0       1  (no text)",
        "    credit  tokens  text",
        "     0.125       1  'a'",
        "     0.125       1  'b'",
        "         1       1  (no text)",
        "2 more are nearer to 0; --lines 0 prints all",
    ]
    assert "      none       1  'é'" in shown(capsys, folder, "--best", "--lines", "0")
    assert "tokens  text" not in shown(capsys, folder, "--best", "--value", "none")
    assert "10 tokens; value was not recorded\n" in shown(capsys, folder, "--best", "--value", "value")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rollout", "9"], "rollout 9 was not recorded; choose one from 1 to 2"),
        (["--rollout", "1", "--row", "5"], "row 5 of rollout 1 was not recorded; recorded rows are 0, 7"),
    ],
)
def test_what_is_not_there_is_one_clear_error(run: Path, options: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        show_recorded_completion([str(run), *options])


@pytest.mark.parametrize(("is_run", "message"), [(False, "give the folder that"), (True, "lit-rl report ")])
def test_a_folder_without_rollouts_is_one_clear_error(tmp_path: Path, is_run: bool, message: str) -> None:
    """No run at all; or one of SFT, or one that was killed in its first rollout, which the report shows."""
    if is_run:
        (write_run(tmp_path / "run", {1: []}) / ROLLOUTS_FILE).unlink()
    with pytest.raises(FileNotFoundError, match=message):
        show_recorded_completion([str(tmp_path)])


@pytest.mark.filterwarnings("ignore:.*x.ckpt")
def test_a_file_without_completions_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x.ckpt").write_text("x")
    with pytest.raises(ValueError, match=r"x\.ckpt holds no completions"):
        show_recorded_completion([str(tmp_path / "x.ckpt")])


def test_programs_are_written_as_other_judges_read_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each sampling in its own file; the whole program, under the name that the problem has there."""
    source = "def f(x):\n    return 'é'\n"
    program = {"source": source, "start": 3, "end": 20, "prefix_lines": 1, "fenced": True, "removed": []}
    rows = [
        row(0, f"```\n{source}```", 1.0, task_id="mbpp/11", program=program),
        row(1, "none", 0.0, task_id="mbpp/11", program=None),
        row(2, "x", 0.0, task_id="HumanEval/3"),
    ]
    file = tmp_path / "completions.jsonl.gz"
    head = {"num_rows": 2, "time": 1.0, "endings": {}, "seconds": {}, "sampled_for": "validation/greedy"}
    append_record_batch(file, [{"rollout": 1, **head}, *rows[:2]])
    append_record_batch(file, [{"rollout": 2, **head}, rows[2]])
    show_recorded_completion([str(file), "--samples", str(tmp_path / "out" / "samples.jsonl")])
    lines = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").read_text().splitlines()]
    assert lines == [
        {"task_id": "Mbpp/11", "solution": source, "completion": source},
        {"task_id": "Mbpp/11", "solution": "", "completion": ""},
        {"task_id": "HumanEval/3", "solution": "x", "completion": "x"},
    ]
    assert capsys.readouterr().out == f"{tmp_path}/out/samples.jsonl: 3 programs for 2 problems\n"
    append_record_batch(file, [{"rollout": 3, **head, "loader": 1, "sampled_for": "validation/sampled"}, rows[2]])
    show_recorded_completion([str(file), "--samples", str(tmp_path / "samples.jsonl")])
    assert {one.name for one in tmp_path.glob("samples*")} == {"samples_0_greedy.jsonl", "samples_1_sampled.jsonl"}


def test_it_starts_without_torch(run: Path) -> None:
    script = "import sys; from lit_rl.__main__ import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script, "show", str(run), "--best"], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "") and "rollout 1, row 0: p/0" in ended.stdout


def test_a_reader_that_has_read_enough_is_no_error(run: Path) -> None:
    command = f"{sys.executable} -m lit_rl show {run} --best | true; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("0\n", "")


def test_page_and_terminal_have_the_same_values(tmp_path: Path) -> None:
    """The page's script computes of a token what Python does."""
    tokens = {
        "ids": [1, 2], "credit": [0.25, -0.5], "advantage": [1.5, 0.0], "logprob_sampled": [-0.1, -2.0],
        "logprob_old": [-0.25, -2.5], "logprob_update": [-0.5, None], "logprob_ref": [-1.0, -2.0],
        "value": [0.125, 0.5], "entropy": [0.75, None],
    }  # fmt: skip
    folder = write_run(tmp_path / "run", {1: [row(0, "a", 1.0, tokens=tokens)]})
    (rollout,) = read_rollouts(folder)
    report_on_runs([str(folder), "--html", str(tmp_path / "report.html")])
    with browser() as page:
        page.open(tmp_path / "report.html")
        titles = page.run("[...document.querySelectorAll('.token')].map(t => t.title)")
    assert [title.split("\n")[1:] for title in titles] == [
        [f"{kind} {found[i]:.3g}" if i in found else f"{kind} none" for kind in KINDS
         for found in [token_values_by_column(rollout.rows[0], kind)]]
        for i in (0, 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cases", "said"),
    [("p", "(passed 1 of 1 cases)"), ("ppe", ", case 3"), ("pep", "(passed 2 of 3 cases)"), ("e", ", case 1")],
)
def test_the_case_that_ended_a_program_is_named_and_else_those_that_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cases: str, said: str
) -> None:
    """Cases after a failure may not have run, so a share of those that did would mislead."""
    outcome = {"cases": ["passed" if one == "p" else "exception" for one in cases]}
    run = write_run(tmp_path / "run", {1: [row(0, "x", float("e" not in cases), outcome=outcome)]})
    assert said in shown(capsys, run, "--rollout", "1", "--row", "0").splitlines()[2]
