"""Document 000, section 1: PPO in the smallest worlds, one cell with two actions and a corridor of five cells."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from lit_rl.data import Corridor, CorridorCritic, CorridorPolicy, CorridorReward
from lit_rl.math.advantages import GAE
from lit_rl.modules import PPO, CriticConfig, UpdateConfig
from lit_rl.types import Sampling
from reproductions.learning import Seen, learn
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import Picture, Results, curves

GAMMA = 0.9
CURVES = {"reward": "mean reward", "loss": "value loss"}
METRICS = {"reward": "reward/mean", "steps": "completion/length", "loss": "critic/value_loss"}


def run(seed: int, folder: Path, num_cells: int = 5, max_rollouts: int = 60) -> Numbers:
    """PPO with a critic; reward and value loss over the first and the last five rollouts, and the critic's error."""
    policy, critic = CorridorPolicy(num_cells, init_seed=seed), CorridorCritic(num_cells)
    seen = Seen(*METRICS.values())
    module = PPO(
        policy,
        critic=critic,
        sampling=Sampling(num_samples=16, max_tokens=8 * num_cells if num_cells > 1 else 1),
        rewards=[CorridorReward()],
        max_rollouts=max_rollouts,
        seed=seed,
        update=UpdateConfig(epochs=4, gradient_clip_norm=None, optimizer=partial(torch.optim.Adam, lr=0.05)),
        estimator=GAE(gamma=GAMMA, gae_lambda=0.95),
        critic_update=CriticConfig(gradient_clip_norm=None),
    )
    learn(module, Corridor(num_cells), folder, seen)
    values = critic.weights.weight[1:, 0].tolist()
    return {
        **{f"first_{name}": seen.first(metric) for name, metric in METRICS.items()},
        **{f"last_{name}": seen.last(metric) for name, metric in METRICS.items()},
        **{name: seen.values[METRICS[name]] for name in CURVES},
        "value_error": max(abs(value - GAMMA**steps) for steps, value in enumerate(values)),
    }


def draw(figure: Any, results: Results) -> None:
    for axes, (number, title) in zip(figure.subplots(1, 2), CURVES.items(), strict=True):
        curves(axes, results, number)
        axes.set_title(title)
    axes.set_yscale("log")
    if axes.lines:
        axes.legend()


PART = Part(
    name="worlds",
    cases=(
        Case("one cell, one step: a binary choice", partial(run, num_cells=1)),
        Case("five cells", partial(run, num_cells=5)),
    ),
    columns={
        "first_reward": "reward, first 5 rollouts",
        "last_reward": "reward, last 5",
        "first_steps": "steps, first 5",
        "last_steps": "steps, last 5",
        "first_loss": "value loss, first 5",
        "last_loss": "value loss, last 5",
        "value_error": "largest error of a value",
    },
    digits={"first_loss": 4, "last_loss": 4, "value_error": 3},
    picture=Picture("Reward and value loss over the rollouts in both worlds", draw),
)
