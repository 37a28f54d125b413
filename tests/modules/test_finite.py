"""A run with a non-finite loss or gradient stops, says why, and leaves the evidence needed to investigate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.plugins import MixedPrecision
from support.small_runs import fit, weights

from lit_rl.modules import GRPO, SFT, RolloutModule
from lit_rl.modules.update_trace import NotFiniteError
from lit_rl.types import Completions, Experience

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


class AdvantageIsInfinite(GRPO):
    """A reward gone wrong."""

    def make_experience(self, rollout: Any, rewards: Any) -> Experience:
        experience = super().make_experience(rollout, rewards)
        return replace(experience, advantages=experience.advantages * float("inf"))


def read(folder: Path, update: int) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(folder / f"not_finite_update_{update}_rank_0.pt", weights_only=True)
    return found


def test_a_loss_that_is_nan_stops_the_run_and_leaves_its_micro_batch(make_module: Make, tmp_path: Path) -> None:
    module = make_module(LossIsNaN, max_rollouts=3, microbatch_size=4)
    with pytest.raises(NotFiniteError, match=r"loss is nan at update 1: the loss overflowed.*not_finite_update_1"):
        fit(module, tmp_path)
    evidence = read(tmp_path, 1)
    assert (evidence["quantity"], evidence["update"], evidence["rollout"]) == ("loss", 1, 1)
    rows = len(evidence["task_ids"])
    assert 1 <= rows <= 4
    assert all(task_id.startswith("train") for task_id in evidence["task_ids"])
    assert evidence["rewards"].shape == (rows,)
    assert evidence["logprobs"].shape == evidence["completion_ids"].shape == evidence["advantages"].shape
    assert evidence["logprobs"].isfinite().all()
    assert all(norm > 0 for norm in evidence["weight_norms"].values())


def test_an_infinite_gradient_stops_the_run_before_the_optimizer_steps(make_module: Make, tmp_path: Path) -> None:
    module = make_module(GradientIsInfinite, max_rollouts=1, gradient_clip_norm=1.0)
    with pytest.raises(NotFiniteError, match=r"gradient norm of the policy is nan at update 0: the backward pass"):
        fit(module, tmp_path)
    start = make_module()
    start.policy.load()
    assert torch.equal(weights(module), weights(start))
    bad = [name for name, norm in read(tmp_path, 0)["gradient_norms"].items() if not torch.tensor(norm).isfinite()]
    assert bad == [next(name for name, p in module.named_parameters() if p.requires_grad)]


def test_the_cause_is_sought_before_the_loss(make_module: Make, tmp_path: Path) -> None:
    with pytest.raises(NotFiniteError, match=r"advantages were not finite before the update"):
        fit(make_module(AdvantageIsInfinite, max_rollouts=1), tmp_path)


def test_weights_that_are_no_numbers_are_named_as_the_cause(make_module: Make, tmp_path: Path) -> None:
    module = make_module(max_rollouts=1)
    module.policy.load()
    scored = module.policy.forward

    def broken(completions: Completions, *args: Any) -> Any:
        with torch.no_grad():
            next(module.policy.parameters()).fill_(float("nan"))
        return scored(completions, *args)

    module.policy.forward = broken  # type: ignore[method-assign]
    with pytest.raises(NotFiniteError, match=r"loss is nan at update 0: weights are not finite"):
        fit(module, tmp_path)


class SFTLossIsNaN(SFT):
    def loss(self, completions: Completions, denominator: torch.Tensor) -> Any:
        loss, metrics = super().loss(completions, denominator)
        return loss * float("nan"), metrics

    def texts(self, problem: Any) -> tuple[str, ...]:
        return ("abc",)


def test_supervised_runs_stop_too(make_module: Make, tmp_path: Path) -> None:
    module = SFTLossIsNaN(make_module().policy, max_updates=2)
    with pytest.raises(NotFiniteError, match=r"loss is nan at update 0"):
        fit(module, tmp_path)
    assert read(tmp_path, 0)["texts"] == [["abc"]] * 3


def test_scaled_losses_are_refused(make_module: Make, tmp_path: Path) -> None:
    """Gradients of a scaled loss are clipped and looked at in their scaled size: training would stand almost still."""
    module = make_module(max_rollouts=1, gradient_clip_norm=1.0)
    with pytest.raises(ValueError, match=r"precision 16-mixed scales losses.*bf16-mixed"):
        fit(module, tmp_path, plugins=[MixedPrecision("16-mixed", "cpu")])
    with pytest.raises(ValueError, match=r"precision 16-true keeps weights in float16.*bf16-mixed"):
        fit(module, tmp_path, precision="16-true")
