"""Mistakes with checkpoints, models and adapters: each is answered in one line, before or while they are loaded."""

from __future__ import annotations

import copy
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from support.command_line import BASE, TINY, one_line
from support.tiny_models import loaded

import lit_rl
from lit_rl.models import CausalLM, LoRA
from lit_rl.training.checkpoints import read_checkpoint

TOKENIZER = "package:lit_rl/data/basics/tokenizer"


def policy(**arguments: Any) -> str:
    """The option that gives the base configuration another policy."""
    described = {"class_path": "CausalLM", "init_args": {"config": None, "tokenizer": None} | arguments}
    return f"--model.policy '{json.dumps(described)}'"


# what is given to fit, or a whole command, and a part of the answer; files as the fixture makes them
MISTAKES = {
    "fit --config base.yaml --ckpt_path text.ckpt": "text.ckpt is not a checkpoint",
    "validate --config base.yaml --ckpt_path foreign.ckpt": "foreign.ckpt is not a checkpoint: it holds a",
    "export cut.ckpt out": "cut.ckpt is not a checkpoint, or not a whole one",
    "export objects.ckpt out": "PosixPath",
    "fit --config base.yaml --ckpt_path nothing": "no checkpoint at nothing",
    "fit --config base.yaml --ckpt_path saved_model": "a model and no checkpoint",
    "fit --config base.yaml --ckpt_path run --model.policy.config.hidden_size 24": "of another model",
    "fit --config base.yaml --ckpt_path run_sft.ckpt": "counts no rollouts",
    "export bare.ckpt out": "holds no configuration",
    "export run saved_model": "saved_model is not empty",
    policy(model="./run"): "holds checkpoints of a run",
    policy(model="./few_weights", tokenizer=TOKENIZER): "lacks weights",
    policy(model="./saved_model"): "no file of a tokenizer",
    policy(model="nobody/nothing"): "nobody/nothing",
    policy(model="./wrong_base", tokenizer=TOKENIZER): "needs another base than",
    policy(model="./adapter", tokenizer=TOKENIZER, lora={"rank": 2}): "adapter is an adapter, and lora=",
    """--model.policy.lora '{"rank": 2, "target_modules": ["c_attn"]}'""": "c_attn",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, models and adapters, and what is wrong in the ways in which such things are wrong."""
    here = tmp_path_factory.mktemp("files")
    (here / "base.yaml").write_text(yaml.safe_dump(copy.deepcopy(BASE)))
    write_checkpoints(here)
    write_models(here)
    write_adapters(here)
    return here


def write_checkpoints(here: Path) -> None:
    """One real run without training, its checkpoint as other modules would have written it, and damaged ones."""
    module = lit_rl.GRPO(
        CausalLM(config=TINY, tokenizer=TOKENIZER),
        sampling=lit_rl.Sampling(num_samples=2),
        rewards=[lit_rl.TestsReward()],
    )
    module.load_models()
    (here / "run").mkdir()
    whole = {
        "state_dict": module.state_dict(),
        "pytorch-lightning_version": "2.5.0",
        "epoch": 0,
        "global_step": 1,
        "rollout_step": 1,
        "loops": {"fit_loop": {"state_dict": {}}},
        "config": (here / "base.yaml").read_text(),
    }
    torch.save(whole, here / "run" / "last.ckpt")
    torch.save({k: v for k, v in whole.items() if k != "config"}, here / "bare.ckpt")
    torch.save({k: v for k, v in whole.items() if k != "rollout_step"}, here / "run_sft.ckpt")
    (here / "text.ckpt").write_text("not a checkpoint\n")
    (here / "empty.ckpt").touch()
    torch.save({"a": 1}, here / "foreign.ckpt")
    torch.save(torch.zeros(3), here / "tensor.ckpt")
    torch.save({"state_dict": {}, "place": Path("a")}, here / "objects.ckpt")
    content = (here / "run" / "last.ckpt").read_bytes()
    (here / "cut.ckpt").write_bytes(content[: len(content) // 2])


def write_models(here: Path) -> None:
    model = tiny_model(here / "saved_model")
    kept = {name: weight for name, weight in model.state_dict().items() if name != "model.norm.weight"}
    model.save_pretrained(here / "few_weights", state_dict=kept)
    (here / "nothing").mkdir()


def tiny_model(folder: Path, config: dict[str, Any] = TINY, lora: LoRA | None = None) -> Any:
    """A model as transformers saves it, without a tokenizer; with an adapter only that is saved."""
    model = loaded(TOKENIZER, config=config, probe=False, lora=lora).model
    model.save_pretrained(folder)
    return model


def write_adapters(here: Path) -> None:
    tiny_model(here / "made", lora=LoRA(rank=2))
    tiny_model(here / "other_model", TINY | {"hidden_size": 32})
    (made,) = (here / "made").glob("**/adapter_config.json")
    for name, base in (("adapter", "saved_model"), ("wrong_base", "other_model")):
        (here / name).mkdir()
        config = json.loads(made.read_text()) | {"base_model_name_or_path": str(here / base)}
        (here / name / "adapter_config.json").write_text(json.dumps(config))
        weights = made.parent / "adapter_model.safetensors"
        (here / name / weights.name).write_bytes(weights.read_bytes())


@pytest.mark.parametrize(("command", "part"), MISTAKES.items())
def test_a_mistake_is_answered_in_one_line(
    command: str, part: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert part in one_line(command, capsys)
    assert not (folder / "out").exists()


def test_an_adapter_without_tokenizer_has_that_of_its_base(folder: Path) -> None:
    base, adapter = folder / "base_with_tokenizer", folder / "adapter_alone"
    shutil.copytree(folder / "saved_model", base)
    whole = CausalLM(config=TINY, tokenizer=TOKENIZER)
    whole.load_tokenizer()
    whole.tokenizer.save_pretrained(base)
    shutil.copytree(folder / "adapter", adapter)
    config = json.loads((adapter / "adapter_config.json").read_text()) | {"base_model_name_or_path": str(base)}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    policy = loaded(model=str(adapter))
    assert policy.tokenizer("def f")["input_ids"] == whole.tokenizer("def f")["input_ids"]


def test_a_base_with_fewer_layers_is_no_base_of_an_adapter(folder: Path) -> None:
    """PEFT leaves out the weights of the layers that are missing, with a warning."""
    tiny_model(folder / "deep", TINY | {"num_hidden_layers": 2}, LoRA(rank=2))
    (home,) = (folder / "deep").glob("**/adapter_config.json")
    home.write_text(json.dumps(json.loads(home.read_text()) | {"base_model_name_or_path": str(folder / "saved_model")}))
    with pytest.raises(ValueError, match=r"needs another base than .*saved_model: 14 weights have no counterpart"):
        CausalLM(str(home.parent), tokenizer=TOKENIZER).load()


def test_one_layer_of_several_that_lora_names_is_missing() -> None:
    """PEFT takes the others, silently."""
    lora = LoRA(rank=2, target_modules=["q_proj", "k_prj"])
    policy = CausalLM(config=TINY, tokenizer=TOKENIZER, lora=lora)
    with pytest.raises(ValueError, match=r"names k_prj, which the model does not have: .* q_proj, k_proj, v_proj"):
        policy.load()


def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens at the port: not one retry, and the answer says what works without a network."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with pytest.raises(
        ValueError, match=r"nobody/nothing \(model.policy.model\) is neither a folder .*HF_HUB_OFFLINE=1"
    ):
        CausalLM("nobody/nothing", tokenizer=TOKENIZER).load()
    assert not slept, "retries wait"


@pytest.mark.parametrize("content", [b"hello world\n", b"a,b\n1,2\n", b"t.", b"# title\n", b"("])
def test_a_file_of_text_is_no_checkpoint(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "own.ckpt").write_bytes(content)
    with pytest.raises(ValueError, match=r"own\.ckpt is not a checkpoint") as told:
        read_checkpoint(tmp_path / "own.ckpt")
    assert "weights_only" not in str(told.value), "torch's advice would run what the file says"


@pytest.mark.parametrize("name", ["text.ckpt", "foreign.ckpt", "tensor.ckpt", "empty.ckpt", "cut.ckpt", "nothing"])
def test_python_answers_as_the_command_line_does(name: str, folder: Path) -> None:
    module = lit_rl.SFT(CausalLM(config=TINY, tokenizer=TOKENIZER))
    trainer = lit_rl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    for use in (trainer.fit, trainer.validate, trainer.test):
        with pytest.raises((ValueError, FileNotFoundError), match=rf"{name}|no checkpoint at .*{name}") as caught:
            use(module, datamodule=lit_rl.Basics(), ckpt_path=str(folder / name))
        assert "\n" not in str(caught.value)
    with pytest.raises((ValueError, FileNotFoundError), match=name):
        lit_rl.SFT.load_from_checkpoint(folder / name)


def test_a_model_that_was_made_in_python_is_trained_itself(folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder / "saved_model")
    policy = CausalLM(model, tokenizer=TOKENIZER)
    assert policy.model is None, "nothing is loaded by the constructor"
    policy.load()
    assert policy.model is model
    adapted = loaded(TOKENIZER, model=model, lora=LoRA(rank=2))
    assert all(".lora_" in name for name, one in adapted.named_parameters() if one.requires_grad)
    with pytest.raises(ValueError, match="a model without adapters, got a PEFT model"):
        CausalLM(adapted.model, tokenizer=TOKENIZER)
