"""``lit-rl fit --smoke`` passes for a healthy configuration, names what is wrong with an ill one, disturbs neither."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from lit_rl.__main__ import main
from lit_rl.cli.smoke import checked, smoke_folder
from lit_rl.reports.diagnosis import CHECKS, RunHistory
from lit_rl.reports.diagnosis.run_history import Where
from lit_rl.training.progress import Clock

CORRIDOR = """
seed_everything: 0
trainer:
  max_epochs: -1
  accelerator: cpu
  devices: 1
  check_val_every_n_epoch: null
  val_check_interval: 20
  logger: {class_path: lightning.pytorch.loggers.CSVLogger, init_args: {save_dir: logs}}
  callbacks:
    - class_path: lit_rl.callbacks.ExecutionEvaluation
    - {class_path: lit_rl.callbacks.Checkpointing, init_args: {folder: real, every_n_rollouts: 20}}
model:
  class_path: lit_rl.modules.GRPO
  init_args:
    max_rollouts: 60
    sampling: {num_samples: 8, max_tokens: 6}
    policy: {class_path: lit_rl.models.CorridorPolicy, init_args: {num_cells: 5}}
    rewards: [{class_path: lit_rl.rewards.CorridorReward}]
    update: {optimizer: {class_path: torch.optim.Adam, init_args: {lr: 0.05}}}
data: {class_path: lit_rl.data.Corridor, init_args: {num_cells: 5}}
"""

ILL: dict[str, tuple[dict[str, Any], str]] = {
    "a sampler with another temperature": (
        {
            "collect": {
                "engine": {
                    "class_path": "support.ill_runs.OtherSampling",
                    "init_args": {"changes": {"temperature": 0.2}},
                }
            }
        },
        "the first ratio is 1",
    ),
    "a rate of nothing": (
        {"update": {"optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.0}}}},
        "the weights move",
    ),
    "rewards that are all equal": ({"rewards": [{"class_path": "support.ill_runs.Constant"}]}, "rewards vary"),
}


def smoke(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: str = "--smoke=4", **model: Any
) -> int | str | None:
    """Exit status of a smoke test of the corridor; 0 if it did not leave."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("LIT_RL_DEBUG", raising=False)
    monkeypatch.delenv("LIT_RL_SMOKE_FOLDER", raising=False)
    config = yaml.safe_load(CORRIDOR)
    config["model"]["init_args"].update(model)
    Path("corridor.yaml").write_text(yaml.safe_dump(config))
    try:
        main(["fit", "--config", "corridor.yaml", *arguments.split()])
    except SystemExit as left:
        return left.code
    finally:
        monkeypatch.delenv("LIT_RL_SMOKE_FOLDER", raising=False)
    return 0


def test_a_healthy_run_passes_and_its_own_folders_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert smoke(tmp_path, monkeypatch) == 0
    said = capsys.readouterr().out
    assert "passed: everything works" in said and "FAIL" not in said
    assert all(f"pass  {name}" in said for name in (*CHECKS, "the checkpoint loads"))
    assert "4 of 4" in said or "rollout 4/4" in said
    assert not Path("real").exists() and not Path("logs").exists()
    assert smoke_folder(["corridor.yaml"]) == Path("runs/smoke/corridor_1")
    monkeypatch.delenv("LIT_RL_SMOKE_FOLDER")


@pytest.mark.parametrize("what", list(ILL))
def test_an_ill_run_fails_and_is_told_why(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, check = ILL[what]
    assert smoke(tmp_path, monkeypatch, **changes) == 1
    said = capsys.readouterr().out
    (failed,) = [line for line in said.splitlines() if line.startswith("failed: ")]
    assert check in failed
    assert f"FAIL  {check}" in said and "pass  the checkpoint loads" in said


@pytest.mark.parametrize("arguments", ["--smoke=1", "--smoke=few"])
def test_numbers_that_make_no_sense_are_refused(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert smoke(tmp_path, monkeypatch, arguments) == 2
    assert f"{arguments} is no number of rollouts" in capsys.readouterr().err


def history(*rollouts: dict[str, float]) -> RunHistory:
    """A whole run by the numbers of its rollouts."""
    module: Any = SimpleNamespace(
        policy=SimpleNamespace(version=0, parameters=lambda: ()),
        sampler=SimpleNamespace(sandbox=object()),
        clock=Clock("rollout"),
    )
    run = RunHistory(len(rollouts))
    run.begin(module, Where())
    for metrics in rollouts:
        run.add_numbers(module, metrics)
    return run


@pytest.mark.parametrize(("peaks", "passed"), [([1.0, 2.0, 2.0, 2.05], True), ([1.0, 1.5, 2.0, 2.5], False)])
def test_memory_may_grow_at_first_and_not_for_ever(peaks: list[float], passed: bool) -> None:
    run = history(*({"memory/peak_gigabytes": peak} for peak in peaks))
    assert checked("memory stays flat", run).passed is passed


@pytest.mark.parametrize(
    ("found", "failed", "timed_out", "passed"),
    [(1.0, 0.0, 0.1, True), (0.0, 0.0, 0.0, False), (1.0, 0.5, 0.0, False), (1.0, 0.0, 0.3, False)],
)
def test_programs_must_be_found_judged_and_end(found: float, failed: float, timed_out: float, passed: bool) -> None:
    verdicts = {"verdict/infrastructure_failure_fraction": failed, "verdict/timed_out_fraction": timed_out}
    run = history({"completion/program_rate": found} | verdicts)
    assert checked("programs run", run).passed is passed


@pytest.mark.parametrize(("losses", "passed"), [([0.5, 0.4], True), ([0.5, 0.5], False), ([0.5, float("nan")], False)])
def test_the_loss_moves_and_is_finite(losses: list[float], passed: bool) -> None:
    assert checked("the loss moves", history(*({"sft/loss": loss} for loss in losses))).passed is passed
