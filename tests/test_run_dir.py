"""One folder for all that a run writes, and a validation before it: two arguments of the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lit_rl.cli.main import main
from lit_rl.reports.run_files import read_metrics
from lit_rl.reports.runs import folders_of

SORTING = Path(__file__).parents[1] / "configs" / "sorting_rewards.yaml"
SAVED = """
trainer:
  val_check_interval: 2
  callbacks:
    - class_path: lit_rl.callbacks.ExecutionEvaluation
    - class_path: lit_rl.callbacks.Checkpointing
      init_args: {folder: elsewhere, every_n_rollouts: 2}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("saved.yaml").write_text(SAVED)
    return tmp_path


def fit(rollouts: int, *more: str) -> None:
    main(["fit", "--config", str(SORTING), "--config", "saved.yaml", "--model.max_rollouts", str(rollouts), *more])


def test_all_verbs_find_a_run_by_its_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit(2, "--run_dir", "mine/first")
    fit(4, "--run_dir", "mine/first")
    assert {path.name for path in here.iterdir()} == {"saved.yaml", "mine"}, "nothing is written elsewhere"
    assert Path("mine/first/last.ckpt").resolve().name == "rollout_000004.ckpt"
    assert folders_of("mine/first") == [Path("mine/first/version_0")], "the resumed run logs where it began"
    said = capsys.readouterr().out
    assert "rollout 2/2" in said and "rollout 3/4" in said and said.count("rollout 1/") == 1
    main(["validate", "--config", "mine/first/version_0/config.yaml", "--ckpt_path", "last"])
    said = capsys.readouterr().out
    assert (
        "mine/first/rollout_000004.ckpt" in said
        and "greedy" in said
        and "\N{BOX DRAWINGS HEAVY HORIZONTAL}" not in said
    )
    main(["report", "mine/first/version_0"])
    assert "reward/mean" in capsys.readouterr().out


def test_a_run_without_a_logger_gets_one_in_its_folder(here: Path) -> None:
    main(["validate", "--config", str(SORTING), "--trainer.logger", "null", "--run_dir", "mine"])
    assert folders_of("mine") == [Path("mine/validate")], "where it is no second run next to one"
    main(["validate", "--config", str(SORTING), "--trainer.logger", "false", "--run_dir", "other"])
    assert not Path("other").exists(), "no logger was wanted, and config.yaml is a training's"
    fit(2, "--trainer.logger", "null")
    assert folders_of("elsewhere") == [Path("elsewhere/version_0")], "without --run_dir, beside the checkpoints"


def test_a_validation_before_training_is_told_once_and_changes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(2, "--run_dir", "plain")
    assert "\nsampled" not in capsys.readouterr().out.partition("rollout 1/")[0]
    fit(2, "--run_dir", "first", "--validate_first", "true")
    before, _, after = capsys.readouterr().out.partition("rollout 1/")
    assert "\nsampled   reward " in before
    (folder,) = folders_of("first")
    curve = read_metrics(folder).curves["val/sampled/reward/mean"]
    (summary,) = [line for line in after.partition("\ndone ")[2].splitlines() if line.startswith("sampled reward")]
    assert [count for count, _ in curve] == [0, 2]
    assert re.findall(r"\d\.\d{3}", summary)[:2] == [f"{value:.3f}" for _, value in curve]
    events = EventAccumulator(str(folder))
    events.Reload()
    assert [event.step for event in events.Scalars("val/sampled/reward/mean")] == [0, 2]
    weights = [torch.load(f"{name}/last.ckpt", weights_only=False)["state_dict"] for name in ("plain", "first")]
    assert weights[0] and all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    fit(4, "--run_dir", "first", "--validate_first", "true")
    assert "\nsampled   reward " not in capsys.readouterr().out.partition("rollout 3/")[0]
    assert [count for count, _ in read_metrics(folder).curves["val/sampled/reward/mean"]] == [0, 2, 4]


def test_a_run_that_saved_nothing_says_that_it_begins_anew(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    said = f"{here / 'mine'} has no checkpoint of an earlier start, so training begins anew"
    fit(2, "--run_dir", "mine")
    assert said not in caplog.messages
    for file in Path("mine").glob("*.ckpt"):  # as if it had been killed before
        file.unlink()
    fit(2, "--run_dir", "mine")
    assert said in caplog.messages
