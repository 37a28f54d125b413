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

import lit_rl
from lit_rl.models import CausalLM, LoRA

GRPO = "fit --config base.yaml --ckpt_path "
VALIDATE = "validate --config base.yaml --ckpt_path "
TOKENIZER = "package:lit_rl/data/basics/tokenizer"


def policy(**arguments: Any) -> str:
    """The option that gives the base configuration another policy."""
    described = {"class_path": "CausalLM", "init_args": {"config": None, "tokenizer": None} | arguments}
    return f"--model.policy '{json.dumps(described)}'"


# name: (command, parts of the answer); files as the fixture makes them
MISTAKES: dict[str, tuple[str, tuple[str, ...]]] = {
    # -- checkpoints: each is read by fit, by validate and by export ---------------------------------------------
    **{
        f"{name} {verb}": (command + argument, parts)
        for verb, command in (("to go on from", GRPO), ("to measure", VALIDATE), ("to export", "export "))
        for name, argument, parts in (
            ("a text file", "text.ckpt", ("text.ckpt is not a checkpoint", "give a .ckpt")),
            (
                "a foreign torch file",
                "foreign.ckpt",
                ("foreign.ckpt is not a checkpoint: it holds the keys a", "give"),
            ),
            ("a tensor", "tensor.ckpt", ("tensor.ckpt is not a checkpoint", "Tensor", "give a .ckpt")),
            ("an empty file", "empty.ckpt", ("empty.ckpt is not a checkpoint", "it is empty")),
            ("a truncated checkpoint", "cut.ckpt", ("cut.ckpt is not a whole checkpoint", "take an earlier one")),
            ("objects of classes", "objects.ckpt", ("objects.ckpt is not a checkpoint", "PosixPath")),
            ("an empty folder", "nothing", ("nothing", "no checkpoint", "the folder of a run")),
            (
                "a folder that is no run",
                "saved_model",
                ("saved_model", "a model and no checkpoint", "model.policy.model"),
            ),
        )
        for argument in [argument + " out" * (verb == "to export")]
    },
    "a run of another model": (
        GRPO + "run --model.policy.config.hidden_size 24",
        ("the checkpoint is of another model", "weights differ in name or shape", "the configuration it was made with"),
    ),
    "an export as another model": (
        "export run out --config other.yaml",
        ("the checkpoint is of another model", "export it with the configuration it was made with"),
    ),
    "a run of PPO": (GRPO + "run_ppo.ckpt", ("is of another model", "for example critic.")),
    "a run of SFT": (GRPO + "run_sft.ckpt", ("counts no rollouts", "GRPO", "lit-rl export")),
    "a run of GRPO for SFT": ("fit --config sft.yaml --ckpt_path run", ("counts rollouts", "SFT", "lit-rl export")),
    "an export without its configuration": ("export bare.ckpt out", ("holds no configuration", "give --config FILE")),
    "an export with another file": ("export bare.ckpt out --config list.yaml", ("list.yaml", "not a configuration")),
    "an export to a full folder": ("export run saved_model", ("saved_model is not empty", "or --overwrite true")),
    "an export over something else": (
        "export run full --overwrite true",
        ("full is not empty: give a new folder, for it holds no model to overwrite",),
    ),
    # -- models --------------------------------------------------------------------------------------------------
    "a run as model": (policy(model="./run"), ("./run holds checkpoints of a run", "lit-rl export ./run FOLDER")),
    "a checkpoint as model": (
        policy(model="./bare.ckpt", tokenizer=TOKENIZER),
        ("./bare.ckpt holds checkpoints of a run", "lit-rl export ./bare.ckpt FOLDER"),
    ),
    "a run as tokenizer": (policy(model="./saved_model", tokenizer="./run"), ("./run holds checkpoints of a run",)),
    "a torn tokenizer": (
        policy(model="./saved_model", tokenizer="./torn_tokenizer"),
        ("torn_tokenizer", "model.policy.tokenizer", "cannot be read", "; fetch or export it again"),
    ),
    "weights of another size than config.json says": (
        policy(model="./other_sizes", tokenizer=TOKENIZER),
        (
            "the model in ",
            "other_sizes (model.policy.model) cannot be read: its config.json gives other sizes",
        ),
    ),
    "weights that a file lacks": (
        policy(model="./few_weights", tokenizer=TOKENIZER),
        ("few_weights (model.policy.model) lacks weights", "model.norm.weight first", "take both from one model"),
    ),
    "a replay of a checkpoint": ("replay bare.ckpt", ("bare.ckpt is a checkpoint, which holds no completions: give",)),
    "a replay of an empty file": (
        "replay empty.jsonl --config base.yaml",
        ("empty.jsonl holds no completions: give a run's folder",),
    ),
    "weights that are NaN": (
        policy(model="./nan_weights", tokenizer=TOKENIZER),
        ("would be trained on wrong log-probabilities",),
    ),
    "a model below a variable that is not set": (
        policy(model="$LIT_RL_UNSET/model", tokenizer=TOKENIZER),
        ("$LIT_RL_UNSET/model: the environment variable LIT_RL_UNSET is not set",),
    ),
    "an empty folder as model": (policy(model="./nothing"), ("nothing holds no model (model.policy.model): give",)),
    "a configuration without a type": (
        policy(model="./no_type", tokenizer="package:lit_rl/data/basics/tokenizer"),
        ("no_type", "model_type", "model.policy.model", "; fetch or export it again"),
    ),
    "an architecture of tomorrow": (
        policy(model="./tomorrow", tokenizer="package:lit_rl/data/basics/tokenizer"),
        ("the installed transformers does not know its architecture; upgrade that",),
    ),
    "a configuration without weights": (
        policy(model="./no_weights", tokenizer="package:lit_rl/data/basics/tokenizer"),
        ("no_weights", "model.policy.model", "safetensors", "; fetch or export it again"),
    ),
    "a configuration that is no JSON": (
        policy(model="./no_json", tokenizer="package:lit_rl/data/basics/tokenizer"),
        ("no_json", "config.json", "JSON", "; fetch or export it again"),
    ),
    "weights that are cut": (
        policy(model="./cut_weights", tokenizer="package:lit_rl/data/basics/tokenizer"),
        ("cut_weights", "model.policy.model", "is cut", "fetch or export it again"),
    ),
    "a tokenizer folder without files": (
        policy(model="./saved_model", tokenizer="./nothing"),
        ("nothing holds no tokenizer", "model.policy.tokenizer"),
    ),
    "a model without its tokenizer": (
        policy(model="./saved_model"),
        ("saved_model holds no tokenizer", "model.policy.tokenizer"),
    ),
    "a hub id without network": (
        policy(model="nobody/nothing"),
        ("nobody/nothing", "model.policy.model", "folder", "HF_HUB_OFFLINE"),
    ),
    "a type of model that there is not": (
        "--model.policy.config.model_type qwen22",
        ("qwen22", "model.policy.config", "did you mean qwen2"),
    ),
    "a new model without a type": (
        policy(config={"hidden_size": 8}, tokenizer="package:lit_rl/data/basics/tokenizer"),
        ("model.policy.config", "model_type"),
    ),
    # -- adapters ------------------------------------------------------------------------------------------------
    "an adapter whose base is missing": (
        policy(model="./lost_base", tokenizer=TOKENIZER),
        ("lost_base", "its base", "not/there", "base_model_name_or_path"),
    ),
    "an adapter of another base": (
        policy(model="./wrong_base", tokenizer=TOKENIZER),
        ("wrong_base", "is of another base than", "base_model_name_or_path"),
    ),
    "an adapter without weights": (
        policy(model="./bare_adapter", tokenizer=TOKENIZER),
        ("bare_adapter", "model.policy.model", "adapter_model.safetensors; fetch or export it again"),
    ),
    "LoRA on layers that there are not": (
        """--model.policy.lora '{"rank": 2, "target_modules": ["c_attn"]}'""",
        ("target_modules", "c_attn", "q_proj"),
    ),
    "LoRA on an adapter": (
        policy(model="./adapter", tokenizer=TOKENIZER, lora={"rank": 2}),
        ("holds an adapter already", "leave lora out"),
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, models and adapters, and what is wrong in the ways in which such things are wrong."""
    here = tmp_path_factory.mktemp("files")
    write_configurations(here)
    write_checkpoints(here)
    write_models(here)
    write_adapters(here)
    return here


def write_configurations(here: Path) -> None:
    other, sft = copy.deepcopy(BASE), copy.deepcopy(BASE)
    other["model"]["init_args"]["policy"]["init_args"]["config"]["vocab_size"] = 999
    policy = BASE["model"]["init_args"]["policy"]
    sft_arguments = {"policy": policy, "max_updates": 1, "sandbox": "lit_rl.execution.Sandbox"}
    sft["model"] = {"class_path": "lit_rl.modules.SFT", "init_args": sft_arguments}
    for name, config in (("base", BASE), ("other", other), ("sft", sft)):
        (here / f"{name}.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (here / "list.yaml").write_text("- a\n")


def write_checkpoints(here: Path) -> None:
    """One real run without training, its checkpoint as other modules would have written it, and damaged ones."""
    module = lit_rl.GRPO(
        CausalLM(config=TINY, tokenizer=TOKENIZER),
        sampling=lit_rl.Sampling(num_samples=2),
        rewards=[lit_rl.TestsReward()],
    )
    module.load_weights()
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
    critic = {"critic.model.weight": torch.zeros(2)}
    torch.save(whole | {"state_dict": whole["state_dict"] | critic}, here / "run_ppo.ckpt")
    (here / "text.ckpt").write_text("not a checkpoint\n")
    (here / "empty.ckpt").touch()
    torch.save({"a": 1}, here / "foreign.ckpt")
    torch.save(torch.zeros(3), here / "tensor.ckpt")
    torch.save({"state_dict": {}, "place": Path("a")}, here / "objects.ckpt")
    content = (here / "run" / "last.ckpt").read_bytes()
    (here / "cut.ckpt").write_bytes(content[: len(content) // 2])


def write_models(here: Path) -> None:
    model = tiny_model(here / "saved_model")
    tiny_model(here / "cut_weights")
    weights = here / "cut_weights" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    written = {"no_type": "{}", "no_json": "{'a': ", "tomorrow": '{"model_type": "qwen99"}'}
    for name, config in (*written.items(), ("no_weights", model.config.to_json_string())):
        (here / name).mkdir()
        (here / name / "config.json").write_text(config)
    kept = {name: weight for name, weight in model.state_dict().items() if name != "model.norm.weight"}
    model.save_pretrained(here / "few_weights", state_dict=kept)
    model.save_pretrained(here / "other_sizes")
    (here / "other_sizes" / "config.json").write_text(json.dumps(model.config.to_dict() | {"hidden_size": 64}))
    (here / "empty.jsonl").touch()
    (here / "nothing").mkdir()
    (here / "full").mkdir()
    (here / "full" / "notes.txt").write_text("mine")
    with torch.no_grad():
        model.get_input_embeddings().weight[0, 0] = torch.nan
    model.save_pretrained(here / "nan_weights")
    whole = CausalLM(config=TINY, tokenizer=TOKENIZER)
    whole.load_tokenizer()
    whole.tokenizer.save_pretrained(here / "torn_tokenizer")
    torn = here / "torn_tokenizer" / "tokenizer.json"
    torn.write_bytes(torn.read_bytes()[:1000])


def tiny_model(folder: Path, **lora: Any) -> Any:
    """A model as transformers saves it, without a tokenizer; with an adapter only that is saved."""
    policy = CausalLM(config=TINY, tokenizer=TOKENIZER, probe=False, **lora)
    policy.load()
    policy.model.save_pretrained(folder)
    return policy.model


def write_adapters(here: Path) -> None:
    tiny_model(here / "made", lora=LoRA(rank=2))
    other = CausalLM(config=TINY | {"hidden_size": 32}, tokenizer=TOKENIZER, probe=False)
    other.load()
    other.model.save_pretrained(here / "other_model")
    (made,) = (here / "made").glob("**/adapter_config.json")
    bases = {
        "adapter": "saved_model",
        "lost_base": "not/there/at/all",
        "wrong_base": "other_model",
        "bare_adapter": "saved_model",
    }
    for name, base in bases.items():
        (here / name).mkdir()
        config = json.loads(made.read_text()) | {"base_model_name_or_path": str(here / base)}
        (here / name / "adapter_config.json").write_text(json.dumps(config))
        if name != "bare_adapter":
            weights = made.parent / "adapter_model.safetensors"
            (here / name / weights.name).write_bytes(weights.read_bytes())


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_in_one_line(
    mistake: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, parts = MISTAKES[mistake]
    monkeypatch.chdir(folder)
    line = one_line(command, capsys)
    assert [part for part in parts if part not in line] == [], line
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
    policy = CausalLM(str(adapter))
    policy.load()
    assert policy.tokenizer("def f")["input_ids"] == whole.tokenizer("def f")["input_ids"]


def test_a_base_with_fewer_layers_is_no_base_of_an_adapter(folder: Path) -> None:
    """PEFT leaves out the weights of the layers that are missing, with a warning."""
    deep = CausalLM(config=TINY | {"num_hidden_layers": 2}, tokenizer=TOKENIZER, lora=LoRA(rank=2))
    deep.load()
    deep.model.save_pretrained(folder / "deep")
    (home,) = (folder / "deep").glob("**/adapter_config.json")
    home.write_text(json.dumps(json.loads(home.read_text()) | {"base_model_name_or_path": str(folder / "saved_model")}))
    with pytest.raises(ValueError, match=r"is of another base than .*saved_model: 14 weights are of one only"):
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
        CausalLM("nobody/nothing").load()
    with pytest.raises(
        ValueError, match=r"nobody/nothing \(model.policy.model\) is neither a folder .*HF_HUB_OFFLINE=1"
    ):
        CausalLM("nobody/nothing", tokenizer=TOKENIZER).load()
    assert not slept, "retries wait"


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
    adapted = CausalLM(model, tokenizer=TOKENIZER, lora=LoRA(rank=2))
    adapted.load()
    assert all(".lora_" in name for name, one in adapted.named_parameters() if one.requires_grad)
    with pytest.raises(ValueError, match="a model without adapters, got one of PEFT"):
        CausalLM(adapted.model, tokenizer=TOKENIZER)
    with pytest.raises(ValueError, match="expected a causal language model of transformers, got Linear"):
        CausalLM(torch.nn.Linear(1, 1), tokenizer=TOKENIZER)
