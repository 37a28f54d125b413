"""Settings changed between two starts of a run: each is told with its effect, and a refusal costs no file."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from support.command_line import BASE, TINY, answer

from lit_rl.__main__ import main
from lit_rl.arguments import UsageError
from lit_rl.cli.run_config import changes_on_resume


def config(**changes: Any) -> str:
    """The base configuration with some arguments of the model changed: ``policy={"init_seed": 3}``."""
    found = copy.deepcopy(BASE)
    arguments = found["model"]["init_args"]
    for name, value in changes.items():
        if name == "policy":
            arguments["policy"]["init_args"] |= value
        elif name == "algorithm":
            found["model"]["class_path"] = value
        elif name == "batch_size":
            found["data"]["init_args"][name] = value
        else:
            arguments[name] = value
    return yaml.safe_dump(found)


def adamw(lr: float, name: str = "AdamW") -> dict[str, Any]:
    return {"optimizer": {"class_path": f"torch.optim.{name}", "init_args": {"lr": lr}}}


@pytest.mark.parametrize(
    ("changes", "name", "in_force"),
    [
        ({"max_rollouts": 5}, "model.max_rollouts", True),
        ({"update": adamw(0.01)}, "model.update.optimizer.lr", False),
        ({"sampling": {"num_samples": 4, "max_tokens": 4}}, "model.sampling.num_samples", True),
        ({"rewards": [{"class_path": "lit_rl.rewards.FormatReward"}]}, "model.rewards", True),
        ({"algorithm": "lit_rl.modules.REINFORCE"}, "model", True),
        ({"policy": {"init_seed": 7}}, "model.policy.init_seed", False),
        ({"policy": {"chunk_tokens": 7}}, "model.policy.chunk_tokens", True),
        ({"batch_size": 8}, "data.batch_size", True),
    ],
)
def test_each_change_says_whether_it_is_in_force(changes: dict[str, Any], name: str, in_force: bool) -> None:
    lines = changes_on_resume(config(), config(**changes))
    (line,) = [line for line in lines if line.startswith(f"{name}: ")]
    assert ("in force" in line, "ignored" in line) == (in_force, not in_force)


def test_a_coefficient_that_a_target_moved_is_the_checkpoints() -> None:
    before, now = (config(objective={"kl_coef": coef, "kl_in": "reward", "target_kl": 0.1}) for coef in (0.1, 0.2))
    (line,) = changes_on_resume(before, now)
    assert "0.1 -> 0.2, ignored" in line
    before, now = (config(objective={"kl_coef": coef}) for coef in (0.1, 0.2))
    assert "0.1 -> 0.2, in force" in changes_on_resume(before, now)[0]


def test_nothing_is_told_of_the_same_command() -> None:
    assert changes_on_resume(config(), config()) == []


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"update": adamw(0.001, "SGD")}, "model.update.optimizer: expected AdamW"),
        ({"policy": {"config": TINY | {"hidden_size": 24}}}, "model.policy.config.hidden_size: expected 16"),
        ({"policy": {"config": TINY | {"hidden_act": "gelu"}}}, "model.policy.config.hidden_act: expected not set"),
        ({"policy": {"lora": {"rank": 2}}}, "model.policy.lora.rank: expected not set"),
        ({"algorithm": "lit_rl.modules.PPO"}, "model: expected GRPO"),
    ],
)
def test_what_the_checkpoint_holds_the_state_of_is_refused(changes: dict[str, Any], name: str) -> None:
    """Told as ignored, it would be refused a moment later, or silently be in force."""
    before = config(policy={"lora": None})
    with pytest.raises(UsageError, match=rf"^{name}.*got .*lit-rl export"):
        changes_on_resume(before, config(**{"policy": {"lora": None}} | changes))


def test_a_base_below_adapters_is_not_the_checkpoints() -> None:
    before, now = (config(policy={"lora": {"rank": 2}, "model": model}) for model in ("here", "there"))
    assert "here -> there, in force" in changes_on_resume(before, now)[0]


def test_a_run_that_goes_on_tells_what_changed_and_keeps_its_config_when_it_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    saves = {"class_path": "lit_rl.callbacks.Checkpointing", "init_args": {"folder": "run", "every_n_rollouts": 1}}
    trainer = {**BASE["trainer"], "logger": True, "callbacks": [saves], "limit_val_batches": 0}
    Path("base.yaml").write_text(yaml.safe_dump({**yaml.safe_load(config()), "trainer": trainer}))
    run = "--run_dir run"
    main(["fit", "--config", "base.yaml", *run.split()])
    saved = {path: path.read_text() for path in Path("run").rglob("config.yaml")}
    assert len(saved) == 1
    capsys.readouterr()
    status, error = answer(f"{run} --model.update.optimizer SGD --model.update.optimizer.lr 0.1", capsys)
    assert status != 0 and "model.update.optimizer" in error
    assert {path: path.read_text() for path in Path("run").rglob("config.yaml")} == saved
    caplog.set_level("INFO")
    more = ["--model.max_rollouts", "2", "--model.update.optimizer.lr", "0.01"]
    main(["fit", "--config", "base.yaml", *run.split(), *more])
    assert "model.update.optimizer.lr: 0.001 -> 0.01, ignored" in caplog.text
    assert "model.max_rollouts: 1 -> 2, in force" in caplog.text
    (last,) = Path("run").rglob("last.ckpt")
    (state,) = torch.load(last, weights_only=False)["optimizer_states"]
    assert {group["lr"] for group in state["param_groups"]} == {0.001}
