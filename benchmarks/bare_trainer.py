"""The trainer of benchmarks: one that does nothing but train."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl


def bare_trainer(*callbacks: pl.Callback, **settings: Any) -> pl.Trainer:
    """One process on the CPU, without logs, checkpoints, bars and validation, so that what is timed is the work."""
    return pl.Trainer(
        **{
            "accelerator": "cpu",
            "devices": 1,
            "callbacks": list(callbacks),
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "use_distributed_sampler": False,
            "num_sanity_val_steps": 0,
            "limit_val_batches": 0,
            "max_epochs": -1,
            **settings,
        }
    )
