"""GRPO's relatives by argument: two updates of each, against formulas written out here, in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.completions import with_stop_reasons
from support.small_runs import fit, weights
from support.tiny_models import TINY_QWEN2
from torch import Tensor

from lit_rl.advantages import BatchMean, GroupMean, LeaveOneOut, MaxRewards, NoBaseline, RowAdvantages
from lit_rl.losses import CISPO, Clipped, ImportanceSampling, PolicyGradient, Unclipped
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO, Objective, RolloutModule
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import evaluating
from lit_rl.types import Experience, Sampling

Make = Callable[..., RolloutModule]
GROUP, LIMIT, RATE, TEMPERATURE = 4, 6, 2.0, 0.5


class Watched(GRPO):
    """Keeps the rollout and its rewards."""

    rollout: Rollout
    output: Any

    def make_experience(self, rollout: Rollout, rewards: Any) -> Experience:
        self.rollout, self.output = rollout, rewards
        return super().make_experience(rollout, rewards)


# -- the formulas, each written out for itself --------------------------------------------------------------


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    return math.sqrt(sum((v - mean(values)) ** 2 for v in values) / (len(values) - 1))


def normalised(group: list[float]) -> list[float]:
    return [(r - mean(group)) / (deviation(group) + 1e-6) if len(set(group)) > 1 else 0.0 for r in group]


def others(group: list[float]) -> list[float]:
    return [r - (sum(group) - r) / (len(group) - 1) for r in group]


PER_GROUP: dict[str, Callable[[list[float]], list[float]]] = {
    "GroupMean": normalised,
    "centred": lambda group: [r - mean(group) for r in group],
    "LeaveOneOut": others,
    "MaxRewards": lambda group: [r if r == max(group) else 0.0 for r in group],
    "NoBaseline": lambda group: group,
}

BASELINES: dict[str, RowAdvantages] = {
    "GroupMean": GroupMean(),
    "centred": GroupMean(normalize="none"),
    "LeaveOneOut": LeaveOneOut(normalize="none"),
    "MaxRewards": MaxRewards(),
    "NoBaseline": NoBaseline(),
    "BatchMean": BatchMean(),
}


def advantages(kind: str, rewards: list[float]) -> Tensor:
    """[N, 1] advantages of N rewards in groups of four."""
    if kind == "BatchMean":
        made = [(r - mean(rewards)) / (deviation(rewards) + 1e-6) for r in rewards]
    else:
        groups = [rewards[i : i + GROUP] for i in range(0, len(rewards), GROUP)]
        made = [a for group in groups for a in PER_GROUP[kind](group)]
    return torch.tensor(made, dtype=torch.float64)[:, None]


def row_mean(x: Tensor, mask: Tensor) -> Tensor:
    return ((x * mask).sum(-1) / mask.sum(-1))[:, None]


def clipped(ratio: Tensor, a: Tensor, low: float = 0.2, high: float = 0.2) -> Tensor:
    return -torch.minimum(ratio * a, ratio.clamp(1 - low, 1 + high) * a)


def two_sided(ratio: Tensor, a: Tensor) -> Tensor:
    held = torch.maximum(-clipped(ratio, a), 1.5 * a)
    return torch.where(a < 0, -held, clipped(ratio, a))


Surrogate = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""From new, old and the sampler's log-probabilities, advantages and mask to [N, T] losses."""

SURROGATES: dict[str, tuple[Objective, Surrogate]] = {
    "clipped": (Objective(), lambda new, old, q, a, m: clipped((new - old).exp(), a)),
    "clip_higher": (
        Objective(loss=Clipped(clip_high=0.28)),
        lambda new, old, q, a, m: clipped((new - old).exp(), a, high=0.28),
    ),
    "two_sided": (Objective(loss=Clipped(dual_clip=1.5)), lambda new, old, q, a, m: two_sided((new - old).exp(), a)),
    "unclipped": (Objective(loss=Unclipped()), lambda new, old, q, a, m: -(new - old).exp() * a),
    "naive": (Objective(loss=PolicyGradient()), lambda new, old, q, a, m: -new * a),
    "cispo": (
        Objective(loss=CISPO(0.2, 0.2)),
        lambda new, old, q, a, m: -(new - old).exp().clamp(0.8, 1.2).detach() * a * new,
    ),
    "importance_truncated": (
        Objective(loss=ImportanceSampling(cap=1.1)),
        lambda new, old, q, a, m: -(new - q).exp().clamp(max=1.1).detach() * a * new,
    ),
    "importance_masked": (
        Objective(loss=ImportanceSampling(cap=1.1, beyond_cap="mask")),
        lambda new, old, q, a, m: -((new - q).exp() * ((new - q).exp() <= 1.1)).detach() * a * new,
    ),
    "gspo": (
        Objective(loss=Clipped(3e-2, 4e-2), ratio_level="sequence"),
        lambda new, old, q, a, m: clipped(row_mean(new - old, m).exp(), a, 3e-2, 4e-2).expand_as(new),
    ),
}

AGGREGATES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "token_mean": lambda loss, m: (loss * m).sum() / m.sum(),
    "sequence_mean": lambda loss, m: ((loss * m).sum(-1) / m.sum(-1)).mean(),
    "sequence_sum": lambda loss, m: (loss * m).sum(-1).mean(),
    "sequence_sum_constant": lambda loss, m: (loss * m).sum(-1).mean() / LIMIT,
}


def two_updates(
    make: Make,
    folder: Path,
    surrogate: str = "clipped",
    baseline: str = "GroupMean",
    mode: str = "token_mean",
    microbatch_size: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights after two updates on one rollout, by the module and by hand, and the ratios of the second update."""
    objective, formula = SURROGATES[surrogate]
    module: Any = make(
        Watched,
        objective=objective,
        aggregate=mode,
        baseline=BASELINES[baseline],
        epochs=2,
        max_rollouts=1,
        microbatch_size=microbatch_size,
        optimizer=sgd,
        sampling=Sampling(num_samples=4, max_tokens=LIMIT, temperature=TEMPERATURE),
    )
    fit(module, folder)
    rows = module.rollout.completions
    mask, q = rows.completion_mask, rows.sampler_logprobs.double()
    a = advantages(baseline, module.output.rewards.tolist())
    policy: Any = make().policy
    policy.load()
    with evaluating(policy):
        old = policy.logprobs(rows, TEMPERATURE).detach()
        for _ in range(2):
            new = policy.logprobs(rows, TEMPERATURE)
            step_down(policy, AGGREGATES[mode](formula(new, old, q, a, mask), mask))
    by_hand = torch.cat([p.detach().flatten() for p in policy.parameters()])
    return weights(module), by_hand, (new - old).exp()[mask].detach()


def sgd(params: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=RATE)


def step_down(policy: torch.nn.Module, loss: Tensor) -> None:
    """One step of plain gradient descent."""
    policy.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter -= RATE * parameter.grad


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_each_loss_takes_the_steps_of_its_formula(make_module: Make, tmp_path: Path, surrogate: str) -> None:
    """Items 38, 39, 41, 42: the second update has ratios away from 1."""
    ours, by_hand, ratios = two_updates(make_module, tmp_path, surrogate)
    assert ratios.min() < 0.8 and ratios.max() > 1.28, "no ratio leaves the clip range, so no clip is compared"
    assert (ours - by_hand).abs().max() < 1e-5  # advantages are float32


@pytest.mark.parametrize("baseline", BASELINES)
def test_each_baseline_takes_the_steps_of_its_formula(make_module: Make, tmp_path: Path, baseline: str) -> None:
    """Items 15, 18, 19: group means with and without deviation, RLOO, best of a group, batch, none."""
    ours, by_hand, _ = two_updates(make_module, tmp_path, baseline=baseline)
    assert (ours - by_hand).abs().max() < 1e-5  # advantages are float32


@pytest.mark.parametrize("mode", AGGREGATES)
def test_each_aggregate_takes_the_steps_of_its_formula(make_module: Make, tmp_path: Path, mode: str) -> None:
    """Items 1, 2: four completions a group, at most six tokens each."""
    ours, by_hand, _ = two_updates(make_module, tmp_path, mode=mode, microbatch_size=5)
    assert (ours - by_hand).abs().max() < 1e-5  # advantages are float32


# -- KL, entropy, credit, truncation ------------------------------------------------------------------------

KINDS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "k1": lambda new, ref: new - ref,
    "k2": lambda new, ref: (new - ref) ** 2 / 2,
    "k3": lambda new, ref: (ref - new).exp() - 1 - (ref - new),
}


class Drifted(Watched):
    """The reference is not where the policy starts: its weights are moved by a fixed small step."""

    def configure_model(self) -> None:
        super().configure_model()
        drift(self.policy.frozen_reference)


def drift(model: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


def after_one_update(module: Any, folder: Path) -> tuple[Any, Any, Tensor, Tensor]:
    """Run one rollout; a fresh policy, the rows, their mask, and their log-probabilities under the reference."""
    fit(module, folder)
    twin: Any = CausalLM(config=TINY_QWEN2, tokenizer=module.policy.tokenizer_source, dtype="float64")
    twin.load()
    twin.eval()
    reference: Any = CausalLM(config=TINY_QWEN2, tokenizer=module.policy.tokenizer_source, dtype="float64")
    reference.load()
    drift(reference.model)
    rows = module.rollout.completions
    with torch.no_grad(), evaluating(reference):
        ref = reference.logprobs(rows)
    return twin, rows, rows.completion_mask, ref


@pytest.mark.parametrize("kind", ["k2", "k3"])
def test_kl_in_the_loss_adds_its_estimate_to_each_token(make_module: Make, tmp_path: Path, kind: Any) -> None:
    """Items 43, 48: with the entropy bonus, whose sign would show (item 37)."""
    objective = Objective(loss=PolicyGradient(), kl_coef=0.3, kl_kind=kind, entropy_coef=0.1)
    module = make_module(Drifted, objective=objective, max_rollouts=1, optimizer=sgd)
    policy, rows, mask, ref = after_one_update(module, tmp_path)
    a = advantages("GroupMean", module.output.rewards.tolist())  # type: ignore[attr-defined]
    new = policy.logprobs(rows)
    loss = -new * a + 0.3 * KINDS[kind](new, ref) - 0.1 * policy.entropy(rows)
    step_down(policy, AGGREGATES["token_mean"](loss, mask))
    by_hand = torch.cat([p.detach().flatten() for p in policy.parameters()])
    assert (weights(module) - by_hand).abs().max() < 1e-6


@pytest.mark.parametrize("kind", ["k1", "k3"])
def test_kl_in_the_reward_is_taken_off_before_the_baseline(make_module: Make, tmp_path: Path, kind: Any) -> None:
    """Item 32: the reward that is logged is that of the task alone."""
    objective = Objective(loss=PolicyGradient(), kl_coef=0.3, kl_kind=kind, kl_in="reward")
    module: Any = make_module(
        Drifted, objective=objective, baseline=BASELINES["centred"], max_rollouts=1, optimizer=sgd
    )
    scored, under = [], module.logprobs.under
    module.logprobs.under = lambda *args: scored.append(args) or under(*args)
    policy, rows, mask, ref = after_one_update(module, tmp_path)
    assert len(scored) == 2, "once under the policy and once under the reference"
    new = policy.logprobs(rows)
    rewards = module.output.rewards
    scores = rewards.double() - 0.3 * (KINDS[kind](new.detach(), ref) * mask).sum(-1)
    a = advantages("centred", scores.tolist())
    step_down(policy, AGGREGATES["token_mean"](-new * a, mask))
    by_hand = torch.cat([p.detach().flatten() for p in policy.parameters()])
    assert (weights(module) - by_hand).abs().max() < 1e-6
    assert module.trainer.callback_metrics["reward/mean"] == pytest.approx(rewards.mean().item(), abs=1e-6)


class SomeEnd(Watched):
    """Every third completion is taken to have ended by itself, the others to have been cut."""

    def collect(self, *args: Any) -> Rollout:
        rollout = super().collect(*args)
        kind = type(rollout.completions.stop_reasons[0])
        reasons = tuple(kind.EOS if i % 3 == 0 else kind.LENGTH for i in range(len(rollout.judgements)))
        return replace(rollout, completions=with_stop_reasons(rollout.completions, *reasons))


def test_masked_completions_leave_the_loss_and_stay_in_the_baseline(make_module: Make, tmp_path: Path) -> None:
    """Items 11, 26."""
    module = make_module(
        SomeEnd, mask_truncated=True, objective=Objective(loss=PolicyGradient()), max_rollouts=1, optimizer=sgd
    )
    policy, rows, mask, _ = after_one_update(module, tmp_path)
    a = advantages("GroupMean", module.output.rewards.tolist())  # type: ignore[attr-defined]
    ended = mask & (torch.arange(len(rows)) % 3 == 0)[:, None]
    step_down(policy, AGGREGATES["token_mean"](-policy.logprobs(rows) * a, ended))
    by_hand = torch.cat([p.detach().flatten() for p in policy.parameters()])
    assert (weights(module) - by_hand).abs().max() < 1e-6
