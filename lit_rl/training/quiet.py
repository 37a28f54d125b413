"""Which messages of libraries are left out: those about what this project decides on purpose, and advertisements."""

from __future__ import annotations

import logging
import os
import warnings

_WARNINGS = (
    ".*args parameter is intended to run from within Python.*",
    ".*does not have many workers.*",
    ".*recommended to use .*sync_dist=True.*",
    ".*LeafSpec.*",
    ".*overridden `transfer_batch_to_device` in `LightningModule`.*",
    ".*in eval mode at the start of training.*",
)
"""Beginnings, as regular expressions, of warnings that a user can do nothing about."""

_MESSAGES = (
    "\N{ELECTRIC LIGHT BULB} Tip:",  # of litlogger and litmodels
    "GPU available: False",
    "TPU available: False",
    "HPU available: False",
    "Seed set to",
    "Restoring states from the checkpoint path",
    "Restored all states from the checkpoint",
    "Loading `train_dataloader` to estimate",
)
"""Beginnings of log messages; what they say and a user wants to know stands on the screen."""

_LOGGERS = (
    "lightning.pytorch.utilities.rank_zero",
    "lightning.fabric.utilities.rank_zero",
    "lightning.fabric.utilities.seed",
    "lightning_utilities.core.rank_zero",
)


def quiet() -> None:
    """Silence them; every other message and warning still comes."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    for text in _WARNINGS:
        warnings.filterwarnings("ignore", message=text)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if _is_wanted not in logger.filters:
            logger.addFilter(_is_wanted)


def _is_wanted(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_MESSAGES)
