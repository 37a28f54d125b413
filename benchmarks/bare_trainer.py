"""Parts of trainings that are measured: a bare trainer, problems that are given, and a reward that costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import lightning.pytorch as pl

from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement, Problem


def bare_trainer(*callbacks: pl.Callback, **settings: Any) -> pl.Trainer:
    """Return a trainer of one process on the CPU, without logs, checkpoints, bars and validation."""
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


class Given(TaskDataModule):
    """Problems to train on."""

    name = "given"

    def __init__(self, given: Sequence[Problem], **options: Unpack[TaskOptions]) -> None:
        super().__init__(**options)
        self.given = list(given)

    def load_problems(self, split: Split) -> list[Problem]:
        return self.given if split == "train" else []


class EvenIds(RewardTerm):
    """A reward: the share of even ids."""

    default_name = "even"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        even = (completions.completion_ids % 2 == 0) & completions.completion_mask
        return [TermScore(share) for share in (even.sum(-1) / completions.lengths).tolist()]
