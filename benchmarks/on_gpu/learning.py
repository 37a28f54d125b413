"""The embedded task from its warm start, by a few algorithms."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import lightning.pytorch as pl
import torch
from bare_trainer import bare_trainer

from lit_rl import (
    GRPO,
    Basics,
    CausalLM,
    EvaluationConfig,
    ExecutionEvaluation,
    Objective,
    Sampling,
    Sandbox,
    TestsReward,
    UpdateConfig,
)
from lit_rl.math.advantages import GroupMean
from lit_rl.math.losses import Clipped
from on_gpu.measuring import Row

MAX_TOKENS = 40
ARMS: dict[str, dict[str, Any]] = {
    "GRPO, 8 steps a rollout": {
        "update": {"epochs": 2, "minibatches": 4},
        "objective": Objective(loss=Clipped(clip_high=0.28)),
    },
    "GRPO, 1 step": {},
    "MaxRL, 1 step": {"baseline": GroupMean("mean")},
}


class Curve(pl.Callback):
    """Keeps pass@1 of each validation."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float, float]] = []

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Note a point."""
        found = trainer.callback_metrics
        point = (pl_module.clock.count, float(found["val/greedy/pass@1"]), float(found["val/sampled/pass@1"]))
        self.points.append(point)


def learn_part(given: argparse.Namespace) -> Iterator[Row]:
    """Seeds of all algorithms in turn, as many as there is time for."""
    rollouts, problems, seeds = (2, 4, 1) if given.tiny else (30, 64, 3)
    for seed in range(seeds):
        for name, arm in ARMS.items():
            started = time.perf_counter()
            points = curve(given, seed, rollouts, problems, arm)
            spent = {"seconds": time.perf_counter() - started}
            curves = {f"after {at}": f"{greedy:.3f} / {sampled:.3f}" for at, greedy, sampled in points}
            yield {"algorithm": name, "seed": seed, **spent, **curves}


def curve(given: argparse.Namespace, seed: int, rollouts: int, problems: int, arm: dict[str, Any]) -> Any:
    """Greedy and sampled pass@1 on 260 held-out problems after each third of the rollouts."""
    update = {"optimizer": partial(torch.optim.AdamW, lr=4e-4, betas=(0.9, 0.95), weight_decay=0.0)}
    samplings = {
        "greedy": Sampling(temperature=0.0, max_tokens=MAX_TOKENS),
        "sampled": Sampling(num_samples=4, max_tokens=MAX_TOKENS),
    }
    module = GRPO(
        CausalLM(given.policy),
        [TestsReward()],
        sandbox=partial(Sandbox, num_workers=max(1, (os.cpu_count() or 2) - 2)),
        sampling=Sampling(num_samples=8, max_tokens=MAX_TOKENS),
        max_rollouts=rollouts,
        evaluate=EvaluationConfig(sampling=samplings),
        seed=seed,
        **arm | {"update": UpdateConfig(**update | arm.get("update", {}))},
    )
    held_out = 26 if given.tiny else 260
    data = Basics(batch_size=problems, num_validation_problems=held_out, validation_batch_size=held_out, seed=seed)
    watch = Curve()
    trainer = bare_trainer(
        watch,
        ExecutionEvaluation(),
        accelerator="gpu" if given.device.type == "cuda" else "cpu",
        limit_val_batches=1.0,
        check_val_every_n_epoch=None,
        val_check_interval=max(1, rollouts // 3),
    )
    trainer.validate(module, data, verbose=False)
    trainer.fit(module, data)
    return watch.points
