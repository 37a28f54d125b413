"""Files of strangers: what a checkpoint, a run's folder or a model's folder names is neither imported nor run."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from jsonargparse import ArgumentParser
from support.recorded_runs import row, write_run
from support.tiny_models import TINY_QWEN2

from lit_rl.cli.main import main
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO, PolicyModule
from lit_rl.rewards.term import RewardTerm

TRAP = """
from pathlib import Path
from lit_rl.rewards.term import RewardTerm, TermScore
Path({mark!r}).touch()

class Trap(RewardTerm):
    default_name = "trap"
    def score(self, completions, judgements):
        return [TermScore(0.0) for _ in completions.texts]

def run(*arguments, **named):
    pass
"""


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that appears as soon as the module ``trap`` is imported."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/trap.py").write_text(TRAP.format(mark=str(tmp_path / "sprung")))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    monkeypatch.delitem(sys.modules, "trap", raising=False)
    return tmp_path / "sprung"


TRAPPED = {"class_path": "trap.Trap"}
PLANTED: list[dict[str, Any]] = [
    {"update": {"optimizer": {"class_path": "trap.run", "init_args": {"lr": 0.1}}}},
    {"rewards": [TRAPPED]},
    {"rewards": "[{class_path: trap.Trap}]"},
    {"sandbox": {"class_path": "trap.run", "init_args": {"command": "true"}}},
    {"sandbox": {"class_path": "subprocess.Popen", "init_args": {"args": ["touch", "sprung"]}}},
    {"policy": TRAPPED},
    {"objective": {"loss": TRAPPED}},
]


def configuration(tokenizer: str, **planted: Any) -> dict[str, Any]:
    policy = {"class_path": "lit_rl.models.CausalLM", "init_args": {"config": TINY_QWEN2, "tokenizer": tokenizer}}
    arguments = {"policy": policy, "rewards": [{"class_path": "lit_rl.rewards.LengthPenalty"}], "max_rollouts": 1}
    return {"class_path": "lit_rl.modules.GRPO", "init_args": arguments | planted}


@cache
def honest_weights(tokenizer: str) -> dict[str, Any]:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(PolicyModule, "model")
    honest = parser.instantiate_classes(parser.parse_object({"model": configuration(tokenizer)})).model
    honest.load_weights()
    weights: dict[str, Any] = honest.state_dict()
    return weights


def checkpoint(folder: Path, config: dict[str, Any], tokenizer: str) -> Path:
    """The checkpoint of an honest run, with the configuration of a stranger."""
    state = {"state_dict": honest_weights(tokenizer), "rollout_step": 1, "global_step": 1, "policy_version": 1}
    state |= {"pytorch-lightning_version": "2.6.6", "config": yaml.safe_dump({"model": config})}
    torch.save(state, folder / "stranger.ckpt")
    return folder / "stranger.ckpt"


@pytest.mark.parametrize("planted", [*PLANTED, None], ids=str)
def test_a_checkpoint_builds_no_class_that_only_it_names(
    planted: dict[str, Any] | None, mark: Path, byte_tokenizer: str, tmp_path: Path
) -> None:
    config = configuration(byte_tokenizer, **(planted or {}))
    file = checkpoint(tmp_path, config if planted else config | TRAPPED, byte_tokenizer)
    with pytest.raises(ValueError, match=r"stranger\.ckpt") as caught:
        PolicyModule.load_from_checkpoint(file)
    assert not mark.exists() and "trap" not in sys.modules
    assert "\n" not in str(caught.value) and "trust" in str(caught.value)


def test_a_checkpoint_builds_what_the_user_names_too(mark: Path, byte_tokenizer: str, tmp_path: Path) -> None:
    config = configuration(byte_tokenizer, rewards=[TRAPPED])
    loaded = GRPO.load_from_checkpoint(checkpoint(tmp_path, config, byte_tokenizer), trust=["trap"])
    assert mark.exists() and type(loaded.rewards.terms[0]).__name__ == "Trap"


def test_a_refusal_leaves_the_parser_as_it_was(mark: Path, byte_tokenizer: str, tmp_path: Path) -> None:
    config = configuration(byte_tokenizer, rewards=[TRAPPED])
    with pytest.raises(ValueError, match=r"trap\.Trap"):
        GRPO.load_from_checkpoint(checkpoint(tmp_path, config, byte_tokenizer))
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(RewardTerm, "term")
    built = parser.instantiate_classes(parser.parse_object({"term": {"class_path": "trap.Trap"}}))
    assert type(built.term).__name__ == "Trap", "what the user's own configuration names is built"


def test_export_builds_no_policy_that_only_the_checkpoint_names(
    mark: Path, byte_tokenizer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configuration(byte_tokenizer, policy=TRAPPED)
    with pytest.raises(SystemExit):
        main(["export", str(checkpoint(tmp_path, config, byte_tokenizer)), str(tmp_path / "out")])
    said = capsys.readouterr().err
    assert not mark.exists() and "trap.Trap" in said and "--config" in said


@pytest.mark.parametrize("part", ["data", "rewards", "sandbox"])
def test_replay_builds_no_class_that_only_the_run_names(
    part: str, mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config: dict[str, Any] = {
        "model": {"class_path": "lit_rl.modules.GRPO", "init_args": {"rewards": [{"class_path": "TestsReward"}]}},
        "data": {"class_path": "lit_rl.data.Basics"},
    }
    if part == "data":
        config["data"] = TRAPPED
    else:
        config["model"]["init_args"][part] = [TRAPPED] if part == "rewards" else TRAPPED
    folder = write_run(tmp_path / "run", {1: [row(0, "1", 0.0, task_id="one")]})
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(SystemExit):
        main(["replay", str(folder)])
    said = capsys.readouterr().err
    assert not mark.exists() and "trap.Trap" in said and "--config" in said


def code_of_the_model(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "stranger", "architectures": ["Stranger"]}
    config["auto_map"] = {"AutoConfig": "trap.Trap", "AutoModelForCausalLM": "trap.Trap"}
    (folder / "config.json").write_text(json.dumps(config))


def code_of_the_tokenizer(folder: Path) -> None:
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "Stranger", "auto_map": {"AutoTokenizer": ["trap.Trap", "trap.Trap"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


class Touch:
    """Call that unpickling it makes."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def pickled_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"lm_head.weight": Touch(folder.parent / "sprung")}, file)


def adapter_of_another_core(folder: Path) -> None:
    from peft import LoraConfig, get_peft_model

    base = CausalLM(str(folder))
    base.load()
    base.save_pretrained(folder / "base")
    get_peft_model(base.model, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(str(folder))
    config = json.loads((folder / "adapter_config.json").read_text())
    config |= {"megatron_config": {}, "megatron_core": "trap", "base_model_name_or_path": str(folder / "base")}
    config["megatron_config"] = {"tensor_model_parallel_size": 1}
    (folder / "adapter_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("plant", [code_of_the_model, code_of_the_tokenizer, pickled_weights, adapter_of_another_core])
def test_a_model_folder_runs_no_code_of_its_own(
    plant: Callable[[Path], None], mark: Path, tiny_policy: CausalLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    tiny_policy.save_pretrained(folder)
    (folder / "trap.py").write_text(TRAP.format(mark=str(mark)))
    plant(folder)
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda *text: asked.append(str(text)) or "y")
    if plant is code_of_the_tokenizer:  # its files are read all the same, by the class for any tokenizer
        CausalLM(str(folder)).load()
    else:
        with pytest.raises(ValueError, match="model") as caught:
            CausalLM(str(folder)).load()
        assert "\n" not in str(caught.value) and not re.search("trust_remote_code|weights_only", str(caught.value))
    assert not mark.exists() and not asked
