"""Cost of watching a run: the share of a GRPO rollout's CPU time that goes into watching it.

    python benchmarks/watching.py [--model runs/basics/sft/model] [--rollouts 22]

Watching is all that the shipped configurations have on: the numbers of docs/metrics.md, the plain lines of the screen,
plain files (RunRecord), TensorBoard's curves, each tenth rollout distributions (TensorBoardLayout), groups of training
(CompletionLog), and the rules of Diagnostics, asked after each rollout. The CPU seconds inside of these are summed up
and divided by those of the process and its children over the same rollouts: both are taken of the same run, so other
work on the machine matters little. The first rollouts, in which buffers are made, are left out.

Then it prints what plain files take: of a rollout of this run, and of one of 128 rows of 1,000 tokens that is made by
hand, texts from Python's own argparse and numbers drawn at random, which compress worst.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.loggers import TensorBoardLogger

from lit_rl import GRPO, Basics, CausalLM, Sampling, Sandbox, TestsReward, Trainer
from lit_rl.callbacks import CompletionLog, Diagnostics, ProgressScreen, RunRecord, TensorBoardLayout
from lit_rl.execution import AssertTests, Outcome, Verdict
from lit_rl.modules import Update, rollout_module
from lit_rl.reports.run_files import ROLLOUTS_FILE
from lit_rl.rewards import Composite
from lit_rl.rollout import FinishedRollout, Rollout
from lit_rl.training.progress import Clock as RunClock
from lit_rl.types import Completions, Experience, Judgement, Problem, Program, StopReason

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
    for name, part in (("measure", "numbers"), ("time_split", "numbers"), ("measure_entropy", "entropy")):
        setattr(rollout_module, name, timed(part, getattr(rollout_module, name)))
    TensorBoardLogger.log_metrics = timed("curves", TensorBoardLogger.log_metrics)  # type: ignore[method-assign]
    TensorBoardLogger.save = timed("curves", TensorBoardLogger.save)  # type: ignore[method-assign]
    for callback in (TensorBoardLayout, CompletionLog, Diagnostics, RunRecord, ProgressScreen):
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
        if pl_module.clock.count == WARM_UP:
            SPENT.clear()
            self.started = self.ended

    def on_train_end(self, *_: Any) -> None:
        self.ended = cpu_seconds()


def record_long_rows(num_rows: int = 128, num_tokens: int = 1000, group_size: int = 8) -> tuple[float, float]:
    """Kilobytes and CPU milliseconds that RunRecord takes for a rollout of such rows: the median of five."""
    torch.manual_seed(0)
    whole, width = inspect.getsource(argparse), 4 * num_tokens
    texts = [whole[start : start + width] for start in torch.randint(len(whole) - width, (num_rows,)).tolist()]
    problems = [Problem(f"p/{row // group_size}", "Write it.", AssertTests("assert True")) for row in range(num_rows)]
    ids, mask = torch.randint(50_000, (num_rows, num_tokens)), torch.ones(num_rows, num_tokens, dtype=torch.bool)
    completions = Completions.single_turn(
        problems=tuple(problems),
        prompt_ids=ids[:, :100],
        prompt_mask=mask[:, :100],
        completion_ids=ids,
        completion_mask=mask,
        sampler_logprobs=-torch.rand(ids.shape),
        stop_reasons=(StopReason.LENGTH,) * num_rows,
        texts=texts,
        token_bytes=(tuple((4 * i, 4 * i + 4) for i in range(num_tokens)),) * num_rows,
        group_size=group_size,
    )
    verdicts = [Verdict.PASSED if row % 3 else Verdict.WRONG_ANSWER for row in range(num_rows)]
    judgements = tuple(
        Judgement(problem, Program(text, 0, width), Outcome(verdict))
        for problem, text, verdict in zip(problems, texts, verdicts, strict=True)
    )
    rewards = Composite([TestsReward()])(completions, judgements)
    experience = Experience(completions, rewards.rewards, rewards.valid, torch.randn(ids.shape))
    found = {"logprobs": -torch.rand(ids.shape)}
    codec = SimpleNamespace(decode=lambda *_: ("", ()))
    clock, trace = RunClock("rollout"), SimpleNamespace(found=found)
    module: Any = SimpleNamespace(policy=SimpleNamespace(codec=codec), trace=trace, clock=clock)
    trainer: Any = SimpleNamespace(world_size=1, is_global_zero=True)
    milliseconds = []
    with tempfile.TemporaryDirectory() as folder:
        record = RunRecord()
        record.path = Path(folder)
        for clock.count in range(1, 6):
            started = time.thread_time()
            record.on_rollout_end(
                trainer, module, FinishedRollout(Rollout(completions, judgements), rewards, experience, {})
            )
            milliseconds.append(1000 * (time.thread_time() - started))
        return (Path(folder) / ROLLOUTS_FILE).stat().st_size / 5000, statistics.median(milliseconds)


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
        max_rollouts=given.rollouts,
        update=Update(optimizer=partial(torch.optim.AdamW, lr=4e-4)),
    )
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as out, contextlib.redirect_stdout(out):
        Trainer(
            accelerator="cpu",
            devices=1,
            logger=TensorBoardLogger(folder, name="run"),
            callbacks=[
                clock,
                RunRecord(),
                TensorBoardLayout(),
                CompletionLog(),
                Diagnostics(WARM_UP),
                ProgressScreen(live=False),
            ],
            limit_val_batches=0,
            enable_checkpointing=False,
        ).fit(module, Basics(batch_size=16, num_train_problems=256))
        recorded = next(Path(folder).rglob(ROLLOUTS_FILE)).stat().st_size / given.rollouts / 1000
    rollouts, whole = given.rollouts - WARM_UP, clock.ended - clock.started
    for name, seconds in sorted(SPENT.items(), key=lambda item: -item[1]):
        print(f"{name:<14} {1000 * seconds / rollouts:7.2f} ms a rollout   {seconds / whole:.2%}")
    print(f"watching costs {sum(SPENT.values()) / whole:.2%} of {whole / rollouts:.3f} CPU seconds a rollout")
    print(f"{ROLLOUTS_FILE}: {recorded:.1f} kB and {1000 * SPENT['RunRecord'] / rollouts:.1f} ms a rollout")
    print("one of 128 rows of 1,000 tokens: {:.0f} kB and {:.0f} ms".format(*record_long_rows()))


if __name__ == "__main__":
    main()
