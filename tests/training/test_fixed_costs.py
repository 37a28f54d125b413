"""Costs of every rollout that have nothing to do with it."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from support.small_runs import build_module, fit


class Frozen(pl.Callback):
    """Counts the objects that garbage collections leave out during a rollout."""

    number = 0

    def on_train_batch_end(self, *_: Any) -> None:
        self.number = gc.get_freeze_count()


def test_what_is_loaded_is_left_out_of_garbage_collections_during_training(byte_tokenizer: str, tmp_path: Path) -> None:
    seen = Frozen()
    fit(build_module(byte_tokenizer, max_rollouts=1), tmp_path, callbacks=[seen])
    assert seen.number > 100_000
    assert gc.get_freeze_count() == 0
