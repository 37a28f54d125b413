"""Adapters beside a frozen base: which of them score, learn, and stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from support.tiny_models import TINY_QWEN2

from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.adapters import REFERENCE, using_adapter
from lit_rl.types import Completions, Problem


@pytest.fixture
def folder(byte_tokenizer: str, tmp_path: Path) -> Path:
    """A PEFT folder whose adapter also trains and saves a norm and the output matrix."""
    base = CausalLM(config=TINY_QWEN2 | {"tie_word_embeddings": False}, tokenizer=byte_tokenizer)
    base.load()
    base.save_pretrained(tmp_path / "base")
    again = CausalLM(str(tmp_path / "base"))
    again.load()
    config = LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["norm", "lm_head"], task_type="CAUSAL_LM")
    model: Any = get_peft_model(again.model, config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    model.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def rows(policy: CausalLM) -> Completions:
    return policy.codec.as_completions([Problem("a", "abc", TokenTarget())], ["xyz"])


def move(policy: CausalLM) -> None:
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3)


def test_whole_layers_of_an_adapter_stay_in_the_reference(folder: Path, byte_tokenizer: str) -> None:
    policy = CausalLM(str(folder), tokenizer=byte_tokenizer)
    policy.load()
    reference = policy.make_reference()
    done = rows(policy)
    start = policy.logprobs(done).detach()
    move(policy)
    assert torch.equal(reference.logprobs(done), start)
    moved = policy.logprobs(done).detach()
    assert not torch.allclose(moved, start)
    reference.refresh()
    assert torch.equal(reference.logprobs(done), moved)


def test_adapters_off_is_the_base_with_its_own_whole_layers(folder: Path, byte_tokenizer: str) -> None:
    base, policy = CausalLM(str(folder.parent / "base")), CausalLM(str(folder), tokenizer=byte_tokenizer)
    base.load()
    policy.load()
    done = rows(policy)
    with torch.no_grad(), using_adapter(policy.model, None):
        assert torch.equal(policy.logprobs(done), base.logprobs(done))
    assert not torch.allclose(policy.logprobs(done), base.logprobs(done))


def test_a_reference_adapter_never_learns(folder: Path, byte_tokenizer: str) -> None:
    """Item 48: loaded beside a continued adapter, and made for a reference that will move."""
    continued = CausalLM(str(folder), tokenizer=byte_tokenizer)
    continued.load()
    fresh = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer, lora=LoRA(rank=2))
    fresh.load()
    reference = fresh.make_reference(will_refresh=True)
    reference.refresh()
    for policy in (continued, fresh):
        learning = {name: p.requires_grad for name, p in policy.named_parameters()}
        assert any(f".{REFERENCE}." in name for name in learning)
        assert not any(learns for name, learns in learning.items() if f".{REFERENCE}." in name)
        assert any(learns for name, learns in learning.items() if ".policy." in name)


@pytest.mark.parametrize("family", ["falcon_h1", "phimoe"])
def test_layers_that_adapters_cannot_wrap_are_left_out(byte_tokenizer: str, family: str) -> None:
    from support.families import config_of

    policy = CausalLM(config=config_of(family), tokenizer=byte_tokenizer, lora=LoRA(rank=2))
    policy.load()
    adapted = {name.split(".lora_")[0].rpartition(".")[2] for name, _ in policy.named_parameters() if ".lora_" in name}
    assert "q_proj" in adapted and not adapted & {"out_proj", "conv1d", "router"}
