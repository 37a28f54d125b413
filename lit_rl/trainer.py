"""Lightning's trainer with the settings that rollouts need, for scripts and notebooks."""

from __future__ import annotations

import os
import warnings
from typing import Any

import lightning.pytorch as pl

from lit_rl.callbacks.checkpointing import Checkpointing
from lit_rl.models.strategy import check_strategy

TRAINER_DEFAULTS: dict[str, Any] = {
    # Rollouts differ in length; a step is a rollout, and each one is worth a point on the curves.
    "log_every_n_steps": 1,
    "num_sanity_val_steps": 0,
    # Problems are dealt out to ranks by ProblemLoader, without duplicates.
    "use_distributed_sampler": False,
    # Tensors made in inference mode would break the training step after a standalone validation.
    "inference_mode": False,
    "enable_model_summary": False,
    "default_root_dir": "runs",
}
"""What a run here wants otherwise than Lightning does by default; the command line uses the same."""

_DECIDED = (
    ".*args parameter is intended to run from within Python.*",
    ".*does not have many workers.*",
    ".*recommended to use .*sync_dist=True.*",
    ".*LeafSpec.*",
    ".*overridden `transfer_batch_to_device` in `LightningModule`.*",
    ".*in eval mode at the start of training.*",
)


class Trainer(pl.Trainer):
    """``lightning.pytorch.Trainer`` with :data:`TRAINER_DEFAULTS`, ended by the module's own limits.

    Epochs have no end unless ``max_epochs`` or ``max_steps`` is given: modules count rollouts (``max_rollouts``) or
    updates (``max_updates``). With a :class:`~lit_rl.callbacks.Checkpointing` callback, ``fit`` goes on where an
    earlier run in that folder stopped, as ``lit-rl fit`` does.

    Args:
        **settings: of ``lightning.pytorch.Trainer``; each takes the place of the default.

    Raises:
        ValueError: a strategy that cannot work here.
    """

    def __init__(self, **settings: Any) -> None:
        quiet()
        check_strategy(settings.get("strategy", "auto"))
        endless = {} if {"max_epochs", "max_steps", "max_time"} & settings.keys() else {"max_epochs": -1}
        super().__init__(**{**TRAINER_DEFAULTS, **endless, **settings})

    def fit(
        self,
        model: pl.LightningModule,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: pl.LightningDataModule | None = None,
        ckpt_path: Any = None,
        weights_only: bool | None = None,
    ) -> None:
        """Train; arguments as in ``lightning.pytorch.Trainer.fit``."""
        start = where_to_start(self, ckpt_path)
        super().fit(model, train_dataloaders, val_dataloaders, datamodule, start, weights_only)


def where_to_start(trainer: pl.Trainer, ckpt_path: Any) -> Any:
    """The checkpoint that a fit begins with: the newest in a run's folder, else the one that was asked for."""
    for callback in trainer.checkpoint_callbacks:
        if isinstance(callback, Checkpointing):
            ckpt_path = callback.prepare(trainer, ckpt_path)
    return ckpt_path


def quiet() -> None:
    """Silence warnings of libraries about what this project decides on purpose."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for text in _DECIDED:
        warnings.filterwarnings("ignore", message=text)
