"""Exported models are those that were trained; a converted GGUF file is the model that was written into it."""

from __future__ import annotations

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
import yaml
from lightning.pytorch.callbacks import ModelCheckpoint
from support.ranks import on_ranks
from support.small_runs import EvenBytes, Words, fit
from support.tiny_models import TINY_QWEN2, loaded
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from lit_rl.callbacks import Checkpointing
from lit_rl.cli.export import build_policy, load_run_config, model_card_text
from lit_rl.cli.main import Cli, main
from lit_rl.data import Basics
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.loading.export import load_policy_weights, write_policy_folder
from lit_rl.models.loading.gguf import convert_gguf
from lit_rl.models.loading.sources import resolve_model_source
from lit_rl.modules import GRPO, UpdateConfig
from lit_rl.modules.module_config import describe_task_prompts
from lit_rl.types import Problem, Sampling

PROMPT = "def f(x):"


def at(path: str, **arguments: Any) -> dict[str, Any]:
    return {"class_path": path, "init_args": arguments}


def config(tmp_path: Path, tokenizer: str, *, lora: bool, strategy: str) -> str:
    """A run of two updates with a critic, on the model in ``base``, as a file."""
    adapters = {"rank": 2} if lora else None
    policy = at("lit_rl.models.CausalLM", model=str(tmp_path / "base"), tokenizer=tokenizer, lora=adapters)
    saves = at("lit_rl.callbacks.Checkpointing", folder=str(tmp_path / "run"))
    trainer = {"accelerator": "cpu", "strategy": strategy, "devices": 2 if strategy == "fsdp2" else 1}
    trainer |= {"logger": False, "enable_progress_bar": False, "default_root_dir": str(tmp_path)}
    trainer |= {"val_check_interval": 2, "callbacks": [saves, at("lit_rl.callbacks.ExecutionEvaluation")]}
    model = at(
        "lit_rl.modules.PPO",
        policy=policy,
        critic=at("lit_rl.models.SharedCritic" if lora else "lit_rl.models.SeparateCritic"),
        rewards=[at("support.small_runs.EvenBytes")],
        update={"optimizer": at("torch.optim.Adam", lr=0.05)},
        sampling={"num_samples": 4, "max_tokens": 6},
        max_rollouts=2,
    )
    file = tmp_path / "run.yaml"
    data = at("support.small_runs.Words", batch_size=2)
    file.write_text(yaml.safe_dump({"trainer": trainer, "model": model, "data": data}))
    return str(file)


def saved_base(tokenizer: str, folder: Path) -> CausalLM:
    base = loaded(tokenizer)
    base.save_pretrained(folder / "base")
    return base


def greedy(model: Any, tokenizer: Any) -> list[int]:
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        done = model.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=257)
    written: list[int] = done[0].tolist()
    return written


@pytest.mark.parametrize(
    ("strategy", "lora", "merge"),
    [
        ("auto", True, False),
        pytest.param("fsdp2", False, False, marks=pytest.mark.slow),
        ("fsdp2", True, True),
    ],
)
def test_an_exported_folder_writes_what_the_trained_policy_writes(
    byte_tokenizer: str, tmp_path: Path, strategy: str, lora: bool, merge: bool
) -> None:
    """One process and two with shards; all weights, an adapter, and an adapter added to its base."""
    base = saved_base(byte_tokenizer, tmp_path)
    file = config(tmp_path, byte_tokenizer, lora=lora, strategy=strategy)
    tokenizer = AutoTokenizer.from_pretrained(byte_tokenizer)

    def train() -> Any:
        cli = Cli(["fit", "-c", file])
        policy: Any = cli.model.policy
        state = {n: p.full_tensor() if hasattr(p, "full_tensor") else p for n, p in policy.named_parameters()}
        return {name: value.detach().numpy().copy() for name, value in state.items()}

    trained = on_ranks(train)[0] if strategy == "fsdp2" else train()
    start = greedy(base.model, tokenizer)
    live = loaded(byte_tokenizer, model=str(tmp_path / "base"), lora=LoRA(rank=2) if lora else None)
    load_policy_weights(live, {f"policy.{n}": torch.from_numpy(w) for n, w in trained.items() if ".critic." not in n})
    expected = greedy(live.model, tokenizer)
    assert expected != start

    folder = tmp_path / "exported"
    main(["export", str(tmp_path / "run"), str(folder), "--merge", str(merge).lower()])
    exported = AutoModelForCausalLM.from_pretrained(folder)  # reads adapters through peft
    assert (folder / "adapter_config.json").exists() == (lora and not merge)
    assert greedy(exported, AutoTokenizer.from_pretrained(folder)) == expected
    assert "| val/greedy/reward/mean | " in (folder / "README.md").read_text()


@pytest.mark.parametrize(("saver", "lora"), [("ours", None), ("Lightning's", LoRA(rank=2, alpha=8.0))])
def test_a_run_made_in_python_is_exported_from_its_checkpoint(
    byte_tokenizer: str, tmp_path: Path, saver: str, lora: LoRA | None
) -> None:
    base = saved_base(byte_tokenizer, tmp_path)
    policy = CausalLM(str(tmp_path / "base"), tokenizer=byte_tokenizer, lora=lora)
    update = UpdateConfig(optimizer=lambda params: torch.optim.SGD(params, lr=5.0))
    sampling = Sampling(num_samples=4, max_tokens=6)
    module = GRPO(policy, sampling=sampling, rewards=[EvenBytes()], update=update, max_rollouts=3)
    run = tmp_path / "run"
    theirs = ModelCheckpoint(run, filename="last", every_n_train_steps=3)
    fit(module, tmp_path, callbacks=[Checkpointing(run) if saver == "ours" else theirs], enable_checkpointing=True)
    main(["export", str(run), str(tmp_path / "out"), "--merge", "true"])
    tokenizer = AutoTokenizer.from_pretrained(byte_tokenizer)
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert greedy(exported, tokenizer) == greedy(policy.model, tokenizer) != greedy(base.model, tokenizer)


CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Solve {prompt} now."}]


@pytest.mark.parametrize(("chat", "stops"), [(None, ["\n\n", "```"]), (CHAT, [])])
def test_an_export_carries_the_stop_strings_and_the_chat_of_its_task(
    byte_tokenizer: str, tmp_path: Path, chat: list[dict[str, str]] | None, stops: list[str]
) -> None:
    """The card's code runs, and ends where training did."""
    tokenizer = AutoTokenizer.from_pretrained(byte_tokenizer)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    policy = CausalLM(config=TINY_QWEN2, tokenizer=str(tmp_path / "tokenizer"))
    module = GRPO(policy, sampling=Sampling(num_samples=2, max_tokens=2), rewards=[EvenBytes()], max_rollouts=1)
    task = Words(batch_size=2, chat=chat, stop_strings=stops)
    fit(module, tmp_path, data=task, callbacks=[Checkpointing(tmp_path / "run")], enable_checkpointing=True)
    out = tmp_path / "out"
    main(["export", str(tmp_path / "run"), str(out)])
    assert GenerationConfig.from_pretrained(out).stop_strings == (stops or None)
    card = (out / "README.md").read_text()
    names: dict[str, Any] = {}
    exec(card.split("```python\n")[1].split("```\n\n## ")[0].replace("FOLDER_OR_HUB_ID", str(out)), names)
    assert names["prompt"] == (chat or "def add(a, b):")


class Chats(Words):
    shown = ({"role": "user", "content": "Write g."}, {"role": "assistant", "content": "g = 1"})

    def load_problems(self, split: Any) -> list[Problem]:
        asked = [{"role": "user", "content": f"Write {name}. End with a dot."} for name in ("fa", "fab", "fba")]
        return [Problem(str(i), (*self.shown, last), TokenTarget()) for i, last in enumerate(asked)]


def test_a_card_asks_with_all_that_the_chats_of_the_problems_share() -> None:
    described = describe_task_prompts(Chats())
    assert described["chat"] == [*Chats.shown, {"role": "user", "content": "Write f{prompt}. End with a dot."}]
    instructed = describe_task_prompts(Basics(form="instruct", num_train_problems=26, num_validation_problems=26))
    assert "Python function" in instructed["chat"][-1]["content"]


def test_what_decides_over_the_weights_is_kept_whatever_its_type(byte_tokenizer: str) -> None:
    """A checkpoint stays readable: a mapping that is no dict is text in it, and small numbers stay numbers."""
    fields = MappingProxyType({**TINY_QWEN2, "rms_norm_eps": 1e-06})
    module = GRPO(CausalLM(config=fields, tokenizer=byte_tokenizer), rewards=[EvenBytes()])
    checkpoint: dict[str, Any] = {}
    module.on_save_checkpoint(checkpoint)
    policy = build_policy(load_run_config(checkpoint, ()))
    assert policy.config == dict(fields) and policy.tokenizer_source == byte_tokenizer


def test_a_folder_with_something_in_it_is_left_alone_and_files_have_the_mode_of_new_ones(
    tiny_policy: CausalLM, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FileExistsError, match="is not empty: give a new folder"):
        write_policy_folder(tiny_policy, tmp_path, merge=False)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
    write_policy_folder(tiny_policy, tmp_path / "out", merge=False)
    mode = (tmp_path / "mine").stat().st_mode
    assert {file.stat().st_mode for file in (tmp_path / "out").iterdir()} == {mode}


def test_a_card_carries_pass_rates_and_no_folder_of_one_machine(tmp_path: Path) -> None:
    model = {"class_path": "m.GRPO", "init_args": {"policy": {"init_args": {"model": str(tmp_path)}}}}
    config = {"model": model, "data": {"class_path": "lit_rl.data.Basics"}}
    measured = {"rollout_step": 5, "metrics": {"val/greedy/pass@1": 0.8125, "val/greedy/loss": 1.0}}
    text = model_card_text(measured, config, "x.ckpt", "model")
    assert "base_model" not in yaml.safe_load(text.split("---\n")[1])
    assert "| val/greedy/pass@1 | 0.8125 |" in text and "loss" not in text


def test_a_converted_file_is_a_plain_model_that_adapters_can_be_trained_on(
    byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transformers still calls the unpacked model quantized; how it reads the file is left to transformers."""
    unpacked = saved_base(byte_tokenizer, tmp_path).model
    unpacked.config.quantization_config, unpacked.is_quantized = {"quant_method": "gguf"}, True
    tokenizer = AutoTokenizer.from_pretrained(byte_tokenizer)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: unpacked)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_, **__: tokenizer)
    (tmp_path / "tiny.gguf").touch()
    convert_gguf(str(tmp_path / "tiny.gguf"), str(tmp_path / "model"))
    monkeypatch.undo()
    assert "quantization_config" not in json.loads((tmp_path / "model" / "config.json").read_text())
    policy = loaded(model=str(tmp_path / "model"), lora=LoRA(rank=2))
    assert greedy(policy.model, tokenizer) == greedy(unpacked, tokenizer)


def test_a_package_that_ships_a_file_is_found_and_its_code_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "ships_a_model"
    package.mkdir()
    (package / "__init__.py").write_text("import something_that_is_not_installed\n")
    (package / "tiny.gguf").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert resolve_model_source("package:ships_a_model") == str(package)
    assert resolve_model_source("package:ships_a_model/tiny.gguf") == str(package / "tiny.gguf")
