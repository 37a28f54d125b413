"""PPO's orchestration: policy and critic, apart where they must be, together where they may be."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.slow_cases import slow_but
from support.small_runs import everything, fit, whole_and_resumed
from support.tiny_models import TINY_QWEN2

from lit_rl.functional.masking import aggregate, loss_denominator
from lit_rl.models import CausalLM, LoRA, SeparateCritic, SharedCritic
from lit_rl.modules import PPO, Objective, RolloutModule
from lit_rl.modules.ppo import clipped_value_loss, explained_variance
from lit_rl.training.ranks import evaluating

Make = Callable[..., RolloutModule]
KL = Objective(kl_coef=0.05, kl_in="reward", kl_kind="k1")


def part(module: Any, name: str) -> torch.Tensor:
    """The parameters of one group."""
    return torch.cat([p.detach().flatten().clone() for p in module.parameter_groups()[name]])


def lora_policy(byte_tokenizer: str) -> CausalLM:
    return CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer, dtype="float64", lora=LoRA(rank=2))


def test_the_policy_stands_still_while_the_critic_warms_up(make_module: Make, tmp_path: Path) -> None:
    """Item 31."""

    def adamw(params: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(params, lr=1e-2, weight_decay=0.1)

    module = make_module(PPO, critic=SeparateCritic(), critic_warmup_rollouts=2, max_rollouts=2, optimizer=adamw)
    fit(module, tmp_path)
    fresh = make_module(PPO, critic=SeparateCritic())
    fresh.policy.load()
    fresh.critic.load(fresh.policy)  # type: ignore[attr-defined]
    assert torch.equal(part(module, "policy"), part(fresh, "policy"))
    assert not torch.equal(part(module, "critic"), part(fresh, "critic"))


def test_policy_and_critic_are_clipped_by_norms_of_their_own(make_module: Make, tmp_path: Path) -> None:
    """Item 49: with plain SGD of rate 1 a step is as long as its clipped gradient."""
    module = make_module(
        PPO,
        critic=SeparateCritic(),
        gradient_clip_norm=1e-3,
        critic_gradient_clip_norm=2e-3,
        optimizer=lambda params: torch.optim.SGD(params, lr=1.0),
        max_rollouts=1,
    )
    module.policy.load()
    module.critic.load(module.policy)  # type: ignore[attr-defined]
    before = {name: part(module, name) for name in ("policy", "critic")}
    fit(module, tmp_path)
    assert (part(module, "policy") - before["policy"]).norm().item() == pytest.approx(1e-3, rel=1e-3)
    assert (part(module, "critic") - before["critic"]).norm().item() == pytest.approx(2e-3, rel=1e-3)


def test_a_shared_base_gives_three_heads_that_do_not_disturb_each_other(
    make_module: Make, byte_tokenizer: str, tmp_path: Path
) -> None:
    """Items 46, 47, 50: policy and critic adapters both learn, the base does not, the reference is the base."""
    module = make_module(PPO, critic=SharedCritic(), objective=KL, max_rollouts=2)
    module.policy = lora_policy(byte_tokenizer)
    fit(module, tmp_path)
    policy: CausalLM = module.policy
    learning = {n: p for n, p in policy.named_parameters() if p.requires_grad}
    assert all(".policy." in n or ".critic." in n for n in learning)
    for name in (".policy.", ".critic."):
        ends = [p for n, p in learning.items() if name in n and "lora_B" in n]  # these start at zero
        assert ends and all(p.abs().sum() > 0 for p in ends)
    groups = module.parameter_groups()
    assert not {id(p) for p in groups["policy"]} & {id(p) for p in groups["critic"]}
    base = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer, dtype="float64")
    base.load()
    done = base.codec.as_completions([], [])
    with evaluating(policy, base), torch.no_grad():
        problems = module.trainer.datamodule.problems("train")[:2]  # type: ignore[attr-defined]
        done = base.codec.as_completions(problems, ["abc", "d"])
        assert torch.allclose(policy.make_reference().logprobs(done), base.logprobs(done), atol=1e-12)
        assert not torch.allclose(policy.logprobs(done), base.logprobs(done), atol=1e-12)


@pytest.mark.parametrize(("critic", "stop"), [(SeparateCritic, 2), (SharedCritic, 4)])
def test_a_resumed_run_ends_with_the_weights_of_an_undisturbed_one(
    make_module: Make, byte_tokenizer: str, tmp_path: Path, critic: Any, stop: int
) -> None:
    """Items 55 to 57, with a critic, a KL in the reward, and a checkpoint while the critic warms up or later."""

    def module() -> RolloutModule:
        made = make_module(
            PPO,
            critic=critic(),
            objective=KL,
            critic_warmup_rollouts=3,
            epochs=2,
            optimizer=lambda params: torch.optim.Adam(params, lr=1e-2),
            max_rollouts=5,
        )
        if critic is SharedCritic:
            made.policy = lora_policy(byte_tokenizer)
        return made

    whole, second = whole_and_resumed(module, tmp_path, stop)
    assert torch.equal(everything(second), everything(whole))


def test_a_shared_base_needs_a_policy_with_adapters(make_module: Make, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="SharedCritic needs a policy with adapters"):
        fit(make_module(PPO, critic=SharedCritic(), max_rollouts=1), tmp_path)


@pytest.mark.parametrize(
    ("value", "clip", "want", "slope"),
    [  # old value 0, return 1: near is clamp(value, -0.25, 0.25)
        (0.1, 0.25, 0.5 * 0.9**2, -0.9),  # within the clip: plain
        (0.5, 0.25, 0.5 * 0.75**2, 0.0),  # moved further towards the return than allowed: silent
        (-0.5, 0.25, 0.5 * 1.5**2, -1.5),  # moved away: the plain error is the larger one and lives
        (3.0, 0.25, 0.5 * 2.0**2, 2.0),  # overshot: |3 - 1| > |0.25 - 1|, lives and comes back
        (0.5, None, 0.5 * 0.5**2, -0.5),  # no clip: half the squared error
    ],
)
def test_clipped_value_loss_by_hand(value: float, clip: float | None, want: float, slope: float) -> None:
    """Item 28: around old values, the max of two losses, and 1/2 once."""
    values = torch.tensor([[value]], dtype=torch.float64, requires_grad=True)
    old, returns = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    loss = clipped_value_loss(values, old, returns, value_clip=clip)
    loss.sum().backward()
    assert loss.item() == pytest.approx(want)
    assert values.grad is not None and values.grad.item() == pytest.approx(slope)


def test_explained_variance_of_perfect_constant_and_wrong_values() -> None:
    returns = torch.tensor([[0.0, 2.0, 4.0, 99.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False]])
    for values, want in (
        (returns + 5.0, 1.0),  # a constant offset costs nothing
        (torch.ones_like(returns), 0.0),
        (-returns, -3.0),  # errors are twice the returns: 1 - 4
    ):
        values = values.masked_fill(~mask, math.nan)
        assert explained_variance(values, returns, mask).item() == pytest.approx(want)
    for constant, counted in ((torch.full_like(returns, 0.7), mask), (returns, ~mask & mask)):
        assert explained_variance(returns, constant, counted).item() == 0.0, "nothing varies"


@pytest.mark.parametrize("bootstrap", slow_but((True,), [True, False]))
def test_any_split_into_micro_batches_gives_the_same_policy_and_critic(
    make_module: Make, tmp_path: Path, bootstrap: bool
) -> None:
    """Items 2, 5: values are divided by the count of the update like the policy's tokens."""
    results = []
    for size in (None, 1, 5):
        module = make_module(
            PPO,
            critic=SeparateCritic(),
            objective=KL,
            microbatch_size=size,
            epochs=2,
            minibatches=2,
            value_clip=0.2,
            bootstrap_truncated=bootstrap,
            max_rollouts=3,
        )
        fit(module, tmp_path)
        results.append(everything(module))
    for other in results[1:]:
        assert (other - results[0]).abs().max() < 1e-10


def test_without_a_clip_it_is_half_the_squared_error() -> None:
    """Item 28; also the value loss of actor-critic without GAE: half the error to the reward."""
    values, rewards = torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, 1.0]])
    loss = clipped_value_loss(values, torch.zeros(1, 2), rewards, value_clip=None)
    assert loss.tolist() == [[2.0, 0.0]]


def test_the_value_loss_does_not_depend_on_the_split() -> None:
    """Item 5: the critic's loss is divided by the same count of the whole update as the policy's."""
    generator = torch.Generator().manual_seed(0)
    returns, old, features = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64)
    mask = torch.arange(4) < torch.tensor([4, 1, 2, 3, 0])[:, None]
    denominator = loss_denominator(mask, "token_mean")

    def gradient(sizes: list[int]) -> torch.Tensor:
        weight = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
        parts = zip(*(x.split(sizes) for x in (features, old, returns, mask)), strict=True)
        for x, before, target, held in parts:
            token_loss = clipped_value_loss(weight * x, before, target, value_clip=0.5)
            aggregate(token_loss, held, mode="token_mean", denominator=denominator).backward()
        assert weight.grad is not None
        return weight.grad

    for sizes in ([1] * 5, [2, 3], [4, 1]):
        torch.testing.assert_close(gradient(sizes), gradient([5]), rtol=1e-13, atol=1e-13)
