"""Precisions: every module runs in each of them, and weights below float32 still learn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from support.slow_cases import slow_but
from support.small_runs import EvenBytes, Words, at_start, fit, weights, whole_and_resumed
from support.tiny_models import TINY_QWEN2

from lit_rl.data.preferences import PreferencePair
from lit_rl.data.task import Split
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA, SeparateCritic, SharedCritic
from lit_rl.modules import (
    DPO,
    GRPO,
    PPO,
    REINFORCE,
    SFT,
    CriticConfig,
    Objective,
    Optimization,
    RolloutModule,
    UpdateConfig,
)
from lit_rl.modules.update_trace import NotFiniteError
from lit_rl.training.precision import add_gradients_to_masters, build_optimizer_with_masters
from lit_rl.types import Experience, Problem, Sampling

KL = Objective(kl_coef=0.1)


class Texts(Words):
    def load_problems(self, split: Split) -> list[Problem]:
        fields = {"pair": PreferencePair("pair", "w", "ab", "ba", 1.0, 0.0)}
        return [
            Problem(f"{split}{i}", "w" * (1 + i % 5), TokenTarget(), reference="abc", fields=fields) for i in range(9)
        ]


def policy(tokenizer: str, lora: bool = False, dtype: str = "float32") -> CausalLM:
    return CausalLM(config=TINY_QWEN2, tokenizer=tokenizer, lora=LoRA(rank=2) if lora else None, dtype=dtype)


COMMON: dict[str, Any] = {"rewards": [EvenBytes()], "max_rollouts": 2}
COMMON["sampling"] = Sampling(num_samples=4, max_tokens=6)
MODULES: dict[str, Callable[..., Any]] = {
    "grpo": lambda actor: GRPO(actor(), objective=KL, update=UpdateConfig(epochs=2), **COMMON),
    "grpo-lora": lambda actor: GRPO(actor(True), objective=KL, **COMMON),
    "ppo": lambda actor: PPO(actor(), critic=SeparateCritic(), **COMMON),
    "ppo-shared": lambda actor: PPO(actor(True), critic=SharedCritic(), **COMMON),
    "reinforce": lambda actor: REINFORCE(actor(), **COMMON | {"sampling": Sampling(max_tokens=6)}),
    "sft": lambda actor: SFT(actor(), max_updates=2, rewards=[EvenBytes()]),
    "dpo": lambda actor: DPO(actor(), max_updates=2, rewards=[EvenBytes()]),
}


ARITHMETIC: dict[str, tuple[str, Any, torch.dtype, float]] = {
    "dtype": ("bfloat16", "32-true", torch.bfloat16, 0.02),
    "bf16-true": ("float32", "bf16-true", torch.bfloat16, 0.02),
    "bf16-mixed": ("float32", "bf16-mixed", torch.float32, 0.02),
    "64-true": ("float32", "64-true", torch.float64, 1e-6),
}
"""Dtype of the policy, precision of the trainer, dtype of trained weights, and what their rounding explains."""
ADAPTED = ("grpo-lora", "ppo-shared")
QUICK = [("grpo", "64-true"), ("grpo", "bf16-mixed"), ("sft", "bf16-true"), ("ppo-shared", "bf16-true")]
SLOW = [("grpo-lora", "dtype"), ("ppo", "bf16-mixed"), ("reinforce", "bf16-true"), ("dpo", "dtype")]


@pytest.mark.parametrize(("name", "kind"), slow_but(QUICK, QUICK + SLOW))
def test_every_module_trains_validates_and_resumes_in_each_precision(
    byte_tokenizer: str, tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First ratios are 1 and the sampler's numbers the trainer's, up to rounding; resuming changes no bit."""
    dtype, precision, wanted, rounding = ARITHMETIC[kind]
    first: list[tuple[torch.Tensor, torch.dtype]] = []
    plain = Objective.token_losses_and_metrics

    def watched(objective: Objective, logprobs: Any, old: Any, entropy: Any, micro: Any, *coef: Any) -> Any:
        first.append(((logprobs.detach() - old)[micro.loss_mask].exp(), micro.advantages.dtype))
        return plain(objective, logprobs, old, entropy, micro, *coef)

    monkeypatch.setattr(Objective, "token_losses_and_metrics", watched)
    make = partial(MODULES[name], lambda lora=False: policy(byte_tokenizer, lora, dtype))
    options = {"data": Texts(batch_size=3), "precision": precision, "limit_val_batches": 1}
    whole, resumed = whole_and_resumed(make, tmp_path, 1, **options)
    assert whole.trainer.global_step >= 2
    learning = {p.dtype for p in whole.policy.parameters() if p.requires_grad}
    assert learning == {torch.float32 if dtype == "bfloat16" and name in ADAPTED else wanted}
    assert all(torch.isfinite(p).all() for p in whole.parameters())
    assert torch.bfloat16 not in {buffer.dtype for buffer in whole.buffers()}, "of rotary frequencies"
    moved = [torch.cat([p.detach().flatten() for p in optimized(one)]) for one in (whole, resumed)]
    assert torch.equal(*moved)
    if first:
        (ratios, of_advantages), gap = first[0], float(whole.trainer.callback_metrics["sampling/logprob_gap/mean"])
        assert (ratios - 1).abs().max() < rounding and gap < rounding
        assert of_advantages is not torch.bfloat16


def optimized(module: Any) -> list[torch.Tensor]:
    """Parameters that the optimizer moves: masters where weights have them."""
    return [p for group in module.trainer.optimizers[0].param_groups for p in group["params"]]


def test_gradients_of_micro_batches_are_summed_in_float32() -> None:
    """In bfloat16 a sum of ones ends at 256, the next number being 258."""
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    optimizer: Any = build_optimizer_with_masters(
        lambda groups: torch.optim.SGD(groups, lr=1.0), [{"params": [weight]}]
    )
    for _ in range(300):
        weight.sum().backward()
        add_gradients_to_masters(optimizer)
    assert optimizer.param_groups[0]["params"][0].grad == 300 and weight.grad is None


@pytest.mark.parametrize(("dtype", "precision"), [("bfloat16", "32-true"), ("float32", "bf16-true")])
def test_steps_far_below_a_weights_resolution_add_up(
    byte_tokenizer: str, tmp_path: Path, dtype: str, precision: Any
) -> None:
    """Forty steps of 1e-5 move a weight of 0.02 (spacing 1.2e-4) by several times its spacing; one alone is lost."""
    adam = lambda params: torch.optim.Adam(params, lr=1e-5)  # noqa: E731
    module = SFT(policy(byte_tokenizer, dtype=dtype), max_updates=40, update=Optimization(optimizer=adam))
    start = weights(at_start(module)).clone()
    fit(module, tmp_path, data=Texts(batch_size=9), precision=precision)
    moved = (weights(module).bfloat16() != start.bfloat16()) & (start.abs() > 0.01) & (start.abs() < 0.03)
    share = moved.sum() / ((start.abs() > 0.01) & (start.abs() < 0.03)).sum()
    assert share > 0.5
    assert {p.dtype for p in module.policy.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_moments_in_8_bits_resume_exactly(byte_tokenizer: str, tmp_path: Path, dtype: str) -> None:
    bitsandbytes = pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed (extra qlora)")

    def make() -> Any:
        optimizer = partial(bitsandbytes.optim.AdamW8bit, lr=1e-2, min_8bit_size=0)
        return SFT(policy(byte_tokenizer, dtype=dtype), max_updates=4, update=Optimization(optimizer=optimizer))

    whole, resumed = whole_and_resumed(make, tmp_path, 2, data=Texts(batch_size=9))
    assert all(map(torch.equal, optimized(whole), optimized(resumed)))
    states = resumed.trainer.optimizers[0].state.values()
    assert {state["state1"].dtype for state in states} == {torch.uint8}


@pytest.mark.parametrize("precision", ["bf16-true", "bf16-mixed"])
def test_values_are_float32_whatever_the_weights_are(byte_tokenizer: str, tmp_path: Path, precision: Any) -> None:
    """Rounded to bfloat16 a value near 0.9 would be off by 0.002."""
    seen: list[torch.Tensor] = []

    class Watched(SeparateCritic):
        def forward(self, completions: Any) -> tuple[torch.Tensor, torch.Tensor]:
            values = super().forward(completions)
            seen.extend(value.detach() for value in values)
            return values

    module = PPO(policy(byte_tokenizer), critic=Watched(), critic_update=CriticConfig(learning_rate=0.01), **COMMON)
    fit(module, tmp_path, precision=precision)
    assert {value.dtype for value in seen} == {torch.float32}
    assert any((value != value.bfloat16()).any() for value in seen)


Make = Callable[..., RolloutModule]


class LossIsNaN(GRPO):
    """The loss of the second rollout is NaN, though all that goes into it is finite."""

    def policy_loss(self, micro: Experience, denominator: torch.Tensor) -> Any:
        loss, metrics = super().policy_loss(micro, denominator)
        return loss * (float("nan") if self.clock.count == 1 else 1.0), metrics


class GradientIsInfinite(GRPO):
    """The square root has a loss of 0 and an infinite slope at 0."""

    def policy_loss(self, micro: Experience, denominator: torch.Tensor) -> Any:
        loss, metrics = super().policy_loss(micro, denominator)
        return loss + (0.0 * next(p for p in self.policy.parameters() if p.requires_grad).sum()).sqrt(), metrics


def test_a_loss_that_is_nan_stops_the_run_and_leaves_its_micro_batch(make_module: Make, tmp_path: Path) -> None:
    module = make_module(LossIsNaN, max_rollouts=3, microbatch_size=4)
    with pytest.raises(NotFiniteError, match=r"loss is nan at update 1: .* or update.epochs.*not_finite_update_1"):
        fit(module, tmp_path)
    evidence = torch.load(tmp_path / "not_finite_update_1_rank_0.pt", weights_only=True)
    assert (evidence["quantity"], evidence["update"], evidence["rollout"]) == ("loss", 1, 1)
    assert 1 <= len(evidence["task_ids"]) <= 4
    assert evidence["logprobs"].shape == evidence["completion_ids"].shape == evidence["advantages"].shape


def test_an_infinite_gradient_stops_the_run_before_the_optimizer_steps(make_module: Make, tmp_path: Path) -> None:
    module = make_module(GradientIsInfinite, max_rollouts=1, gradient_clip_norm=1.0)
    with pytest.raises(NotFiniteError, match=r"gradient norm of the policy is nan at update 0: the backward pass"):
        fit(module, tmp_path)
    assert torch.equal(weights(module), weights(at_start(make_module())))


def test_scaled_losses_are_refused(make_module: Make, tmp_path: Path) -> None:
    """Gradients of a scaled loss are clipped in their scaled size: training would stand almost still."""
    with pytest.raises(ValueError, match=r"precision 16-mixed scales losses.*bf16-mixed"):
        fit(make_module(max_rollouts=1), tmp_path, plugins=[MixedPrecision("16-mixed", "cpu")])
