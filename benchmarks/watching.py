"""What it costs to watch a run: the share of a GRPO rollout's CPU time that goes into watching it.

    python benchmarks/watching.py [--model runs/basics/sft/model] [--rollouts 22]

Watching is all that the shipped configurations have on: the numbers of docs/metrics.md, the plain lines of the screen,
plain files (RunRecord), TensorBoard's curves, every tenth rollout distributions (Board) and a group of training
(CompletionLog), and the rules of Diagnostics, asked after each rollout. The CPU seconds inside of these are summed up
and divided by those of the process and its children over the same rollouts: both are taken of the same run, so other
work on the machine matters little. The first rollouts, in which buffers are made, are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import lightning.pytorch as pl
import torch
from lightning.pytorch.loggers import TensorBoardLogger

from lit_rl import GRPO, Basics, CausalLM, Sampling, Sandbox, TestsReward, Trainer
from lit_rl.callbacks import Board, CompletionLog, Diagnostics, RunRecord, Screen
from lit_rl.modules import rollout_module
from lit_rl.modules.logprobs_module import LogprobsModule

WARM_UP = 2
HOOKS = ("on_rollout_end", "on_train_batch_start", "on_train_batch_end")
SPENT: dict[str, float] = defaultdict(float)
"""CPU seconds by what spent them."""


def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose CPU time is summed up."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        started = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            SPENT[name] += time.thread_time() - started

    return call


def watch_the_watchers() -> None:
    """Sum up the CPU time of everything that watches."""
    for name in ("measure", "time_split"):
        setattr(rollout_module, name, timed("numbers", getattr(rollout_module, name)))
    LogprobsModule.entropy_of_some = timed("entropy", LogprobsModule.entropy_of_some)  # type: ignore[method-assign]
    TensorBoardLogger.log_metrics = timed("curves", TensorBoardLogger.log_metrics)  # type: ignore[method-assign]
    TensorBoardLogger.save = timed("curves", TensorBoardLogger.save)  # type: ignore[method-assign]
    for callback in (Board, CompletionLog, Diagnostics, RunRecord, Screen):
        for hook in HOOKS:
            if hook in vars(callback):
                setattr(callback, hook, timed(callback.__name__, getattr(callback, hook)))


def cpu_seconds() -> float:
    """Of this process and its children that have ended."""
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


class Clock(pl.Callback):
    """Starts counting after the first rollouts, and stops after the last."""

    started = ended = 0.0

    def on_train_batch_start(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        self.ended = cpu_seconds()
        if pl_module.rollout_step == WARM_UP:
            SPENT.clear()
            self.started = self.ended

    def on_train_end(self, *_: Any) -> None:
        self.ended = cpu_seconds()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="runs/basics/sft/model")
    parser.add_argument("--rollouts", type=int, default=22)
    given = parser.parse_args()
    watch_the_watchers()
    clock = Clock()
    module = GRPO(
        CausalLM(given.model),
        sampling=Sampling(num_samples=8, max_tokens=40),
        rewards=[TestsReward()],
        sandbox=Sandbox,
        optimizer=partial(torch.optim.AdamW, lr=4e-4),
        max_rollouts=given.rollouts,
    )
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as out, contextlib.redirect_stdout(out):
        Trainer(
            accelerator="cpu",
            devices=1,
            logger=TensorBoardLogger(folder, name="run"),
            callbacks=[clock, RunRecord(), Board(), CompletionLog(), Diagnostics(WARM_UP), Screen(live=False)],
            limit_val_batches=0,
            enable_checkpointing=False,
        ).fit(module, Basics(batch_size=16, num_train_problems=256))
    rollouts, whole = given.rollouts - WARM_UP, clock.ended - clock.started
    for name, seconds in sorted(SPENT.items(), key=lambda item: -item[1]):
        print(f"{name:<14} {1000 * seconds / rollouts:7.2f} ms a rollout   {seconds / whole:.2%}")
    print(f"watching costs {sum(SPENT.values()) / whole:.2%} of {whole / rollouts:.3f} CPU seconds a rollout")


if __name__ == "__main__":
    main()
