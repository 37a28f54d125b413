"""Callbacks that a run has unless its own list has one of the kind."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback

from lit_rl.callbacks.completion_writer import CompletionWriter
from lit_rl.callbacks.run_record import RunRecord, has_folder
from lit_rl.callbacks.tensorboard_layout import TensorBoardLayout, boards_of


def add_unless_listed(trainer: Any, *kinds: type[Callback]) -> None:
    """Add a callback of each kind of which the trainer has none; it calls those that save checkpoints last."""
    for kind in kinds:
        if not any(isinstance(one, kind) for one in trainer.callbacks):
            trainer.callbacks.insert(0, kind())


def add_defaults(trainer: Any) -> None:
    """Record a run that has a folder, and arrange the board of one that has TensorBoard."""
    if not trainer.fast_dev_run:
        add_unless_listed(trainer, *([RunRecord, CompletionWriter] if has_folder(trainer) else []))
        add_unless_listed(trainer, *([TensorBoardLayout] if boards_of(trainer) else []))
