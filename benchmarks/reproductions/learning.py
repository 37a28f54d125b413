"""Settings that the parts share which train a language model: its size, its imitation, and how it is measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import lightning.pytorch as pl
from algorithms import adamw, falling, one_cycle, trainer

from lit_rl.data import TaskDataModule
from lit_rl.evaluation import Evaluation, evaluate
from lit_rl.execution import Sandbox
from lit_rl.models import CausalLM
from lit_rl.modules import SFT, Optimization, PolicyModule, UpdateConfig
from lit_rl.types import Problem, Sampling

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


def imitate(
    folder: Path, data: TaskDataModule, tokenizer: str, updates: int, begin: Path | None = None, lr: float = 6e-3
) -> None:
    """Imitate a task's demonstrations, with new weights or those of ``begin``, and write the policy to ``start``."""
    schedule = one_cycle(lr, updates, rise=0.15)
    new = {"config": MODEL, "tokenizer": tokenizer, "init_seed": 0}
    policy = CausalLM(**(new if begin is None else {"model": str(begin)}))
    module = SFT(
        policy, max_updates=updates, update=Optimization(optimizer=adamw(lr, weight_decay=0.01), lr_scheduler=schedule)
    )
    trainer(folder, []).fit(module, data)
    policy.save_pretrained(folder / "start")


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

    def reached(self, name: str, level: float, window: int = 5) -> int | None:
        """Rollouts until the mean over this many successive ones was at least the level; ``None`` if it never was."""
        values = self.values[name]
        means = (mean(values[end - window : end]) for end in range(window, len(values) + 1))
        return next((end for end, value in enumerate(means, start=window) if value >= level), None)


def learn(module: PolicyModule, data: TaskDataModule, folder: Path, *callbacks: pl.Callback) -> None:
    """Train without validation, checkpoints or logs."""
    trainer(folder, list(callbacks)).fit(module, data)


def measured(policy: CausalLM, problems: Sequence[Problem], max_tokens: int, temperature: float = 0.0) -> Evaluation:
    """One completion of each problem, greedy or sampled."""
    sampling = Sampling(temperature=temperature, max_tokens=max_tokens)
    with Sandbox() as sandbox:
        return evaluate(policy, problems, sampling=sampling, sandbox=sandbox, batch_size=len(problems))


def length(evaluation: Evaluation) -> float:
    """Mean length of the completions, in tokens."""
    return mean(n for rollout in evaluation.rollouts for n in rollout.completions.lengths.tolist())


def shared(seed: int, rollouts: int, lr: float, **update: Any) -> dict[str, Any]:
    """Arguments that all trainings by rollouts share; others of their update are given by name."""
    return {
        "update": UpdateConfig(optimizer=adamw(lr), lr_scheduler=falling(rollouts), **update),
        "max_rollouts": rollouts,
        "sandbox": Sandbox,
        "seed": seed,
    }
