"""Units of sharding, gathering of weights, and refused strategies."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightning.pytorch.strategies import FSDPStrategy
from support.ranks import on_ranks
from support.sampling import sample
from support.tiny_models import TINY_QWEN2
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, FSDP2Strategy, LoRA
from lit_rl.training.ranks import evaluating, layers_of, phase, shard, unsharded, where
from lit_rl.training.strategy import check_strategy
from lit_rl.types import Problem


def loaded(tokenizer: str, lora: bool = False) -> CausalLM:
    policy = CausalLM(config=TINY_QWEN2, tokenizer=tokenizer, lora=LoRA(rank=2) if lora else None, probe=False)
    policy.load()
    return policy


def problems(*prompts: str) -> list[Problem]:
    return [Problem(prompt, prompt, TokenTarget()) for prompt in prompts]


def sharded(tokenizer: str, **kwargs: Any) -> CausalLM:
    torch.distributed.init_process_group("gloo")
    policy = loaded(tokenizer, **kwargs)
    policy.make_reference()
    shard(policy, init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
    return policy


def test_layers_are_the_items_of_the_outermost_lists(tiny_policy: CausalLM, byte_tokenizer: str) -> None:
    experts = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    model = nn.Sequential(nn.ModuleList([nn.Sequential(experts), nn.Linear(2, 2)]))
    assert layers_of(model) == list(model[0])
    assert [type(layer).__name__ for layer in layers_of(tiny_policy)] == ["Qwen2DecoderLayer"] * 2
    assert [type(layer).__name__ for layer in layers_of(loaded(byte_tokenizer, lora=True))] == ["Qwen2DecoderLayer"] * 2


@pytest.mark.parametrize("lora", [False, True])
def test_ranks_that_sample_other_numbers_of_rows_and_tokens_do_not_wait_for_each_other(
    byte_tokenizer: str, lora: bool
) -> None:
    """Items 46, 52: one rank samples, the other has nothing to do; then both score, as policy and as reference."""
    alone = loaded(byte_tokenizer, lora)
    expected = sample(alone, problems("a", "hello"), num_samples=2, max_tokens=9)

    def on_two() -> Any:
        policy = sharded(byte_tokenizer, lora=lora)
        prompts = problems("a", "hello") if torch.distributed.get_rank() == 0 else []
        with torch.no_grad(), evaluating(policy), unsharded(policy):
            whole = sum(p.numel() for n, p in policy.model.named_parameters())
        done = sample(policy, prompts, num_samples=2, max_tokens=9)
        with torch.no_grad(), evaluating(policy):
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
    with torch.no_grad(), evaluating(alone):
        truth = alone.logprobs(expected)
    for score in scores:
        assert torch.allclose(torch.tensor(score), truth, atol=1e-5)


def test_fsdp1_and_unknown_strategies_are_refused_by_name() -> None:
    for strategy in ("auto", "ddp", "fsdp2", "ddp_find_unused_parameters_true", FSDP2Strategy()):
        check_strategy(strategy)
    for strategy in ("fsdp", "fsdp_cpu_offload", FSDPStrategy()):
        with pytest.raises(ValueError, match=r"is FSDP1, .*: use strategy fsdp2"):
            check_strategy(strategy)
    with pytest.raises(ValueError, match="unknown strategy fsdpp: use auto, ddp or fsdp2"):
        check_strategy("fsdpp")


def test_a_phase_is_remembered_by_the_exception_that_ends_it() -> None:
    def on_two() -> str:
        torch.distributed.init_process_group("gloo")
        torch.distributed.barrier()  # a rank that ends early would cut off the other while it connects
        with phase("training"):
            pass
        with pytest.raises(RuntimeError, match="stop"), phase("sampling"):
            raise RuntimeError("stop")
        return where()

    assert on_ranks(on_two) == [f"rank {rank} of 2, while sampling" for rank in range(2)]
    assert where() == ""
