"""A step with executed rewards beside its parts, on-policy and with the next rollout sampled ahead.

    python benchmarks/overlap.py --sleep 0.2 0.4 --busy 0.01 --rollouts 5    # under three minutes on two free cores

A random Qwen2 (hidden 128, 4 layers) samples 8 completions of each of 16 prompts of about 160 tokens; lengths are
geometric, 48 tokens in the mean and 128 at most. Each completion decides a program that sleeps, so that judging takes
time and no core, or computes. Wall seconds, since a wait costs no CPU time:

* sampling alone: the rows of a rollout, nothing executed;
* judging alone: the programs of a rollout, nothing sampled;
* update alone: what comes after the rewards in a step with ``staleness`` 0;
* the step with ``staleness`` 0 and 1, in runs that take turns. The first step of a run, which may sample twice, and the
  last, which samples nothing ahead, are left out.

The aim for a step is 1.15 x max(sampling, judging) + update. A second table divides the steps by what the trainer
did, as ``time/*`` logs it: judging is what is left to wait for once all rows are written. Prints medians and writes
JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from bare_trainer import bare_trainer
from engine import MAX_TOKENS, random_policy
from sleeping_programs import Sleeping, sleeping

from lit_rl import GRPO, Sampling, Sandbox, TestsReward
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.engines import InProcess
from lit_rl.execution import Check, TokenTarget
from lit_rl.losses import TruncatedWeights
from lit_rl.models.sampling import StreamKey
from lit_rl.modules import Collect, Objective, Update
from lit_rl.rollout import write_rows
from lit_rl.training.threads import threads_of_run
from lit_rl.types import Problem

SAMPLING = Sampling(num_samples=8, max_tokens=MAX_TOKENS)
AIM = 1.15
PHASES = ("sampling", "judging", "rewarding", "preparing", "updating")


class Questions(TaskDataModule):
    """Prompts of about 160 tokens, as many as a run needs.

    Args:
        check: of every problem.
        batch_size: problems of a rollout.
        rollouts: of the run.
    """

    name = "questions"

    def __init__(self, check: Check, batch_size: int, rollouts: int = 1) -> None:
        super().__init__(batch_size=batch_size)
        self.check, self.number = check, batch_size * rollouts

    def load_problems(self, split: Split) -> list[Problem]:
        """The same for every split."""
        return [Problem(f"{i}", f"def f{i}(a, b):\n" + "    a = a + b\n" * 22, self.check) for i in range(self.number)]


class Steps(pl.Callback):
    """Seconds of each step, and of its phases."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.phases: list[dict[str, float]] = []

    def on_train_batch_start(self, *_: Any) -> None:
        """A step begins."""
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """A step ended."""
        self.steps.append(time.perf_counter() - self.began)
        metrics = trainer.callback_metrics
        self.phases.append({name: float(metrics.get(f"time/{name}_seconds", 0.0)) for name in ("update", *PHASES)})


def run(staleness: int, check: Check, given: argparse.Namespace) -> Steps:
    """Train; the first and the last step are left out."""
    steps = Steps()
    module = GRPO(
        random_policy(),
        sampling=SAMPLING,
        objective=Objective(correction=TruncatedWeights()),
        rewards=[TestsReward()],
        sandbox=lambda: Sandbox(num_workers=given.workers),
        max_rollouts=given.rollouts,
        # So small that lengths stay as they are.
        update=Update(optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-6)),
        collect=Collect(staleness=staleness),
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = bare_trainer(steps, default_root_dir=folder)
        trainer.fit(module, Questions(check, given.prompts, given.rollouts))
    steps.steps, steps.phases = steps.steps[1:-1], steps.phases[1:-1]
    return steps


def median_of(times: int, call: Callable[[int], Any]) -> float:
    """Wall seconds of a call, the median of several after one that warms up."""
    taken = []
    for turn in range(times + 1):
        began = time.perf_counter()
        call(turn)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def sampling_alone(prompts: int) -> float:
    """A rollout without programs."""
    policy, problems = random_policy(), Questions(TokenTarget(), prompts).problems("train")

    def rollout(turn: int) -> None:
        write_rows(policy, InProcess(), None, problems, SAMPLING, StreamKey(0, "train", turn)).finish()

    with threads_of_run(policy, policy.device):
        return median_of(3, rollout)


def judging_alone(check: Sleeping, rows: int, workers: int) -> float:
    """The programs of a rollout."""
    with Sandbox(num_workers=workers) as sandbox:
        return median_of(
            2, lambda turn: sandbox.judge_many([(check.source(f"{turn} {row}"), check) for row in range(rows)])
        )


def measure(check: Sleeping, sampling: float, given: argparse.Namespace) -> dict[str, Any]:
    """A line of the tables: the parts, and the steps with their phases."""
    judging = judging_alone(check, given.prompts * SAMPLING.num_samples, given.workers)
    runs: dict[int, list[Steps]] = {0: [], 1: []}
    for _ in range(given.rounds):
        for staleness in runs:
            runs[staleness].append(run(staleness, check, given))
    update = statistics.median(phases["update"] for one in runs[0] for phases in one.phases)
    line: dict[str, Any] = {"programs": f"{'busy' if check.at_work else 'sleep'} {check.seconds:g}"}
    line |= {"sampling": sampling, "judging": judging, "update": update}
    line["aim"] = AIM * max(sampling, judging) + update
    for staleness, several in runs.items():
        line[f"step_{staleness}"] = statistics.median(second for one in several for second in one.steps)
        line[f"phases_{staleness}"] = {
            name: statistics.median(phases[name] for one in several for phases in one.phases) for name in PHASES
        }
    return line


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sleep", type=float, nargs="+", default=[0.0, 0.2, 0.4], help="seconds that programs sleep")
    parser.add_argument("--busy", type=float, nargs="+", default=[], help="seconds that programs compute")
    parser.add_argument("--prompts", type=int, default=16, help="of a rollout, each with eight completions")
    parser.add_argument("--workers", type=int, default=8, help="of the sandbox")
    parser.add_argument("--rollouts", type=int, default=8, help="of each run")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each kind")
    parser.add_argument("--output", type=Path, help="where to write the figures as JSON")
    given = parser.parse_args()
    sampling = sampling_alone(given.prompts)
    checks = [sleeping(seconds) for seconds in given.sleep] + [
        sleeping(seconds, at_work=True) for seconds in given.busy
    ]
    table = [measure(check, sampling, given) for check in checks]
    print(f"load {os.getloadavg()[0]:.1f}, torch {torch.__version__}, {given.workers} workers, wall seconds")
    names = ("sampling", "judging", "update", "aim", "step_0", "step_1")
    print(f"{'programs':<12}" + "".join(f"{name:>10}" for name in (*names, "0 / 1")))
    for line in table:
        cells = [line[name] for name in names] + [line["step_0"] / line["step_1"]]
        print(f"{line['programs']:<12}" + "".join(f"{cell:>10.2f}" for cell in cells))
    print(f"{'step':<24}" + "".join(f"{name:>11}" for name in (*PHASES, "the rest")))
    for line in table:
        for staleness in (0, 1):
            phases = line[f"phases_{staleness}"]
            cells = [*phases.values(), line[f"step_{staleness}"] - sum(phases.values())]
            name = f"{line['programs']}, staleness {staleness}"
            print(f"{name:<24}" + "".join(f"{cell:>11.3f}" for cell in cells))
    if given.output:
        given.output.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
