"""A run resumes exactly where it stopped, even at the end of an epoch, however often it was stopped before."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.saved_runs import CrashAt, Curves, run
from support.slow_cases import slow_but
from support.small_runs import adam, fit, weights

from lit_rl.callbacks import Checkpointing
from lit_rl.modules import RolloutModule

Make = Callable[..., RolloutModule]

ROLLOUTS = 12
"""Three epochs: twelve problems in batches of three are four rollouts an epoch."""


class Batches(pl.Callback):
    """Notes of each rollout its problems and where Lightning says it stands, and when epochs and validations were."""

    def __init__(self) -> None:
        self.of_rollout: dict[int, tuple[str, ...]] = {}
        self.counts: dict[int, tuple[int, ...]] = {}
        self.epochs: list[int] = []
        self.validated: list[int] = []

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.validated.append(pl_module.clock.count)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.epochs.append(trainer.current_epoch)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.of_rollout[pl_module.clock.count] = tuple(problem.task_id for problem in batch)
        loop = trainer.fit_loop.epoch_loop  # Lightning's own callbacks log at its step
        self.counts[pl_module.clock.count] = (batch_idx, loop._batches_that_stepped, loop.batch_progress.total.ready)


def start(
    make_module: Make, folder: Path, max_rollouts: int | None, *others: pl.Callback, **trainer: Any
) -> tuple[RolloutModule, Curves]:
    """Start the run in a folder, or go on with it."""
    module, curves = make_module(optimizer=adam, max_rollouts=max_rollouts), Curves()
    run(module, Checkpointing(str(folder), 1), *others, logger=curves, **trainer)
    return module, curves


def chain(make_module: Make, folder: Path, stops: Sequence[int], crash: bool, **trainer: Any) -> Any:
    """Stop a run after the given rollouts, by a crash or by ``max_rollouts``, then let it end."""
    batches, rows = Batches(), []
    ends = trainer.pop("ends", ROLLOUTS)
    for stop in stops:
        if crash:
            with pytest.raises(InterruptedError):
                start(make_module, folder, ends, batches, CrashAt(stop), **trainer)
        else:
            rows += start(make_module, folder, stop, batches, **trainer)[1].rows
    module, curves = start(make_module, folder, ends, batches, **trainer)
    return module, batches, rows + curves.rows


NO_VALIDATION: dict[str, Any] = {"check_val_every_n_epoch": None}
AT_BORDERS = NO_VALIDATION | {"limit_val_batches": 1.0, "val_check_interval": 4}
ACROSS_BORDERS = AT_BORDERS | {"val_check_interval": 3}
EACH_EPOCH = {"limit_val_batches": 1.0}
TRAINERS = {
    "no validation": NO_VALIDATION,
    "at borders": AT_BORDERS,
    "across borders": ACROSS_BORDERS,
    "each epoch": EACH_EPOCH,
    "by steps": NO_VALIDATION | {"max_steps": 100},
    "three of four": NO_VALIDATION | {"limit_train_batches": 3},
    "half": NO_VALIDATION | {"limit_train_batches": 0.5},
    "two, across": ACROSS_BORDERS | {"limit_train_batches": 2},
    "three, each epoch": EACH_EPOCH | {"limit_train_batches": 3},
}
STOPS = [(4,), (3, 4), (4, 8), (2, 4, 5, 8), (1, 2, 3, 4, 5, 6, 7, 8, 9)]
QUICK = {("no validation", (2, 4, 5, 8), "crash"), ("three, each epoch", (3, 4), "raised")}


@pytest.mark.parametrize(
    ("trainer", "stops", "how"),
    slow_but(QUICK, itertools.product(TRAINERS, STOPS, ("crash", "raised"))),
)
def test_resumes_of_resumes_across_epochs_are_the_undisturbed_run(
    make_module: Make, tmp_path: Path, trainer: str, stops: tuple[int, ...], how: str
) -> None:
    """Item 55: stops in the middle and at the end of epochs."""
    crash = how == "crash"
    whole, batches, rows = chain(make_module, tmp_path / "whole", (), crash, **TRAINERS[trainer])
    again, batches_again, rows_again = chain(make_module, tmp_path / "a", stops, crash, **TRAINERS[trainer])
    assert batches_again.of_rollout == batches.of_rollout and batches_again.counts == batches.counts
    assert again.clock.count == whole.clock.count == ROLLOUTS
    assert torch.equal(weights(again), weights(whole))
    if crash:  # a run that ends validates once more at its end
        assert batches_again.validated == batches.validated
        assert rows_again == [row for row in rows if row[0] > stops[-1]]
    else:
        of_training, again_of_training = ([row for row in one if "reward/mean" in row[1]] for one in (rows, rows_again))
        assert again_of_training == of_training


OF_TWO = NO_VALIDATION | {"limit_train_batches": 2}


@pytest.mark.parametrize("trainer", slow_but((EACH_EPOCH,), [NO_VALIDATION, AT_BORDERS, EACH_EPOCH, OF_TWO]))
def test_max_epochs_counts_the_epochs_of_all_starts(make_module: Make, tmp_path: Path, trainer: dict[str, Any]) -> None:
    per_epoch = trainer.get("limit_train_batches", 4)
    stops = (per_epoch, per_epoch + 1, 2 * per_epoch)
    module, batches, _ = chain(make_module, tmp_path, stops, True, ends=None, max_epochs=3, **trainer)
    assert module.clock.count == 3 * per_epoch == len(batches.of_rollout)
    again, *_ = start(make_module, tmp_path, None, max_epochs=4, **trainer)
    assert again.clock.count == 4 * per_epoch


def test_an_epoch_made_shorter_than_it_already_is_ends(make_module: Make, tmp_path: Path) -> None:
    """Stopped after three of four rollouts, then at most two an epoch: the next rollout opens an epoch.

    In the undisturbed run every epoch has an order of its own.
    """
    batches, whole = Batches(), Batches()
    start(make_module, tmp_path, 3, batches, **NO_VALIDATION)
    module, _ = start(make_module, tmp_path, 6, batches, limit_train_batches=2, **NO_VALIDATION)
    assert module.clock.count == 6
    start(make_module, tmp_path / "whole", ROLLOUTS, whole, **NO_VALIDATION)
    first_of = [whole.of_rollout[4 * epoch] for epoch in range(3)]
    assert [batches.of_rollout[i] for i in (0, 3, 5)] == first_of
    assert batches.epochs == [0, 1, 2]
    orders = [tuple(itertools.chain(*(whole.of_rollout[4 * e + i] for i in range(4)))) for e in range(3)]
    assert len(set(orders)) == 3 and {len(set(order)) for order in orders} == {12}
    assert sorted(orders[0]) != list(orders[0])


def test_a_checkpoint_of_lightning_s_own_resumes_at_the_border_too(make_module: Make, tmp_path: Path) -> None:
    """Without our callback: ModelCheckpoint, which saves before a rollout counts as completed."""
    from lightning.pytorch.callbacks import ModelCheckpoint

    def train(folder: Path, rollouts: int, ckpt_path: str | None = None) -> RolloutModule:
        module = make_module(optimizer=adam, max_rollouts=rollouts)
        saves = ModelCheckpoint(folder, every_n_train_steps=1, save_top_k=-1, filename="{step}")
        fit(module, folder, callbacks=[saves], enable_checkpointing=True, ckpt_path=ckpt_path)
        return module

    whole = train(tmp_path / "whole", 5)
    train(tmp_path / "a", 2)
    train(tmp_path / "b", 4, str(tmp_path / "a" / "step=2.ckpt"))
    last = train(tmp_path / "c", 5, str(tmp_path / "b" / "step=4.ckpt"))
    assert torch.equal(weights(last), weights(whole))
