"""Seed document 004: sorting three numbers with four kinds of deltas and three losses, and what solves it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from lit_rl.data import Sorting, SortingPolicy, SortingReward
from lit_rl.data.toys.toy_tasks import LECTURE_PROMPTS, count_sorted_positions, sort_inclusion_ordering, sorting_problem
from lit_rl.math.advantages import GroupMean, MaxRewards, NoBaseline, RowAdvantages
from lit_rl.math.losses import Clipped, Loss, PolicyGradient, Unclipped
from lit_rl.models import Policy
from lit_rl.modules import REINFORCE, Objective, UpdateConfig
from lit_rl.types import Sampling
from reproductions.learning import learn
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import Picture, bar_chart

LOSSES: dict[str, Loss] = {"naive": PolicyGradient(), "unclipped": Unclipped(), "clipped": Clipped(0.01, 0.01)}
POINTS: dict[str, Any] = {
    "sort_inclusion_ordering": (5, sort_inclusion_ordering),
    "sort_distance": (3, count_sorted_positions),
}
DELTAS: dict[str, RowAdvantages] = {
    "rewards": NoBaseline(),
    "centered_rewards": GroupMean(normalize="none"),
    "normalized_rewards": GroupMean(eps=1e-5),
    "max_rewards": MaxRewards(),
}


def run(
    seed: int,
    folder: Path,
    deltas: str = "centered_rewards",
    loss: str = "naive",
    kind: Any = "sort_inclusion_ordering",
    embedding_std: float = 1.0,
    num_samples: int = 10,
    max_rollouts: int = 100,
) -> Numbers:
    """The lecture's run: 100 rollouts, ten steps of Adam on each; rewards and sorted answers after it."""
    module = REINFORCE(
        SortingPolicy(embedding_std=embedding_std, init_seed=seed),
        deltas=DELTAS[deltas],
        objective=Objective(loss=LOSSES[loss]),
        sampling=Sampling(num_samples=num_samples, max_tokens=3),
        rewards=[SortingReward(kind=kind)],
        max_rollouts=max_rollouts,
        seed=seed,
        update=UpdateConfig(optimizer=partial(torch.optim.Adam, lr=1e-3), gradient_clip_norm=None, epochs=10),
    )
    learn(module, Sorting(), folder)
    greedy, sampled = answers(module.policy, temperature=0.0), answers(module.policy, num_samples=200)
    largest, points = POINTS[kind]
    return {
        "reward": sum(points(prompt, answer) for prompt, answer in sampled) / len(sampled) / largest,
        "sorted": sum(answer == sorted(prompt) for prompt, answer in sampled) / len(sampled),
        "sorted_greedy": sum(answer == sorted(prompt) for prompt, answer in greedy) / len(greedy),
    }


def answers(policy: Policy, temperature: float = 1.0, num_samples: int = 1) -> list[tuple[list[int], list[int]]]:
    """Prompts and what the policy answers."""
    prompts = [list(prompt) for prompt in LECTURE_PROMPTS for _ in range(num_samples)]
    sampling = Sampling(temperature=temperature, num_samples=num_samples, max_tokens=3)
    texts = policy.complete([sorting_problem(prompt) for prompt in LECTURE_PROMPTS], sampling)
    return [(prompt, [int(word) for word in text.split()]) for prompt, text in zip(prompts, texts, strict=True)]


draw = partial(
    bar_chart,
    numbers={"reward": "reward", "sorted": "sampled answers sorted"},
    label="share of the largest reward, and of answers that are sorted",
)
PART = Part(
    name="sorting",
    cases=(
        *(Case(f"{deltas}, {loss}", partial(run, deltas=deltas, loss=loss)) for deltas in DELTAS for loss in LOSSES),
        Case("centered_rewards, naive, smaller first logits", partial(run, embedding_std=0.3)),
        Case("the same, rewarding numbers in the right place", partial(run, embedding_std=0.3, kind="sort_distance")),
        Case("centered_rewards, naive, rewarding numbers in the right place", partial(run, kind="sort_distance")),
    ),
    columns={"reward": "reward, share of the largest", "sorted": "sampled answers sorted"},
    picture=Picture("Reward and share of sorted answers in every case", draw, height=5),
)
