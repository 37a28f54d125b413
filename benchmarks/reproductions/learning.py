"""Parts that trainings of a language model share: its size, imitation, learning from pairs, and measuring."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import lightning.pytorch as pl
import torch
from bare_trainer import bare_trainer

from lit_rl.callbacks import PreferenceWriter
from lit_rl.data import PreferencePairs, TaskDataModule
from lit_rl.evaluation import Evaluation, evaluate
from lit_rl.execution import Sandbox
from lit_rl.models import CausalLM, Policy
from lit_rl.modules import DPO, SFT, EvaluationConfig, Optimization, PolicyModule, UpdateConfig
from lit_rl.rewards import RewardTerm
from lit_rl.types import Problem, Sampling
from reproductions.part import Numbers

TOKENIZER = "package:lit_rl.data/basics/tokenizer"
MODEL = {
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
    "initializer_range": 0.04,
}
"""That of configs/basics_sft.yaml: 650,000 weights."""


def adamw(lr: float, weight_decay: float = 0.0) -> Callable[[Any], torch.optim.Optimizer]:
    return partial(torch.optim.AdamW, lr=lr, betas=(0.9, 0.95), weight_decay=weight_decay)


def falling(updates: int) -> Callable[[torch.optim.Optimizer], Any]:
    return partial(torch.optim.lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.1, total_iters=updates)


def learn(module: PolicyModule, data: TaskDataModule, folder: Path, *callbacks: pl.Callback) -> None:
    """Train without validation, checkpoints or logs."""
    bare_trainer(*callbacks, default_root_dir=folder).fit(module, data)


def imitate(
    policy: CausalLM,
    data: TaskDataModule,
    folder: Path,
    updates: int,
    lr: float = 6e-3,
    rise: float = 0.15,
    seed: int = 0,
) -> None:
    """Imitate a task's demonstrations with a rate that rises and falls, and write the policy to ``start``."""
    schedule = partial(
        torch.optim.lr_scheduler.OneCycleLR,
        max_lr=lr,
        total_steps=updates + 1,  # the rate of the beginning counts
        pct_start=rise,
        cycle_momentum=False,
    )
    update = Optimization(optimizer=adamw(lr, weight_decay=0.01), lr_scheduler=schedule)
    learn(SFT(policy, max_updates=updates, seed=seed, update=update), data, folder)
    policy.save_pretrained(folder / "start")


def new_policy(tokenizer: str = TOKENIZER) -> CausalLM:
    """A policy with random weights."""
    return CausalLM(config=MODEL, tokenizer=tokenizer, init_seed=0)


def imitation(folder: Path) -> CausalLM:
    """The policy that the cases of a part begin with; ``folder`` is a case's."""
    return CausalLM(str(folder.parent / "start"))


def without_training(seed: int, folder: Path, measure: Callable[[CausalLM], Numbers]) -> Numbers:
    """Measure the imitation as it is."""
    return measure(imitation(folder))


def shared(
    seed: int, rollouts: int, lr: float, rewards: Sequence[RewardTerm], sampling: Sampling, **update: Any
) -> dict[str, Any]:
    """Arguments that all trainings by rollouts share; others of their update are given by name."""
    return {
        "sampling": sampling,
        "rewards": rewards,
        "update": UpdateConfig(optimizer=adamw(lr), lr_scheduler=falling(rollouts), **update),
        "max_rollouts": rollouts,
        "sandbox": Sandbox,
        "seed": seed,
    }


def learn_from_pairs(
    policy: CausalLM,
    start: str,
    data: TaskDataModule,
    rewards: Sequence[RewardTerm],
    folder: Path,
    updates: int,
    **how: Any,
) -> None:
    """Train by DPO on pairs from eight completions of each training problem by the policy in ``start``.

    ``how`` has the ``max_tokens`` of a completion, and settings of :class:`PreferenceWriter`.
    """
    pairs = str(folder / "pairs.jsonl")
    evaluation = EvaluationConfig(predict=Sampling(num_samples=8, max_tokens=how.pop("max_tokens")))
    sampler = DPO(CausalLM(start), rewards=rewards, sandbox=Sandbox, seed=data.seed, evaluate=evaluation)
    writer = PreferenceWriter(pairs, **how)
    bare_trainer(writer, default_root_dir=folder).predict(sampler, data, return_predictions=False)
    update = Optimization(optimizer=adamw(1e-4), lr_scheduler=falling(updates))
    module = DPO(policy, beta=0.1, max_updates=updates, seed=data.seed, update=update)
    learn(module, PreferencePairs(pairs, batch_size=32, seed=data.seed), folder)


class Seen(pl.Callback):
    """Values of some metrics after each rollout.

    Args:
        names: of the metrics.
    """

    def __init__(self, *names: str) -> None:
        self.values: dict[str, list[float]] = {name: [] for name in names}

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        for name, values in self.values.items():
            if name in trainer.callback_metrics:
                values.append(float(trainer.callback_metrics[name]))

    def first(self, name: str, count: int = 5) -> float:
        """Mean over the first rollouts."""
        return mean(self.values[name][:count])

    def last(self, name: str, count: int = 5) -> float:
        """Mean over the last rollouts."""
        return mean(self.values[name][-count:])


class Measured(pl.Callback):
    """Greedy pass@1 on held-out problems after every few rollouts, and the CPU seconds of training without it."""

    cpu_seconds = started = 0.0

    def __init__(self, policy: CausalLM, problems: Sequence[Problem], max_tokens: int, every: int) -> None:
        self.policy, self.problems, self.max_tokens, self.every = policy, problems, max_tokens, every
        self.values: list[float] = []
        self.rollouts = 0

    def on_train_batch_start(self, *_: Any) -> None:
        self.started = time.process_time()

    def on_train_batch_end(self, *_: Any) -> None:
        self.cpu_seconds += time.process_time() - self.started
        self.rollouts += 1
        if self.rollouts % self.every == 0:
            self.values.append(measured(self.policy, self.problems, self.max_tokens).pass_at[1])

    def rollouts_to(self, goal: float) -> dict[str, float]:
        """Rollouts until the goal was reached first, by the number's name; empty if it never was."""
        reached = [self.every * n for n, value in enumerate(self.values, 1) if value >= goal - 1e-9]
        return {f"to_{goal}": reached[0]} if reached else {}


def measured(policy: Policy, problems: Sequence[Problem], max_tokens: int, temperature: float = 0.0) -> Evaluation:
    """One completion of each problem, greedy or sampled."""
    sampling = Sampling(temperature=temperature, max_tokens=max_tokens)
    with Sandbox() as sandbox:
        return evaluate(policy, problems, sampling=sampling, sandbox=sandbox, batch_size=len(problems))


def pass_rates(policy: Policy, problems: Sequence[Problem], max_tokens: int) -> dict[str, float]:
    """pass@1 and mean length in tokens, of greedy and of sampled completions."""
    found = {}
    for name, temperature in (("greedy", 0.0), ("sampled", 1.0)):
        evaluation = measured(policy, problems, max_tokens, temperature)
        lengths = [n for rollout in evaluation.rollouts for n in rollout.completions.lengths.tolist()]
        found |= {name: evaluation.pass_at[1], f"{name}_length": mean(lengths)}
    return found
