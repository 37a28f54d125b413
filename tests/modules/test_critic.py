"""The value head: the same at every start, learned, saved, and no part of the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import Words, fit
from support.tiny_models import TINY_QWEN2

from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA, SeparateCritic, SharedCritic
from lit_rl.models.adapters import using_adapter
from lit_rl.models.critic import ValueHead, values_of
from lit_rl.modules import PPO, Objective, RolloutModule
from lit_rl.types import Problem

Make = Callable[..., RolloutModule]
KL = Objective(kl_coef=0.05, kl_in="reward", kl_kind="k1")


@pytest.mark.parametrize("critic", [SeparateCritic, SharedCritic])
def test_the_value_head_starts_at_zero_learns_and_is_saved(make_module: Make, tmp_path: Path, critic: Any) -> None:
    """Item 30: equal on every rank without a word between them; in the critic's group; in the checkpoint."""
    module: Any = make_module(PPO, critic=critic(), max_rollouts=2)
    module.policy.lora = LoRA(rank=2) if critic is SharedCritic else None
    module.policy.load()
    module.critic.load(module.policy)
    assert module.critic.head.weight.abs().sum() == module.critic.head.bias.abs().sum() == 0
    fit(module, tmp_path)
    assert module.critic.head.weight.abs().sum() > 0
    assert any(parameter is module.critic.head.weight for parameter in module.parameter_groups()["critic"])
    assert torch.equal(module.state_dict()["critic.head.weight"], module.critic.head.weight)


@pytest.mark.parametrize("critic", [SeparateCritic, SharedCritic])
def test_checkpoints_hold_the_same_whatever_adapter_is_on(make_module: Make, tmp_path: Path, critic: Any) -> None:
    """Policy, critic and reference take turns; what trains and what a checkpoint holds stay as they are."""
    module: Any = make_module(PPO, critic=critic(), objective=KL, max_rollouts=1)
    module.policy.lora = LoRA(rank=2)
    fit(module, tmp_path)

    def state() -> tuple[set[str], set[str]]:
        return {name for name, p in module.named_parameters() if p.requires_grad}, set(module.state_dict())

    learning, held = before = state()
    assert learning <= held
    for part in ("policy", "critic"):
        ids = {id(p) for p in module.parameter_groups()[part]}
        assert ids and ids <= {id(p) for name, p in module.named_parameters() if name in held}
    problems = module.trainer.datamodule.problems("train")[:1]
    rows = module.policy.codec.as_completions(problems, ["abc"])
    module.critic(rows)
    assert state() == before
    with module.critic.active():
        assert state() == before
    reference = module.policy.make_reference()
    reference.logprobs(rows)
    assert state() == before
    with pytest.raises(KeyError), torch.no_grad(), using_adapter(module.policy.model, None):
        raise KeyError("on the way")
    module.policy.logprobs(rows)
    assert state() == before


def test_a_head_beside_adapters_is_float32_on_a_narrower_trunk(make_module: Make) -> None:
    """At a learning rate of 1e-5 a head in bfloat16 would hardly move."""
    for critic in (SeparateCritic(lora=LoRA(rank=2), dtype="bfloat16"), SharedCritic()):
        policy: Any = make_module().policy
        policy.dtype, policy.lora = "bfloat16", LoRA(rank=2)
        policy.load()
        critic.load(policy)
        assert critic.head.weight.dtype is torch.float32
        values, tails = critic(policy.codec.as_completions(Words().load_problems("train")[:2], ["abc", "d"]))
        assert values.dtype is tails.dtype is torch.float32


def test_a_value_is_read_before_its_token_and_the_tail_after_the_last_one(byte_tokenizer: str) -> None:
    """Item 26: hidden state s of row i is the number 100 i + s, and the head hands it on."""
    policy = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer)
    policy.load()
    rows = policy.codec.as_completions([Problem(p, p, TokenTarget()) for p in ("abc", "a")], ["xyzw", "x"])
    num_prompt, num_tokens = rows.prompt_ids.shape[1], rows.completion_ids.shape[1]
    assert (num_prompt, num_tokens, rows.lengths.tolist()) == (3, 5, [5, 2])
    state = 100 * torch.arange(2)[:, None] + torch.arange(num_prompt + num_tokens)
    head = ValueHead(1, torch.float32)
    with torch.no_grad():
        head.weight.fill_(1.0)
        values, tails = values_of(state.float()[..., None], head, rows)
    assert values[0].tolist() == [2, 3, 4, 5, 6]  # the last prompt token is state 2
    assert values[1, :2].tolist() == [102, 103]
    assert tails.tolist() == [7, 104]  # after the last real token: states 3 - 1 + 5 and 3 - 1 + 2


def test_the_reference_of_a_shared_base_is_the_base_without_any_adapter_or_head(
    make_module: Make, tmp_path: Path
) -> None:
    """Item 47: after training, the reference scores as a policy that was never trained."""
    module: Any = make_module(PPO, critic=SharedCritic(), max_rollouts=2)
    module.policy.lora = LoRA(rank=2)
    fit(module, tmp_path)
    fresh: Any = make_module().policy
    fresh.load()
    problems = module.trainer.datamodule.problems("train")
    rows = fresh.codec.as_completions(problems, ["abc"] * len(problems))
    reference = module.policy.eval().make_reference()
    with torch.no_grad():
        torch.testing.assert_close(reference.logprobs(rows), fresh.eval().logprobs(rows), atol=1e-12, rtol=0)
