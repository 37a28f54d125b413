"""The trainer of lit_rl's side of a comparison: one that does nothing but train."""

from __future__ import annotations

import lightning.pytorch as pl


def trainer_of(watch: pl.Callback) -> pl.Trainer:
    """One process on the CPU, without logs, checkpoints, bars and validation, so that what is timed is the work."""
    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        max_epochs=-1,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[watch],
        limit_val_batches=0,
        use_distributed_sampler=False,
    )
