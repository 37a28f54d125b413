"""Signals are given back: after a run, also one that ended by an exception, Ctrl-C interrupts at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.slow_cases import slow_but

from lit_rl import Checkpointing, Trainer
from lit_rl.callbacks import ExecutionEvaluation
from lit_rl.data import Sorting, SortingPolicy, SortingReward
from lit_rl.modules import REINFORCE, EvaluationConfig, UpdateConfig
from lit_rl.training.preemption import PreemptionFlag
from lit_rl.types import Sampling

QUIET: dict[str, Any] = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Remove what a test leaves behind."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_interrupt_is_remembered_and_the_second_one_interrupts() -> None:
    flag = PreemptionFlag()
    flag.install()
    interrupt()
    assert flag.is_set and flag.interrupted
    with pytest.raises(KeyboardInterrupt):
        interrupt()


class Fails(pl.Callback):
    """A run that ends by an exception."""

    def on_train_batch_end(self, *arguments: Any) -> None:
        raise RuntimeError("as it happens")


@pytest.mark.parametrize("callbacks", [[], [Fails()]], ids=["whole", "failed"])
def test_after_a_run_an_interrupt_interrupts(tmp_path: Path, callbacks: list[pl.Callback]) -> None:
    module = REINFORCE(SortingPolicy(), rewards=[SortingReward()], max_rollouts=2)
    trainer = Trainer(**QUIET, callbacks=[Checkpointing(str(tmp_path / "run")), *callbacks], limit_val_batches=0)
    with pytest.raises(RuntimeError, match="as it happens") if callbacks else nullcontext():
        trainer.fit(module, Sorting())
    with pytest.raises(KeyboardInterrupt):
        interrupt()


class Curve(pl.Callback):
    """Keeps what validation measures, and asks the run to stop after one of its rollouts."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.points: list[tuple[int, float]] = []
        self.stop_at = stop_at

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *arguments: Any) -> None:
        if pl_module.clock.count == self.stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self.points.append((pl_module.clock.count, float(trainer.callback_metrics["val/sampled/reward/mean"])))


def run_with_curve(folder: Path, curve: Curve) -> tuple[list[tuple[int, float]], dict[str, Any]]:
    """Four rollouts, validated after the second and the fourth."""
    module = REINFORCE(
        SortingPolicy(),
        rewards=[SortingReward()],
        max_rollouts=4,
        evaluate=EvaluationConfig(sampling={"sampled": Sampling(num_samples=4)}),
        update=UpdateConfig(optimizer=lambda params: torch.optim.SGD(params, lr=1.0)),
    )
    trainer = Trainer(
        **QUIET,
        # The curve comes first: its signal is there when the checkpoints look for one.
        callbacks=[curve, ExecutionEvaluation(), Checkpointing(str(folder), monitor="val/sampled/reward/mean")],
        val_check_interval=2,
        check_val_every_n_epoch=None,
    )
    with pytest.raises(SystemExit) if curve.stop_at else nullcontext():
        trainer.fit(module, Sorting())
    return curve.points, module.state_dict()


@pytest.mark.parametrize("stop_at", slow_but([2], [2, 4]))
def test_a_validation_that_a_signal_left_out_is_made_up_for(tmp_path: Path, stop_at: int) -> None:
    """The curves of a run that was stopped and went on have the points of an undisturbed one, and so do its weights."""
    whole, weights = run_with_curve(tmp_path / "whole", Curve())
    assert [rollout for rollout, _ in whole] == [2, 4]
    first, _ = run_with_curve(tmp_path / "halves", Curve(stop_at))
    second, again = run_with_curve(tmp_path / "halves", Curve())
    assert first + second == whole, (first, second)
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert (tmp_path / "halves" / "best.ckpt").resolve().name == (tmp_path / "whole" / "best.ckpt").resolve().name
