"""Every YAML file parses, instantiates offline, and opens by saying what it is for."""

from __future__ import annotations

from dataclasses import is_dataclass
from pathlib import Path

import pytest
import torch
from support.slow_cases import slow_but

import lit_rl.cli.main  # short class names
from lit_rl.advantages import BatchMean, GroupMean, NoBaseline
from lit_rl.cli.main import Cli
from lit_rl.losses import Clipped, ImportanceSampling, PolicyGradient

ROOT = Path(__file__).parents[1]
OVERLAY = ROOT / "configs" / "real" / "on_mbpp.yaml"
FOLDERS = (ROOT / "configs", ROOT / "configs" / "real", ROOT / "configs" / "scaling")
CONFIGS = sorted({file for folder in FOLDERS for file in folder.glob("*.yaml")} - {OVERLAY})


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("length", slow_but([777], [1, 777]))
def test_is_built_offline_as_a_shorter_or_a_longer_run(
    config: Path, length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Building writes nothing; the schedule is stepped to the end, as the run would."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIT_RL_DATA", str(tmp_path / "nowhere"))
    given = ["accelerator=cpu", "devices=1", "num_nodes=1", "precision=32-true"]
    arguments = ["--config", str(config), *(f"--trainer.{setting}" for setting in given)]
    if key := next((key for key in ("max_rollouts", "max_updates") if f"\n    {key}:" in config.read_text()), None):
        arguments.append(f"--model.{key}={length}")
    cli = Cli(arguments, run=False)
    assert cli.model.policy is not None
    assert not list(tmp_path.iterdir()), "building a run must not write"
    if key and cli.model.update.lr_scheduler is not None:
        made = cli.model.build_optimizer([{"params": [torch.nn.Parameter(torch.zeros(()))], "name": "policy"}])
        optimizer, schedule = made["optimizer"], made["lr_scheduler"]
        rates = []
        for _ in range(length):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        assert length == 1 or optimizer.param_groups[0]["lr"] < max(rates)


def test_the_real_model_learns_mbpp_by_a_second_configuration() -> None:
    imitation = OVERLAY.with_name("sft_lora.yaml")
    real = sorted(set((ROOT / "configs" / "real").glob("*.yaml")) - {OVERLAY, imitation})
    assert [file.stem for file in real] == ["grpo", "grpo_lora", "ppo"]
    for file in real:
        cli = Cli(["--config", str(file), "--config", str(OVERLAY)], run=False)
        assert (type(cli.datamodule).__name__, cli.datamodule.form) == ("MBPP", "instruct")
        assert cli.model.sampling.max_tokens == cli.model.evaluate.sampling["greedy"].max_tokens == 160
        assert cli.model.policy.source == "runs/real/smollm2"


LOSSES_AND_BASELINES = {
    "defaults": ("basics_grpo", [], Clipped(), GroupMean()),
    "an argument of the default": (
        "basics_grpo",
        ["--model.objective.loss.clip_high=0.28", "--model.baseline.normalize=none"],
        Clipped(clip_high=0.28),
        GroupMean(normalize="none"),
    ),
    "names alone": (
        "basics_grpo",
        ["--model.objective.loss=ImportanceSampling", "--model.baseline=BatchMean"],
        ImportanceSampling(),
        BatchMean(),
    ),
    "REINFORCE's default loss": ("sorting_rewards", ["--model.deltas=null"], PolicyGradient(), NoBaseline()),
    "another loss of REINFORCE": (
        "sorting_clipped",
        ["--model.objective.kl_coef=0.1"],
        Clipped(clip_low=0.01, clip_high=0.01),
        NoBaseline(),
    ),
}


@pytest.mark.parametrize("case", LOSSES_AND_BASELINES)
def test_losses_and_baselines_are_built_and_written_so_that_they_are_read_again(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, arguments, loss, baseline = LOSSES_AND_BASELINES[case]
    given = ["--config", str(ROOT / "configs" / f"{name}.yaml"), *arguments]
    (tmp_path / "written.yaml").write_text(printed(given, capsys))
    for model in (Cli(given, run=False).model, Cli(["--config", str(tmp_path / "written.yaml")], run=False).model):
        assert model.objective.loss == loss
        assert repr(model.baseline) == repr(baseline) if is_dataclass(baseline) else type(model.baseline) is NoBaseline


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The configuration that the parser would write beside a run."""
    with pytest.raises(SystemExit):
        Cli([*arguments, "--print_config"], run=False)
    return capsys.readouterr().out


def test_opens_with_what_it_is_for() -> None:
    for config in (*CONFIGS, OVERLAY):
        first = config.read_text().splitlines()[0]
        assert first.startswith("# ") and len(first) > 30, config


TERM = "--model.rewards=[{{class_path: {}, init_args: {{{}}}}}]"
BAD_REWARDS = {
    "an unknown term": (TERM.format("NoReward", ""), ["model.rewards: ", "NoReward"]),
    "a weight that is no number": (TERM.format("TestsReward", "weight: much"), ["model.rewards.weight: ", "much"]),
    "a weight that is not finite": (TERM.format("TestsReward", "weight: .nan"), ["TestsReward.weight", "got nan"]),
    "a mistyped argument": (TERM.format("TestsReward", "wieght: 1"), ["TestsReward", "wieght"]),
    "a missing argument": (TERM.format("OverlongPenalty", ""), ["OverlongPenalty", "max_tokens"]),
    "a term of another task": (TERM.format("SimulatorReward", ""), ["Composite.terms[0]", "needs robot worlds"]),
    "a grader that is not there": (
        TERM.format("LLMJudgeReward", "grader: {class_path: LocalGrader, init_args: {model: /nowhere/at/all}}"),
        ["model folder not found", "/nowhere/at/all"],
    ),
}


@pytest.mark.parametrize("case", BAD_REWARDS, ids=list(BAD_REWARDS))
def test_a_bad_reward_fails_before_the_weights_are_loaded_and_names_key_and_reason(
    case: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argument, named = BAD_REWARDS[case]
    monkeypatch.chdir(tmp_path)  # where the model's folder is missing: loading it would be the error
    quiet = ["--trainer.callbacks=null", "--trainer.logger=false", "--data.num_train_problems=64"]
    with pytest.raises(SystemExit):
        lit_rl.cli.main.main(["fit", "--config", str(ROOT / "configs" / "basics_grpo.yaml"), *quiet, argument])
    error = capsys.readouterr().err.partition("lit-rl: error: ")[2]
    assert all(word in error for word in named), error
    assert len(error.splitlines()) == 1
