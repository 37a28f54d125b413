"""A run that samples one rollout ahead is killed and started again: what was sampled is in its checkpoints."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from modules.test_staleness import Kept, ahead
from support.asking import AsksAgain
from support.late_verdicts import Counting, Programs
from support.saved_runs import CrashAt, Curves, run
from support.small_runs import adam, weights

from lit_rl.callbacks import Checkpointing
from lit_rl.modules import PPO, RolloutModule
from lit_rl.types import Sampling

Make = Callable[..., RolloutModule]

ACROSS_BORDERS = {"limit_val_batches": 1.0, "val_check_interval": 3, "check_val_every_n_epoch": None}
EACH_EPOCH = {"limit_val_batches": 1.0}
TWO_AN_EPOCH = {"limit_train_batches": 2, "check_val_every_n_epoch": None}


def start(
    make_module: Make, folder: Path, *others: pl.Callback, trainer: dict[str, Any], every: int = 1, **options: Any
) -> tuple[Any, Curves]:
    """Start the run in a folder, or go on with it."""
    module = ahead(make_module, **({"optimizer": adam, "max_rollouts": 10} | options))
    curves = Curves()
    run(module, Checkpointing(str(folder), every), *others, logger=curves, data=Programs(batch_size=3), **trainer)
    return module, curves


@pytest.mark.parametrize(
    ("trainer", "stops", "every", "options"),
    [
        ({}, (1, 4, 5, 8), 1, {}),
        pytest.param({}, (9,), 4, {}, marks=pytest.mark.slow),
        pytest.param(ACROSS_BORDERS, (3, 4, 7), 1, {"minibatches": 2}, marks=pytest.mark.slow),
        pytest.param(EACH_EPOCH, (4, 8), 1, {"cls": PPO}, marks=pytest.mark.slow),
        (TWO_AN_EPOCH, (2, 3), 2, {"environment": AsksAgain(), "max_rollouts": 4}),
    ],
    ids=["borders", "six lost", "validation across borders", "validation at borders", "turns"],
)
def test_a_killed_run_ends_like_one_that_was_not(
    make_module: Make, tmp_path: Path, trainer: dict[str, Any], stops: tuple[int, ...], every: int, options: Any
) -> None:
    """Bit for bit, weights and curves. The checkpoint is that of the last multiple of ``every``."""
    whole, curves = start(make_module, tmp_path / "whole", trainer=trainer, every=every, **options)
    for stop in stops:
        with pytest.raises(InterruptedError):
            start(make_module, tmp_path / "a", CrashAt(stop), trainer=trainer, every=every, **options)
    again, rest = start(make_module, tmp_path / "a", trainer=trainer, every=every, **options)
    assert again.clock.count == whole.clock.count == options.get("max_rollouts", 10)
    assert torch.equal(weights(again), weights(whole))
    saved = stops[-1] - stops[-1] % every
    assert rest.rows == [row for row in curves.rows if row[0] > saved] and rest.rows


def test_what_was_sampled_is_not_sampled_again(make_module: Make, tmp_path: Path) -> None:
    """Ten rollouts in two starts are ten sessions; verdicts come from programs that run again."""
    sessions = []
    for stop in (5, -1):
        engine = Counting()
        with contextlib.suppress(InterruptedError):
            start(make_module, tmp_path, CrashAt(stop), trainer={}, engine=engine)
        sessions.append(engine.sessions)
    assert sessions == [6, 4]


def test_checkpoints_hold_plain_data_and_no_rows_when_nothing_follows(make_module: Make, tmp_path: Path) -> None:
    start(make_module, tmp_path, trainer={}, max_rollouts=2)
    one, two = (torch.load(tmp_path / f"rollout_00000{n}.ckpt", weights_only=True) for n in (1, 2))
    assert one["pending_rollout"]["rollout"] == 1
    rows = one["pending_rollout"]["rows"]
    assert (
        len(rows) == 12 and {row["sample"] for row in rows} == {0, 1, 2, 3} and len({r["task_id"] for r in rows}) == 3
    )
    assert "pending_rollout" not in two
    kept = Kept()  # a finished run that goes on begins with fresh rows
    start(make_module, tmp_path, kept, trainer={}, max_rollouts=3)
    assert [metrics["policy/updates_behind"] for _, _, metrics in kept.rollouts] == [0]
    on_policy, _ = start(make_module, tmp_path / "0", trainer={}, max_rollouts=2, staleness=0)
    assert on_policy.collector.pending is None
    assert "pending_rollout" not in torch.load(tmp_path / "0" / "rollout_000001.ckpt", weights_only=True)


OTHER: list[dict[str, Any]] = [
    {"sampling": Sampling(num_samples=2, max_tokens=6)},
    {"sampling": Sampling(num_samples=4, max_tokens=6, temperature=0.9)},
    {"data_seed": 1},
]


def test_what_no_longer_fits_is_sampled_again_with_a_warning(make_module: Make, tmp_path: Path) -> None:
    """Fewer rows, another temperature, other problems."""
    with pytest.raises(InterruptedError):
        start(make_module, tmp_path / "begun", CrashAt(1), trainer={})
    for number, change in enumerate(OTHER):
        kept, folder = Kept(), tmp_path / str(number)
        shutil.copytree(tmp_path / "begun", folder, symlinks=True)
        data = Programs(batch_size=3, seed=change.get("data_seed", 0))
        sampling = {name: value for name, value in change.items() if name == "sampling"}
        module = ahead(make_module, **({"optimizer": adam, "max_rollouts": 3} | sampling))
        with pytest.warns(UserWarning, match="sampled ahead for rollout 2 do not match .*; sampling them again"):
            run(module, Checkpointing(str(folder)), kept, data=data)
        assert [metrics["policy/updates_behind"] for _, _, metrics in kept.rollouts] == [0, 1]


@pytest.mark.parametrize(("before", "after"), itertools.permutations((0, 1)))
def test_staleness_may_change_between_two_starts(make_module: Make, tmp_path: Path, before: int, after: int) -> None:
    """From 0 the next rollout is sampled when it comes; to 0 what was sampled ahead is left alone."""
    with pytest.raises(InterruptedError):
        start(make_module, tmp_path, CrashAt(2), trainer={}, staleness=before)
    kept = Kept()
    start(make_module, tmp_path, kept, trainer={}, staleness=after, max_rollouts=4)
    behind = [metrics.get("policy/updates_behind", 0) for _, _, metrics in kept.rollouts]
    assert behind == ([0, 1] if after else [0, 0])
