"""Every YAML file parses, instantiates offline, and opens by saying what it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from support.slow_cases import slow_but

from lit_rl.cli.main import Cli

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
        made = cli.model.build_optimizer_and_schedule(
            [{"params": [torch.nn.Parameter(torch.zeros(()))], "name": "policy"}]
        )
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


def test_all_configurations_that_shard_say_what_the_strategy_file_says() -> None:
    def settings(name: str) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((ROOT / f"configs/{name}.yaml").read_text())
        return found

    file = settings("strategy/fsdp2")
    of_file = file["trainer"]["strategy"]["init_args"]
    sharded = 0
    for config in (ROOT / "configs" / "scaling").glob("*.yaml"):
        found = settings(f"scaling/{config.stem}")
        policy = found["model"]["init_args"]["policy"]["init_args"]
        assert (
            policy["gradient_checkpointing"]
            == file["model"]["init_args"]["policy"]["init_args"]["gradient_checkpointing"]
        )
        if isinstance(strategy := found["trainer"].get("strategy", "auto"), dict):
            sharded += 1
            nodes = found["trainer"].get("num_nodes", 1)
            assert {"offload": False, "replicas": 1} | strategy["init_args"] == of_file | {"replicas": nodes}
    assert sharded == 3
