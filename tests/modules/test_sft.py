"""SFT: only completions are learned, in any split, with adapters or over a 4-bit base."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.small_runs import Words, adam, fit, grouped, weights
from support.tiny_models import TINY_QWEN2

import lit_rl.models.loading.weights as loading
from lit_rl.execution import ReferenceText
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.adapters import using_adapter
from lit_rl.modules import SFT
from lit_rl.types import Problem

Make = Callable[..., SFT]


class Shown(Words):
    """Prompts and demonstrations of unequal length."""

    name = "shown"

    def load_problems(self, split: Any) -> list[Problem]:
        return [
            Problem(f"{split}{i}", "w" * (1 + i % 5), ReferenceText(""), fields={"demonstration": "abc" * (1 + i % 3)})
            for i in range(6)
        ]


@pytest.fixture
def make_sft(byte_tokenizer: str) -> Make:
    """Builds SFT on a tiny policy in double precision, with plain SGD."""

    def make(policy: dict[str, Any] | None = None, **kwargs: Any) -> SFT:
        options: dict[str, Any] = {"config": TINY_QWEN2, "tokenizer": byte_tokenizer, "dtype": "float64"}
        defaults: dict[str, Any] = {
            "optimizer": lambda params: torch.optim.SGD(params, lr=0.5),
            "gradient_clip_norm": None,
            "max_updates": 1,
        }
        return SFT(CausalLM(**(options | (policy or {}))), **grouped(SFT, **(defaults | kwargs)))

    return make


def test_one_update_is_a_step_down_the_mean_over_completion_tokens_and_eos(make_sft: Make, tmp_path: Path) -> None:
    """Items 1, 8: every token of every demonstration weighs the same, EOS is one of them, the prompt none."""
    module = make_sft()
    fit(module, tmp_path, data=Shown(batch_size=6))
    twin: Any = make_sft().policy
    twin.load()
    total, count = torch.tensor(0.0, dtype=torch.float64), 0
    for problem in Shown().problems("train"):
        prompt = twin.tokenizer(problem.prompt)["input_ids"]
        answer = [*twin.tokenizer(problem.fields["demonstration"])["input_ids"], twin.tokenizer.eos_token_id]
        logits = twin.model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        total = total - logits.log_softmax(-1).gather(-1, torch.tensor(answer)[:, None]).sum()
        count += len(answer)
    (total / count).backward()
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter -= 0.5 * parameter.grad
    moved = torch.cat([p.detach().flatten() for p in twin.parameters()])
    assert (weights(module) - moved).abs().max() < 1e-12


def test_adapters_learn_and_the_base_stands_still(make_sft: Make, tmp_path: Path) -> None:
    """With adapters off the model is the one before training, to the last bit."""
    module = make_sft({"lora": LoRA(rank=2)}, optimizer=adam, max_updates=3)
    fit(module, tmp_path, data=Shown(batch_size=6))
    fresh: Any = make_sft().policy
    fresh.load()
    policy: Any = module.policy
    problems = Shown().problems("train")
    shown = fresh.codec.as_completions(problems, ["abc"] * len(problems))
    with torch.no_grad(), using_adapter(policy.model, None):
        assert torch.equal(policy.logprobs(shown), fresh.logprobs(shown))
    with torch.no_grad():
        assert (policy.logprobs(shown) - fresh.logprobs(shown)).sum() > 1.0
    assert all(".policy." in name for name in module.state_dict())


def test_validation_loss_is_the_mean_over_all_tokens_however_they_are_batched(make_sft: Make) -> None:
    losses = []
    for size in (4, 6):
        trainer = pl.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False)
        task = Shown(validation_batch_size=size)
        losses.append(trainer.validate(make_sft(), task, verbose=False)[0]["val/loss"])
    # Random weights know nothing of 258 bytes.
    assert losses[0] == pytest.approx(math.log(258), abs=0.3)
    assert losses[1:] == pytest.approx(losses[:1], abs=1e-6)


def test_a_problem_without_a_demonstration_is_refused(make_sft: Make, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither a demonstration nor a reference"):
        fit(make_sft(), tmp_path, data=Words(batch_size=2))


# -- a base in 4 bits --------------------------------------------------------------------------------------


@pytest.fixture
def saved(byte_tokenizer: str, tmp_path: Path) -> str:
    """Folder of a model wide enough for blocks of 64 weights."""
    wide = TINY_QWEN2 | {"hidden_size": 64, "intermediate_size": 128}
    policy = CausalLM(config=wide, tokenizer=byte_tokenizer)
    policy.load()
    policy.save_pretrained(tmp_path / "saved")
    return str(tmp_path / "saved")


class Losses(pl.Callback):
    """Keeps the loss of each update."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
        self.seen.append(float(trainer.callback_metrics["sft/loss"]))


def test_adapters_over_a_base_in_4_bits_learn_as_over_the_base_itself(
    make_sft: Make, saved: str, tmp_path: Path
) -> None:
    bitsandbytes = pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed (extra qlora)")
    curves = []
    for quantization in (None, "4bit"):
        options = {"model": saved, "config": None, "lora": LoRA(rank=4), "dtype": "float32"}
        module = make_sft(options | {"quantization": quantization}, optimizer=adam, max_updates=4)
        losses = Losses()
        fit(module, tmp_path, data=Shown(batch_size=6), callbacks=[losses])
        curves.append(losses.seen)
    assert curves[0][-1] < curves[0][0] - 0.4
    assert curves[1] == pytest.approx(curves[0], abs=0.2)
    policy: Any = module.policy
    assert any(isinstance(layer, bitsandbytes.nn.Linear4bit) for layer in policy.model.modules())
    assert all(".policy." in name for name in module.state_dict())


def test_without_bitsandbytes_the_message_names_the_extra(make_sft: Make, saved: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    options = {"model": saved, "config": None, "lora": LoRA(rank=4), "quantization": "4bit"}
    with pytest.raises(ModuleNotFoundError, match=r"bitsandbytes: pip install 'lit-rl\[qlora\]'"):
        make_sft(options).policy.load()


def test_4_bits_without_adapters_are_refused(saved: str) -> None:
    with pytest.raises(ValueError, match="give model and lora"):
        CausalLM(saved, quantization="4bit")
