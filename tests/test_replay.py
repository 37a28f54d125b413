"""`lit-rl replay`: recorded completions get the same verdicts and rewards again, unless something changed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.recorded_runs import row, write_run
from support.small_runs import EvenBytes, Words, fit

import lit_rl.cli.main
from lit_rl.callbacks.run_record import RunRecord
from lit_rl.cli.replay import completions_from_rows, rejudge_and_describe, rejudge_rows
from lit_rl.modules import RolloutModule
from lit_rl.rewards import Composite
from lit_rl.run_files.files import read_rollouts

Make = Callable[..., RolloutModule]

CHANGED = '''
from lit_rl.data import TaskDataModule
from lit_rl.execution import AssertTests
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Problem


class Changed(TaskDataModule):
    """Write 1; its test once wanted 2."""

    def load_problems(self, split):
        return [Problem("one", "p", AssertTests("assert f() == 1"), extraction="whole")]


class Letters(RewardTerm):
    """A hundredth of the letters."""

    default_name = "letters"

    def score(self, completions, judgements):
        return [TermScore(len(text) / 100) for text in completions.texts]
'''
CONFIG = """
model:
  class_path: lit_rl.modules.GRPO
  init_args:
    rewards: [{class_path: lit_rl.rewards.TestsReward}]
    sandbox: lit_rl.execution.Sandbox
data: {class_path: changed_task.Changed}
"""


def program(value: int) -> str:
    return f"def f():\n    return {value}\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three rows judged by a test that wanted 2, one that was cut, one of a problem that is gone."""
    (tmp_path / "changed_task.py").write_text(CHANGED)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "changed_task", raising=False)
    wrong = {"verdict": "wrong_answer"}
    rows = [
        row(0, program(1), 0.0, task_id="one", outcome=wrong),
        row(1, program(2), 1.0, task_id="one"),
        row(2, program(3), 0.0, task_id="one", outcome=wrong),
        row(3, program(1), 0.0, task_id="one", outcome=wrong, tokens={}),
        row(4, program(1), 0.0, task_id="gone", outcome=wrong),
    ]
    folder = write_run(tmp_path / "run", {4: rows})
    (folder / "config.yaml").write_text(CONFIG)
    return folder


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    lit_rl.cli.main.main(["replay", *arguments])
    return [line for line in capsys.readouterr().out.splitlines() if not line.startswith("run ")]


def test_a_changed_test_is_seen_in_verdicts_and_rewards(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys, str(run), "--config", str(run / "config.yaml")) == [
        "3 completions of 1 rollouts were judged again",
        "1 left out: they were too long to be recorded whole",
        "1 left out: the task has no such training problem now",
        "verdicts: 2 differ, 1 are as before",
        "      1  wrong_answer -> passed",
        "      1  passed -> wrong_answer",
        "    rollout 4 row 0 one: wrong_answer -> passed",
        "    rollout 4 row 1 one: passed -> wrong_answer",
        "rewards: 2 differ, 1 are as before",
        "  mean 0.3333 -> 0.3333",
        "  tests 0.3333 -> 0.3333",
        "    rollout 4 row 0 one: 0 -> 1",
        "    rollout 4 row 1 one: 1 -> 0",
    ]


def test_another_reward_is_tried(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two terms, one by its path, one with arguments."""
    tried = [
        "--config",
        str(run / "config.yaml"),
        "--reward",
        "changed_task.Letters",
        "--reward",
        "{class_path: LengthPenalty, init_args: {alpha: 1}}",
    ]
    found = lines(capsys, str(run), *tried)
    letters = len(program(1))
    tokens = letters + 1
    assert f"  mean 0.3333 -> {letters / 100 - tokens / 100:.4g}" in found
    assert f"  letters none -> {letters / 100:.4g}" in found and f"  length none -> {-tokens / 100:.4g}" in found


def test_a_reward_that_is_not_there_is_no_fault_of_the_runs_configuration(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, told in (("TestReward", "did you mean TestsReward"), ("no.Term", "No module named 'no'")):
        with pytest.raises(SystemExit):
            lit_rl.cli.main.main(["replay", str(run), "--reward", name])
        error = capsys.readouterr().err
        assert error.startswith("lit-rl: error: rewards[0]: ") and told in error


def test_a_configuration_can_be_given(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = (run / "config.yaml").rename(run.parent / "other.yaml")
    assert lines(capsys, str(run), "--config", str(given))[3] == "verdicts: 2 differ, 1 are as before"
    with pytest.raises(SystemExit):
        lit_rl.cli.main.main(["replay", str(run)])
    assert "has no config.yaml with a task (lit-rl fit writes one): give --config FILE" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:.*x.ckpt")
def test_a_file_without_completions_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x.ckpt").write_text("x")
    with pytest.raises(ValueError, match=r"x\.ckpt holds no completions"):
        list(rejudge_and_describe(tmp_path / "x.ckpt", Words(), None, None))


def test_nothing_differs_where_nothing_changed(make_module: Make, tmp_path: Path) -> None:
    """A real run: rewards and credit of its recorded rows come out of the plain file as they went in."""
    fit(make_module(max_rollouts=2), tmp_path, callbacks=[RunRecord(str(tmp_path), num_groups=3)])
    problems = {problem.task_id: problem for problem in Words().problems("train")}
    rewards = Composite([EvenBytes()])
    for rollout in read_rollouts(tmp_path):
        assert len(rollout.rows) == 12
        again = rejudge_rows(rollout.rows, problems, None, rewards)
        assert not [one for one in again if one.verdict_differs or one.reward_differs()]
        completions = completions_from_rows(rollout.rows, problems)
        assert [list(ids) for ids in completions.rows_by_group().values()] == [
            [0, 1, 2, 3],
            [4, 5, 6, 7],
            [8, 9, 10, 11],
        ]
        credit = rewards(completions, [one.judgement for one in again]).credit
        for one, of_row in zip(rollout.rows, credit, strict=True):
            assert of_row[: one.num_tokens].tolist() == pytest.approx(one.tokens["credit"], rel=1e-3)


def test_what_the_environment_said_is_not_the_policys(tmp_path: Path) -> None:
    """A row of two turns of two tokens with three between them, and a shorter row of one turn."""
    long, short = row(0, "abcdef", 1.0), row(1, "a", 0.0)
    said = {"text": "ab", "spans": [1, 1], "stop_reason": "eos", "message": "no", "outcome": {"verdict": "exception"}}
    long["turns"] = [said | {"start": 0, "end": 2}, said | {"start": 5, "end": 7, "message": ""}]
    (rollout,) = read_rollouts(write_run(tmp_path / "run", {1: [long, short]}))
    found = completions_from_rows(rollout.rows, dict.fromkeys(["p/0"], Words().problems("train")[0]))
    assert found.completion_mask.int().tolist() == [[1, 1, 0, 0, 0, 1, 1], [1, 1, 0, 0, 0, 0, 0]]
    assert found.token_mask.sum(-1).tolist() == [7, 2]
    assert [turn.end for turn in found.turns[0]] == [2, 7] and found.prompt_ids.tolist() == [[1, 2], [1, 2]]
