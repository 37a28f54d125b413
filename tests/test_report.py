"""`lit-rl report` on written event files."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter

from lit_rl.cli.report import report
from lit_rl.reports.runs import read_curves


def write(folder: Path, values: dict[int, float]) -> None:
    writer = SummaryWriter(str(folder))
    for step, value in values.items():
        writer.add_scalar("reward/mean", value, step)
    writer.close()


def test_runs_below_one_folder_are_rows_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their steps are equal: put together they would be a curve of neither."""
    write(tmp_path / "grpo" / "version_0", {1: 0.25, 2: 0.5})
    write(tmp_path / "ppo" / "version_0", {1: 0.75, 3: 1.0})
    report([str(tmp_path), "--picture", str(tmp_path / "curves.png")])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-3:-1]]
    assert [row[1:] for row in rows] == [
        ["reward/mean", "2", "0.25", "0.5", "0.5"],
        ["reward/mean", "2", "0.75", "1", "1"],
    ]
    assert rows[0][0].endswith("grpo/version_0")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_a_run_that_went_on_is_one_curve(tmp_path: Path) -> None:
    """Two files in one folder; the step that was run again counts as it was last."""
    write(tmp_path / "version_0", {1: 1.0, 2: 2.0})
    write(tmp_path / "version_0", {2: 3.0, 3: 4.0})
    assert read_curves(tmp_path)["reward/mean"] == [(1, 1.0), (2, 3.0), (3, 4.0)]


def test_a_folder_without_events_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="give the folder that a run logged to"):
        report([str(tmp_path)])


@pytest.mark.parametrize("wanted", ["reward/mean,val/*", "[reward/mean, 'val/*']", "rew*", "*"])
def test_metrics_are_given_as_names_or_patterns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wanted: str
) -> None:
    write(tmp_path, {1: 0.25})
    report([str(tmp_path), "--metrics", wanted])
    assert "reward/mean" in capsys.readouterr().out


def test_a_validation_is_listed_by_its_reward_only_where_it_has_no_pass_at_k(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = SummaryWriter(str(tmp_path))
    for name in ("val/toy/greedy/reward/mean", "val/code/greedy/reward/mean", "val/code/greedy/pass@1", "val/loss"):
        writer.add_scalar(name, 0.5, 1)
    writer.close()
    report([str(tmp_path)])
    listed = [line.split()[1] for line in capsys.readouterr().out.partition("last")[2].splitlines()[1:]]
    assert listed == ["val/code/greedy/pass@1", "val/toy/greedy/reward/mean", "val/loss"]


def test_an_unknown_metric_is_answered_with_what_there_is(tmp_path: Path) -> None:
    write(tmp_path, {1: 0.25})
    with pytest.raises(ValueError, match=r"no metric is called reward/men; there are: reward/mean$"):
        report([str(tmp_path), "--metrics", "reward/men"])


def test_a_run_that_recorded_nothing_yet_says_so(tmp_path: Path) -> None:
    write(tmp_path, {})
    with pytest.raises(ValueError, match=r"nothing was recorded yet in .*: look again"):
        report([str(tmp_path)])
