"""Whole weights are those of a checkpoint that transformers writes; units of sharding, and ranks that gather them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from support.moved_weights import disturb
from support.ranks import on_ranks
from support.sampling import sample
from support.tiny_models import TINY_QWEN2, loaded
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from lit_rl.data.toys.toy_models import CorridorPolicy
from lit_rl.engines.engine import EngineError
from lit_rl.engines.weight_export import (
    adapter_weights,
    full_weights,
    gather_and_write_weights,
    require_copyable_policy,
    write_adapter,
)
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.adapters import POLICY
from lit_rl.training.ranks import eval_mode, layers_of, shard, unsharded_weights
from lit_rl.types import Problem

MIXTURE = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2}
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen2": {"tie_word_embeddings": True},
    "llama": {"tie_word_embeddings": False},
    "qwen3": {"head_dim": 8},
    "mixtral": MIXTURE,
    "qwen3_moe": MIXTURE | {"moe_intermediate_size": 16},
    "gpt_neox": {},
}


def policy_of(tokenizer: str, family: str = "qwen2", lora: bool = False) -> CausalLM:
    """A policy whose adapters are not zero."""
    config = TINY_QWEN2 | FAMILIES[family] | {"model_type": family}
    if family == "gpt_neox":
        del config["num_key_value_heads"]
    policy = loaded(tokenizer, config=config, lora=LoRA(rank=2) if lora else None, probe=False)
    if lora:
        disturb(policy, 0, 0.1)
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
    policy = policy_of(byte_tokenizer, family)
    pairs = list(full_weights(policy))
    assert len(pairs) == len(dict(pairs))
    assert_same(dict(pairs), on_disk(policy.model, tmp_path))
    if family == "qwen2":
        each = dict(full_weights(policy, with_tied=True))
        assert each.keys() - dict(pairs).keys() == {"lm_head.weight"}
        assert torch.equal(each["lm_head.weight"], each["model.embed_tokens.weight"])


def test_adapters_are_merged_and_the_policy_stays_as_it_was(byte_tokenizer: str, tmp_path: Path) -> None:
    policy = policy_of(byte_tokenizer, lora=True)
    before = {name: parameter.detach().clone() for name, parameter in policy.named_parameters()}
    found = {name: tensor.clone() for name, tensor in full_weights(policy)}
    assert_same(before, {name: parameter.detach() for name, parameter in policy.named_parameters()})
    assert_same(found, on_disk(policy.model.merge_and_unload(adapter_names=[POLICY]), tmp_path))


def base_and_adapter(policy: CausalLM) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    given = full_weights(policy, merge=False), adapter_weights(policy)
    base, adapter = ({name: tensor.clone() for name, tensor in weights} for weights in given)
    return base, adapter


def sharded(tokenizer: str, **options: Any) -> CausalLM:
    torch.distributed.init_process_group("gloo")
    policy = policy_of(tokenizer, **options)
    policy.make_reference()
    shard(policy, init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
    return policy


def shards_as_whole(tokenizer: str, lora: bool) -> bool:
    alone, policy = policy_of(tokenizer, "llama", lora), sharded(tokenizer, family="llama", lora=lora)
    kept = [parameter.to_local().clone() for parameter in policy.parameters()]  # type: ignore[attr-defined]
    found = {name: tensor.clone() for name, tensor in full_weights(policy)}
    assert_same(found, dict(full_weights(alone)))
    expected = base_and_adapter(alone)
    assert len(expected[1]) == 2 * 2 * 7 * lora
    for apart, one in zip(base_and_adapter(policy), expected, strict=True):
        assert_same(apart, one)
    now = [parameter.to_local() for parameter in policy.parameters()]  # type: ignore[attr-defined]
    return all(torch.equal(one, other) for one, other in zip(kept, now, strict=True))


@pytest.mark.parametrize("lora", [False, True])
def test_shards_of_two_ranks_become_whole_unit_by_unit(byte_tokenizer: str, lora: bool) -> None:
    """With the adapter merged, and the adapter apart from its base."""
    assert on_ranks(shards_as_whole, byte_tokenizer, lora) == [True, True]


def test_a_toy_and_a_dora_adapter_are_refused(byte_tokenizer: str) -> None:
    with pytest.raises(ValueError, match="policy of VLLM: expected CausalLM, got CorridorPolicy"):
        require_copyable_policy(CorridorPolicy(num_cells=1), "VLLM", merge=True)
    policy = policy_of(byte_tokenizer, lora=True)
    policy.model.peft_config[POLICY].use_dora = True
    with pytest.raises(ValueError, match="merges plain LoRA adapters, got LORA with use_dora"):
        require_copyable_policy(policy, "VLLM", merge=True)


def test_the_adapter_alone_is_what_peft_reads_on_the_base_that_travels_once(
    byte_tokenizer: str, tmp_path: Path
) -> None:
    """With layers of other ranks and scales, which the file's one rank and scale of 1 must not change."""
    from peft import LoraConfig, PeftModel, get_peft_model

    alone, policy = policy_of(byte_tokenizer), policy_of(byte_tokenizer)
    patterns = {"rank_pattern": {"q_proj": 3}, "alpha_pattern": {"up_proj": 5.0}}
    config = LoraConfig(r=2, lora_alpha=7, use_rslora=True, target_modules="all-linear", **patterns)
    policy.model = get_peft_model(policy.model, config, adapter_name=POLICY)
    disturb(policy, 0, 0.1)
    assert_same(base_and_adapter(policy)[0], on_disk(alone.model, tmp_path / "base"))
    size = write_adapter(adapter_weights(policy), tmp_path / "adapter", config)
    assert size == sum(4 * one.numel() for one in policy.parameters() if one.requires_grad)
    ids = torch.tensor([[5, 17, 40, 41]])
    with torch.no_grad():
        expected = policy.model(ids).logits
        alone.model = PeftModel.from_pretrained(alone.model, str(tmp_path / "adapter"))
        torch.testing.assert_close(alone.model(ids).logits, expected, rtol=1e-5, atol=1e-6)


def test_a_policy_that_learns_more_than_its_matrices_is_refused_unless_they_are_merged(byte_tokenizer: str) -> None:
    policy = policy_of(byte_tokenizer, lora=True)
    policy.model.base_model.model.model.norm.weight.requires_grad_()
    with pytest.raises(ValueError, match=r"policy also trains base_model.model.model.norm.weight: set merge_adapters"):
        require_copyable_policy(policy, "VLLM", merge=False)
    assert require_copyable_policy(policy, "VLLM", merge=True) is policy


@pytest.mark.parametrize("fault", [OSError, SafetensorError])
def test_a_rank_that_cannot_write_gathers_to_the_end_and_fails(fault: type[Exception]) -> None:
    gathered: list[int] = []

    def weights() -> Iterator[tuple[str, torch.Tensor]]:
        for number in range(3):
            gathered.append(number)
            yield str(number), torch.zeros(1)

    def write(given: Iterator[tuple[str, torch.Tensor]]) -> int:
        next(given)
        raise fault("no space left on device")

    with pytest.raises(EngineError, match=r"could not be written to place \(no space.*: set TMPDIR"):
        gather_and_write_weights(weights(), Path("place"), write, "set TMPDIR")
    assert gathered == [0, 1, 2], "other ranks would wait for this one"


def problems(*prompts: str) -> list[Problem]:
    return [Problem(prompt, prompt, TokenTarget()) for prompt in prompts]


def test_layers_are_the_items_of_the_outermost_lists(tiny_policy: CausalLM, byte_tokenizer: str) -> None:
    experts = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    model = nn.Sequential(nn.ModuleList([nn.Sequential(experts), nn.Linear(2, 2)]))
    assert layers_of(model) == list(model[0])
    for policy in (tiny_policy, policy_of(byte_tokenizer, lora=True)):
        assert [type(layer).__name__ for layer in layers_of(policy)] == ["Qwen2DecoderLayer"] * 2


@pytest.mark.parametrize("lora", [False, True])
def test_ranks_that_sample_other_numbers_of_rows_and_tokens_do_not_wait_for_each_other(
    byte_tokenizer: str, lora: bool
) -> None:
    """Items 46, 52: one rank samples, the other has nothing to do; then both score, as policy and as reference."""
    alone = policy_of(byte_tokenizer, lora=lora)
    expected = sample(alone, problems("a", "hello"), num_samples=2, max_tokens=9)

    def on_two() -> Any:
        policy = sharded(byte_tokenizer, lora=lora)
        prompts = problems("a", "hello") if torch.distributed.get_rank() == 0 else []
        with torch.no_grad(), eval_mode(policy), unsharded_weights(policy):
            whole = sum(p.numel() for n, p in policy.model.named_parameters())
        done = sample(policy, prompts, num_samples=2, max_tokens=9)
        with torch.no_grad(), eval_mode(policy):
            score = policy.logprobs(expected)
            reference = policy.make_reference().logprobs(expected)
            again = policy.logprobs(expected)
        policy.reshard()  # after a forward without gradients the root's own weights stay gathered
        held = sum(p.to_local().numel() for p in policy.parameters())
        return done.texts, whole, held, [x.tolist() for x in (score, reference, again)]

    (texts, whole, held, scores), (none, _, held_too, _) = on_ranks(on_two)
    assert texts == expected.texts
    assert none == ()
    assert whole == sum(p.numel() for p in alone.model.parameters())
    copies = 1 if lora else 2  # the policy and, without adapters, its frozen reference
    assert held + held_too == copies * whole
    with torch.no_grad(), eval_mode(alone):
        truth, of_base = alone.logprobs(expected), alone.make_reference().logprobs(expected)
    for score, true in zip(scores, (truth, of_base, truth), strict=True):
        assert torch.allclose(torch.tensor(score), true, atol=1e-5)
