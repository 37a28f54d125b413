"""Whole steps of GRPO."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
import torch
from bare_trainer import bare_trainer

from lit_rl import GRPO, Sampling
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution import TokenTarget
from lit_rl.modules import Update
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement, Problem
from on_gpu.measuring import Row, finish, forget, peak_gigabytes
from on_gpu.policies import GROUP, policy_of


class EvenIds(RewardTerm):
    """Share of even ids: a reward that costs nothing."""

    default_name = "even"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """One value a row."""
        return [TermScore(float(share)) for share in (completions.completion_ids % 2 == 0).float().mean(-1).tolist()]


class Prompts(TaskDataModule):
    """Prompts of about as many tokens as asked for."""

    name = "prompts"

    def __init__(self, number: int, tokens: int) -> None:
        super().__init__(batch_size=number)
        self.tokens = tokens

    def load_problems(self, split: Split) -> list[Problem]:
        """The same for every split."""
        return [Problem(f"{i}", f"{i}" + "+" * (self.tokens - 1), TokenTarget()) for i in range(self.batch_size)]


class Clock(pl.Callback):
    """Seconds of each step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_train_batch_start(self, *_: Any) -> None:
        """A step begins."""
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """A step ended."""
        finish(module.device)
        self.seconds.append(time.perf_counter() - self.began)


def step_part(given: argparse.Namespace, found: dict[str, Any]) -> list[Row]:
    """Whole steps through Lightning's trainer; float32 masters and moments beside weights of a smaller dtype."""
    table = []
    for shape in given.shapes:
        forget(given.device)
        clock = Clock()
        module = GRPO(
            policy_of(shape, given, gradient_checkpointing=given.checkpointing),
            sampling=Sampling(num_samples=GROUP, max_tokens=given.tokens),
            rewards=[EvenIds()],
            max_rollouts=3,
            update=Update(
                optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-6), microbatch_size=given.microbatch
            ),
        )
        with tempfile.TemporaryDirectory() as folder:
            accelerator = "gpu" if given.device.type == "cuda" else "cpu"
            trainer = bare_trainer(clock, accelerator=accelerator, default_root_dir=folder)
            trainer.fit(module, Prompts(given.update_rows // GROUP, given.prompt))
        metrics = trainer.callback_metrics
        row = {"shape": shape, "rows": given.update_rows, "tokens": given.tokens, "step (s)": clock.seconds[-1]}
        row |= {f"{part} (s)": float(metrics[f"time/{part}_seconds"]) for part in ("sampling", "updating")}
        table.append(row | {"peak (GB)": peak_gigabytes(given.device)})
        del module, trainer
    return table
