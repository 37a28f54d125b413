"""Exported models are those that were trained."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
import yaml
from lightning.pytorch.callbacks import ModelCheckpoint
from support.ranks import on_ranks
from support.small_runs import EvenBytes, Words, fit
from support.tiny_models import TINY_QWEN2
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from lit_rl.callbacks import Checkpointing
from lit_rl.cli.export import card, config_of, policy_of
from lit_rl.cli.main import Cli, main
from lit_rl.data.task import Split
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.loading.checkpoints import load_weights, write_model
from lit_rl.modules import GRPO, Update
from lit_rl.modules.checkpoint import describe_task
from lit_rl.types import Problem, Sampling

PROMPT = "def f(x):"


def config(tmp_path: Path, tokenizer: str, *, lora: bool, source: str | None, strategy: str = "auto") -> str:
    """A run of two updates with a critic, as a file."""
    policy: dict[str, Any] = {"tokenizer": tokenizer, "model": source, "config": None if source else dict(TINY_QWEN2)}
    policy["lora"] = {"rank": 2} if lora else None
    critic = "SharedCritic" if lora else "SeparateCritic"
    run = {
        "trainer": {
            "accelerator": "cpu",
            "strategy": strategy,
            "devices": 2 if strategy == "fsdp2" else 1,
            "max_epochs": -1,
            "logger": False,
            "enable_progress_bar": False,
            "default_root_dir": str(tmp_path),
            "val_check_interval": 2,
            "check_val_every_n_epoch": None,
            "callbacks": [
                {"class_path": "lit_rl.callbacks.Checkpointing", "init_args": {"folder": str(tmp_path / "run")}},
                {"class_path": "lit_rl.callbacks.ExecutionEvaluation"},
            ],
        },
        "model": {
            "class_path": "lit_rl.modules.PPO",
            "init_args": {
                "policy": {"class_path": "lit_rl.models.CausalLM", "init_args": policy},
                "critic": {"class_path": f"lit_rl.models.{critic}"},
                "rewards": [{"class_path": "support.small_runs.EvenBytes"}],
                "update": {"optimizer": {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.05}}},
                "sampling": {"num_samples": 4, "max_tokens": 6},
                "max_rollouts": 2,
            },
        },
        "data": {"class_path": "support.small_runs.Words", "init_args": {"batch_size": 2}},
    }
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(run))
    return str(file)


def saved_base(tokenizer: str, folder: Path) -> CausalLM:
    """A new policy, written to the folder ``base``."""
    base = CausalLM(config=TINY_QWEN2, tokenizer=tokenizer)
    base.load()
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
        pytest.param("auto", False, False, marks=pytest.mark.slow),
        pytest.param("auto", True, False, marks=pytest.mark.slow),
        pytest.param("auto", True, True, marks=pytest.mark.slow),
        pytest.param("fsdp2", False, False, marks=pytest.mark.slow),
        pytest.param("fsdp2", True, False, marks=pytest.mark.slow),
        ("fsdp2", True, True),
    ],
)
def test_an_exported_folder_writes_what_the_trained_policy_writes(
    byte_tokenizer: str, tmp_path: Path, strategy: str, lora: bool, merge: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """One process and two with shards; all weights, an adapter, and an adapter added to its base."""
    base = saved_base(byte_tokenizer, tmp_path)
    file = config(tmp_path, byte_tokenizer, lora=lora, source=str(tmp_path / "base"), strategy=strategy)
    tokenizer = AutoTokenizer.from_pretrained(byte_tokenizer)

    def train() -> Any:
        cli = Cli(["fit", "-c", file])
        policy: Any = cli.model.policy
        state = {n: p.full_tensor() if hasattr(p, "full_tensor") else p for n, p in policy.named_parameters()}
        return {name: value.detach().numpy().copy() for name, value in state.items()}

    trained = on_ranks(train)[0] if strategy == "fsdp2" else train()
    start = greedy(base.model, tokenizer)
    live = CausalLM(str(tmp_path / "base"), tokenizer=byte_tokenizer, lora=LoRA(rank=2) if lora else None)
    live.load()
    load_weights(live, {f"policy.{n}": torch.from_numpy(w) for n, w in trained.items() if ".critic." not in n})
    expected = greedy(live.model, tokenizer)
    assert expected != start

    folder = tmp_path / "exported"
    main(["export", str(tmp_path / "run"), str(folder), "--merge", str(merge).lower()])
    exported = AutoModelForCausalLM.from_pretrained(folder)  # reads adapters through peft
    assert (folder / "adapter_config.json").exists() == (lora and not merge)
    assert greedy(exported, AutoTokenizer.from_pretrained(folder)) == expected
    written = (folder / "README.md").read_text()
    assert "| val/greedy/reward/mean | " in written and "pass@" not in written
    assert "Trained by lit_rl.modules.PPO of lit-rl" in written
    assert ": 2 rollouts, 2 updates." in written
    assert "rollout_000002.ckpt written to" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["export", str(tmp_path / "run"), str(tmp_path / "best"), "--ckpt_path", "best"])
    error = capsys.readouterr().err
    assert "no best checkpoint in " in error and "set Checkpointing's monitor" in error and error.count("\n") == 1


@pytest.mark.parametrize(("saver", "lora"), [("ours", None), ("Lightning's", LoRA(rank=2, alpha=8.0))])
def test_a_run_made_in_python_is_exported_from_its_checkpoint(
    byte_tokenizer: str, tmp_path: Path, saver: str, lora: LoRA | None
) -> None:
    base = saved_base(byte_tokenizer, tmp_path)
    policy = CausalLM(str(tmp_path / "base"), tokenizer=byte_tokenizer, lora=lora)
    module = GRPO(
        policy,
        sampling=Sampling(num_samples=4, max_tokens=6),
        rewards=[EvenBytes()],
        update=Update(optimizer=lambda params: torch.optim.SGD(params, lr=5.0)),
        max_rollouts=3,
    )
    run = tmp_path / "run"
    theirs = ModelCheckpoint(run, filename="last", every_n_train_steps=3)
    fit(module, tmp_path, callbacks=[Checkpointing(run) if saver == "ours" else theirs], enable_checkpointing=True)
    main(["export", str(run), str(tmp_path / "out"), "--merge", "true"])
    tokenizer = AutoTokenizer.from_pretrained(byte_tokenizer)
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    assert greedy(exported, tokenizer) == greedy(policy.model, tokenizer) != greedy(base.model, tokenizer)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "Trained by lit_rl.modules.grpo.GRPO" in card and "data:" not in card


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
    assert " on words: 1 rollouts" in card
    names: dict[str, Any] = {}
    exec(card.split("```python\n")[1].split("```\n\n## ")[0].replace("FOLDER_OR_HUB_ID", str(out)), names)
    assert names["prompt"] == (chat or "def add(a, b):")


def test_a_chat_of_the_tasks_own_has_a_placeholder_where_problems_differ() -> None:
    class Own(Words):
        """Questions that begin and end alike, after one message that is always the same."""

        def load_problems(self, split: Split) -> list[Problem]:
            chats = ("Write `sum`, please.", "Write `sub`, please.", "Write ``, please.")
            return [Problem(chat, (CHAT[0], {"role": "user", "content": chat}), TokenTarget()) for chat in chats]

    described = {"role": "user", "content": "Write `{prompt}`, please."}
    assert describe_task(Own()) == {"name": "words", "chat": [CHAT[0], described], "stop_strings": []}
    assert describe_task(Words()) == {"name": "words", "chat": [], "stop_strings": []}


def test_what_decides_over_the_weights_is_kept_whatever_its_type(byte_tokenizer: str) -> None:
    """A checkpoint stays readable: a mapping that is no dict is text in it, and small numbers stay numbers."""
    fields = MappingProxyType({**TINY_QWEN2, "rms_norm_eps": 1e-06})
    module = GRPO(CausalLM(config=fields, tokenizer=byte_tokenizer), rewards=[EvenBytes()])
    checkpoint: dict[str, Any] = {}
    module.on_save_checkpoint(checkpoint)
    policy = policy_of(config_of(checkpoint, ()))
    assert policy.config == dict(fields) and policy.tokenizer_source == byte_tokenizer

    class Mine(CausalLM):
        """One that says nothing of its constructor."""

    checkpoint = {}
    GRPO(Mine(config=TINY_QWEN2, tokenizer=byte_tokenizer), rewards=[EvenBytes()]).on_save_checkpoint(checkpoint)
    with pytest.raises(ValueError, match="holds no configuration"):
        config_of(checkpoint, ())


def test_a_folder_with_something_in_it_is_left_alone_and_files_have_the_mode_of_new_ones(
    tiny_policy: CausalLM, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(FileExistsError, match="is not empty: give a new folder"):
        write_model(tiny_policy, tmp_path, merge=False)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
    write_model(tiny_policy, tmp_path / "out", merge=False)
    mode = (tmp_path / "mine").stat().st_mode
    assert {file.stat().st_mode for file in (tmp_path / "out").iterdir()} == {mode}


def test_an_adapter_on_a_base_from_scratch_must_be_merged(byte_tokenizer: str, tmp_path: Path) -> None:
    policy = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer, lora=LoRA(rank=2))
    policy.load()
    with pytest.raises(ValueError, match="export with --merge true"):
        write_model(policy, tmp_path / "out", merge=False)


CONFIG = {
    "model": {"class_path": "m.GRPO", "init_args": {"policy": {"init_args": {"model": "org/base"}}}},
    "data": {"class_path": "lit_rl.data.Basics"},
}


def header_of(text: str) -> dict[str, Any]:
    header: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return header


def test_a_card_without_validation_says_so() -> None:
    text = card({"rollout_step": 5, "global_step": 10}, CONFIG, "rollout_000005.ckpt", "adapter")
    header = header_of(text)
    assert header["base_model"] == "org/base"
    assert header["library_name"] == "peft"
    assert header["pipeline_tag"] == "text-generation"
    assert "AutoPeftModelForCausalLM" in text
    assert "No validation ran before this checkpoint." in text


def test_a_card_carries_pass_rates_and_no_folder_of_one_machine(tmp_path: Path) -> None:
    policy = {"init_args": {"model": str(tmp_path)}}
    config = {**CONFIG, "model": {"class_path": "m.GRPO", "init_args": {"policy": policy}}}
    measured = {"rollout_step": 5, "metrics": {"val/greedy/pass@1": 0.8125, "val/greedy/loss": 1.0}}
    text = card(measured, config, "x.ckpt", "model")
    assert "base_model" not in header_of(text)
    assert "| val/greedy/pass@1 | 0.8125 |" in text and "loss" not in text


def test_a_policy_with_adapters_writes_a_folder_that_peft_loads(byte_tokenizer: str, tmp_path: Path) -> None:
    from peft import AutoPeftModelForCausalLM

    base = saved_base(byte_tokenizer, tmp_path)
    policy = CausalLM(str(tmp_path / "base"), lora=LoRA(rank=2))
    policy.load()
    with torch.no_grad():
        for name, weight in policy.model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.1)
    policy.save_pretrained(tmp_path / "adapter")
    assert not any(path.is_dir() for path in (tmp_path / "adapter").iterdir())
    loaded = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter")
    ids = torch.arange(10)[None]
    torch.testing.assert_close(loaded(ids).logits, policy.model(ids).logits)
    assert not torch.allclose(loaded(ids).logits, base.model(ids).logits)
