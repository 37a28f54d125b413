"""Whole weights are those of a checkpoint that transformers writes, adapters merged, sharded or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.ranks import on_ranks
from support.tiny_models import TINY_QWEN2
from torch.distributed.device_mesh import init_device_mesh

from lit_rl.data.toys.toy_models import CorridorPolicy
from lit_rl.engines.whole_weights import require_whole, whole_weights
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.adapters import POLICY
from lit_rl.training.ranks import shard

MIXTURE = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen2": {"tie_word_embeddings": True},
    "llama": {"tie_word_embeddings": False},
    "qwen3": {"head_dim": 8},
    "mixtral": MIXTURE,
    "qwen3_moe": MIXTURE,
    "gpt_neox": {},
}


def loaded(tokenizer: str, family: str = "qwen2", lora: bool = False) -> CausalLM:
    config = TINY_QWEN2 | FAMILIES[family] | {"model_type": family}
    policy = CausalLM(config=config, tokenizer=tokenizer, lora=LoRA(rank=2) if lora else None)
    policy.load()
    if lora:
        with torch.no_grad():
            for name, parameter in policy.named_parameters():
                if ".lora_B." in name:
                    parameter.normal_(0, 0.1, generator=torch.Generator().manual_seed(len(name)))
    return policy


def on_disk(model: Any, folder: Path) -> dict[str, torch.Tensor]:
    model.save_pretrained(folder)
    weights: dict[str, torch.Tensor] = load_file(folder / "model.safetensors")
    return weights


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_names_and_values_are_those_that_transformers_writes(byte_tokenizer: str, tmp_path: Path, family: str) -> None:
    """Experts of mixtures are fused in memory and apart on the disk; tied weights come once."""
    policy = loaded(byte_tokenizer, family)
    pairs = list(whole_weights(policy))
    assert len(pairs) == len(dict(pairs))
    assert_same(dict(pairs), on_disk(policy.model, tmp_path))


def test_tied_weights_come_under_each_name_where_that_is_asked_for(byte_tokenizer: str) -> None:
    policy = loaded(byte_tokenizer)
    once, each = dict(whole_weights(policy)), dict(whole_weights(policy, with_tied=True))
    assert each.keys() - once.keys() == {"lm_head.weight"}
    assert torch.equal(each["lm_head.weight"], once["model.embed_tokens.weight"])


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_adapters_are_merged_and_the_policy_stays_as_it_was(byte_tokenizer: str, tmp_path: Path, family: str) -> None:
    policy = loaded(byte_tokenizer, family, lora=True)
    before = {name: parameter.detach().clone() for name, parameter in policy.named_parameters()}
    found = {name: tensor.clone() for name, tensor in whole_weights(policy)}
    assert_same(before, {name: parameter.detach() for name, parameter in policy.named_parameters()})
    assert_same(found, on_disk(policy.model.merge_and_unload(adapter_names=[POLICY]), tmp_path))


def shards_as_whole(tokenizer: str, lora: bool) -> bool:
    torch.distributed.init_process_group("gloo")
    alone, policy = loaded(tokenizer, "llama", lora), loaded(tokenizer, "llama", lora)
    policy.make_reference()
    shard(policy, init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
    kept = [parameter.to_local().clone() for parameter in policy.parameters()]  # type: ignore[attr-defined]
    found = {name: tensor.clone() for name, tensor in whole_weights(policy)}
    assert_same(found, dict(whole_weights(alone)))
    now = [parameter.to_local() for parameter in policy.parameters()]  # type: ignore[attr-defined]
    return all(torch.equal(one, other) for one, other in zip(kept, now, strict=True))


@pytest.mark.parametrize("lora", [False, True])
def test_shards_of_two_ranks_become_whole_unit_by_unit(byte_tokenizer: str, lora: bool) -> None:
    assert on_ranks(shards_as_whole, byte_tokenizer, lora) == [True, True]


def test_a_toy_and_a_dora_adapter_are_refused(byte_tokenizer: str) -> None:
    with pytest.raises(
        ValueError, match="policy of VLLM: expected a language model, got a CorridorPolicy; use the engine InProcess"
    ):
        require_whole(CorridorPolicy(num_cells=1), "VLLM")
    policy = loaded(byte_tokenizer, lora=True)
    policy.model.peft_config[POLICY].use_dora = True
    with pytest.raises(ValueError, match="merges plain LoRA adapters, got LORA with use_dora"):
        require_whole(policy, "VLLM")
