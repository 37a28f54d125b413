"""GRPO's relatives by argument: two updates of each, against formulas written out here, in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import fit, weights
from torch import Tensor

from lit_rl.advantages import BatchMean, GroupMean, LeaveOneOut, MaxRewards, NoBaseline, RowAdvantages
from lit_rl.losses import CISPO, Clipped, ImportanceSampling, PolicyGradient, Unclipped
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


def token_mean(loss: Tensor, mask: Tensor) -> Tensor:
    return (loss * mask).sum() / mask.sum()


def two_updates(
    make: Make,
    folder: Path,
    surrogate: str = "clipped",
    baseline: str = "GroupMean",
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights after two updates on one rollout, by the module and by hand, and the ratios of the second update."""
    objective, formula = SURROGATES[surrogate]
    module: Any = make(
        Watched,
        objective=objective,
        baseline=BASELINES[baseline],
        epochs=2,
        max_rollouts=1,
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
            step_down(policy, token_mean(formula(new, old, q, a, mask), mask))
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
