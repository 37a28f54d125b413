"""Runs that save themselves, on the task of the module tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.loggers.logger import Logger

from lit_rl.callbacks import Checkpointing
from support.small_runs import Words, quiet_trainer


class Curves(Logger):
    """Keeps what is logged: one row per step."""

    name = "curves"
    version = 0

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int, dict[str, float]]] = []

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        kept = {k: v for k, v in metrics.items() if not k.startswith(("time/", "memory/")) and k != "epoch"}
        self.rows.append((step or 0, kept))


class CrashAt(pl.Callback):
    """Ends the process's work as a crash does: nothing is saved after it."""

    def __init__(self, rollout: int) -> None:
        self.rollout = rollout

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, *args: Any) -> None:
        if pl_module.clock.count == self.rollout:
            raise InterruptedError("crash")


def run(
    module: pl.LightningModule, checkpointing: Checkpointing, *others: pl.Callback, logger: Any = False, **kwargs: Any
) -> pl.Trainer:
    """Start a run, or go on with it: three problems a rollout, four rollouts an epoch."""
    data = kwargs.pop("data", None) or Words(batch_size=3)
    settings = {"enable_checkpointing": True, "log_every_n_steps": 1, "logger": logger} | kwargs
    trainer = quiet_trainer(checkpointing.run_folder.path, callbacks=[checkpointing, *others], **settings)
    trainer.fit(module, data, ckpt_path=checkpointing.lock_and_resolve_checkpoint(trainer))
    return trainer


def names(folder: Path) -> list[str]:
    """Checkpoints in a folder, links left out."""
    return sorted(p.name for p in folder.glob("*.ckpt*") if not p.is_symlink())
