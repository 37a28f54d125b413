"""Compare training with a second turn with training without one, at the same number of sampled tokens.

    python benchmarks/repair.py --seeds 0 1 2

The task is ``Basics(families="tellable", num_public_cases=1, untold_constants=True)``: the docstring has a question
mark for one constant, and only the public case tells it. A tiny policy first imitates demonstrations (SFT), 70% of
them second turns; of those 60% write the failed program again, feedback or not, and 60% of the others carry a bug.
GRPO goes on from there twice for each seed, with ``Repair`` (feedback on the public case, the hidden cases decide the
reward) and with one turn, until it has sampled the same number of tokens. A rollout is 8 problems x 8 rows.

Both are measured on the same held-out problems under the same two turns: the share solved after each, greedy and
sampled (temperature 1, two samples each); and, on half of the problems, greedy with feedback that names no case, to
see whether it is read. Sampled tokens are the policy's own, as ``completion/length`` logs them. Trainings run side by
side, each in a process of its own with one thread, so that a result depends on no other. CPU seconds are those of a
training's process, without the programs that it has run: the clock to look at on a machine that others use too.

Results and curves are written to ``results.json`` in the folder, each as soon as it is there.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import statistics
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from algorithms import MODEL as LARGER
from algorithms import TOKENIZER, adamw, one_cycle, trainer

from lit_rl.data import Basics
from lit_rl.data.basics.problems import REPAIR_TEMPLATE
from lit_rl.evaluation import evaluate
from lit_rl.execution import Sandbox
from lit_rl.execution.interface import ProgramRunner
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO, SFT, Collect, Optimization, Update
from lit_rl.rewards import TestsReward
from lit_rl.rollout import Repair
from lit_rl.types import Problem, Sampling

# Two layers learn to copy sooner than four, and each of their updates takes half as long.
MODEL = {**LARGER, "num_hidden_layers": 2, "intermediate_size": 512}
GROUP, MAX_TOKENS, NUM_EVALUATED, NUM_ALONG_THE_WAY = 8, 24, 200, 100
NUM_TRAINED = 1024
"""Problems to train on; a rollout takes eight, and all are read before the first."""
GREEDY = Sampling(temperature=0.0, max_tokens=MAX_TOKENS)
SAMPLED = Sampling(num_samples=2, max_tokens=MAX_TOKENS)
REPAIR = Repair(template=REPAIR_TEMPLATE)
NO_CASE = Repair(template="\n# wrong\n{program_prefix}")
KEY_POINTS = (0.25, 0.5, 0.75)
UNTOLD = True  # whether one constant stands in the public case alone

Shares = dict[str, float]


@dataclass
class Result:
    """The result of one kind of training with one seed.

    Args:
        turns: of training.
        tokens: that the policy sampled in training.
        shares: of problems solved, by ``<sampling>/turn_<n>``.
        curve: share of the training's tokens, and greedy shares then, of a training with two turns.
    """

    turns: int
    seed: int
    rollouts: int
    tokens: int
    shares: Shares
    curve: list[tuple[float, Shares]]
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Job:
    """One training.

    Args:
        turns: that the policy has.
        start: folder of the policy that it begins with.
        tokens: after which it ends.
    """

    turns: int
    seed: int
    start: str
    lr: float
    tokens: int
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.turns} turn{'s' * (self.turns - 1)}, seed {self.seed}"


@dataclass
class Budget(pl.Callback):
    """Counts sampled tokens, ends training when the budget is spent, and measures on problems along the way."""

    name: str
    problems: Sequence[Problem]
    tokens: int
    sampled: int = 0
    done: int = 0
    curve: list[tuple[float, Shares]] = field(default_factory=list)

    @property
    def spent(self) -> float:
        """Share of the budget."""
        return self.sampled / self.tokens

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.done += 1
        self.sampled += round(float(trainer.callback_metrics["completion/length"]) * len(batch) * GROUP)
        if self.problems and len(self.curve) < len(KEY_POINTS) and self.spent >= KEY_POINTS[len(self.curve)]:
            shares = measured(pl_module.policy, self.problems, GREEDY, pl_module.sampler.runner)
            self.curve.append((round(self.spent, 3), shares))
            print(f"{self.name}: {self.done:4d} rollouts {self.sampled:8d} tokens  {shown(shares)}", flush=True)
        if self.spent >= 1:
            trainer.should_stop = True


def quiet() -> None:
    """Silence libraries' warnings, at the start of every process."""
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def held_out() -> list[Problem]:
    return task(num_validation_problems=NUM_EVALUATED).problems("validation")


def task(seed: int = 0, **options: Any) -> Basics:
    return Basics(families="tellable", num_public_cases=1, untold_constants=UNTOLD, seed=seed, **options)


def warm_start(folder: Path, updates: int) -> str:
    """Imitate, unless an earlier run has; returns the policy's folder."""
    start = folder / f"sft_{updates}"
    if not start.exists():
        schedule = one_cycle(6e-3, updates, rise=0.15)
        policy = CausalLM(config=MODEL, tokenizer=TOKENIZER)
        module = SFT(
            policy,
            max_updates=updates,
            update=Optimization(optimizer=adamw(6e-3, weight_decay=0.01), lr_scheduler=schedule),
        )
        trainer(folder, []).fit(module, task(batch_size=32, second_turn_share=0.7))
        policy.save_pretrained(start)
    return str(start)


def train(job: Job, budget: Budget) -> CausalLM:
    """GRPO with one turn or two until the budget is spent."""

    def falling(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LambdaLR:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1 - 0.9 * min(1.0, budget.spent))

    policy = CausalLM(job.start)
    module = GRPO(
        policy,
        sampling=Sampling(num_samples=GROUP, max_tokens=MAX_TOKENS),
        rewards=[TestsReward()],
        sandbox=Sandbox,
        seed=job.seed,
        update=Update(optimizer=adamw(job.lr), lr_scheduler=falling),
        collect=Collect(environment=REPAIR if job.turns == 2 else None),
    )
    trainer(job.folder, [budget]).fit(module, task(job.seed, batch_size=8, num_train_problems=NUM_TRAINED))
    return policy


def measured(
    policy: CausalLM, problems: Sequence[Problem], sampling: Sampling, sandbox: ProgramRunner, repair: Repair = REPAIR
) -> Shares:
    """Share of problems solved after each turn."""
    evaluation = evaluate(
        policy, problems, sampling=sampling, sandbox=sandbox, environment=repair, batch_size=len(problems)
    )
    shares = {}
    for turn in (1, 2):
        last = [judgement for rollout in evaluation.rollouts for judgement in rollout.after_turn(turn)]
        shares[f"turn_{turn}"] = statistics.mean(judgement.outcome.passed for judgement in last)
    return shares


def measure(policy: CausalLM) -> Shares:
    """Everything that the table shows about a policy."""
    problems = held_out()
    shares: Shares = {}
    with Sandbox() as sandbox:
        for name, sampling, repair, number in (
            ("greedy", GREEDY, REPAIR, NUM_EVALUATED),
            ("sampled", SAMPLED, REPAIR, NUM_EVALUATED),
            ("no_case", GREEDY, NO_CASE, NUM_ALONG_THE_WAY),
        ):
            found = measured(policy, problems[:number], sampling, sandbox, repair)
            shares |= {f"{name}/{key}": value for key, value in found.items()}
    return shares


def shown(shares: Shares) -> str:
    return "  ".join(f"{name} {value:.3f}" for name, value in shares.items())


def measure_start(folder: str) -> Shares:
    return measure(CausalLM(folder))


def run(job: Job) -> Result:
    """Train and measure."""
    along_the_way = held_out()[:NUM_ALONG_THE_WAY] if job.turns > 1 else []
    budget = Budget(job.name, along_the_way, job.tokens)
    seconds, cpu_seconds = time.perf_counter(), time.process_time()
    policy = train(job, budget)
    seconds, cpu_seconds = time.perf_counter() - seconds, time.process_time() - cpu_seconds
    shares = measure(policy)
    return Result(job.turns, job.seed, budget.done, budget.sampled, shares, budget.curve, seconds, cpu_seconds)


def run_all(
    start: str, jobs: Sequence[Job], processes: int, minutes: float, folder: Path
) -> tuple[Shares, list[Result]]:
    """The start's shares and all results; the trainings run in parallel.

    Args:
        start: folder of the policy that they begin with.
        jobs: in the order in which they begin.
        processes: trainings at a time.
        minutes: after which none begins any more.
        folder: of the results.
    """
    ends = time.perf_counter() + 60 * minutes
    results: list[Result] = []
    # No fork: a copy of a process that has used torch's threads may hang.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=quiet) as pool:
        measuring = pool.submit(measure_start, start)
        running: dict[Future[Result], Job] = {pool.submit(run, job): job for job in jobs}
        before = measuring.result()
        print(f"start: {shown(before)}", flush=True)
        for future in as_completed(running):
            if future.cancelled():
                print(f"{minutes} minutes are over: {running[future].name} is left out")
                continue
            results.append(future.result())
            written = {"before": before, "results": [asdict(result) for result in results]}
            (folder / "results.json").write_text(json.dumps(written, indent=1))
            if time.perf_counter() > ends:
                for other in running:
                    other.cancel()
    return before, results


COLUMNS = (
    *("greedy/turn_1", "greedy/turn_2", "sampled/turn_1", "sampled/turn_2"),
    "no_case/turn_2",
)


def table(before: Shares, results: Sequence[Result]) -> str:
    """Markdown: the start, each run, and what the second turn gains."""
    lines = [
        "| training | seed | rollouts | tokens | " + " | ".join(COLUMNS) + " | CPU s |",
        "|---" * (len(COLUMNS) + 5) + "|",
        "| start | | | | " + " | ".join(f"{before[name]:.3f}" for name in COLUMNS) + " | |",
    ]
    for result in sorted(results, key=lambda result: (result.turns, result.seed)):
        cells = [f"{result.turns} turn{'s' * (result.turns - 1)}", result.seed, result.rollouts, result.tokens]
        cells += [f"{result.shares[name]:.3f}" for name in COLUMNS]
        lines.append("| " + " | ".join(map(str, cells)) + f" | {result.cpu_seconds:.0f} |")
    return "\n".join(lines)


def gains(results: Sequence[Result]) -> str:
    """Share that two-turn training solves within two turns beyond one-turn training, seed by seed."""
    lines = []
    for name in ("greedy", "sampled"):
        by_turns = {(result.turns, result.seed): result.shares[f"{name}/turn_2"] for result in results}
        seeds = sorted(seed for turns, seed in by_turns if turns == 2 and (1, seed) in by_turns)
        rises = [by_turns[2, seed] - by_turns[1, seed] for seed in seeds]
        lines.append(f"{name}: rise within two turns over one-turn training {', '.join(f'{r:+.3f}' for r in rises)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tokens", type=int, default=45_000, help="that each training samples")
    parser.add_argument("--sft-updates", type=int, default=800)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no further training after this long")
    parser.add_argument("--processes", type=int, default=2, help="trainings side by side, one thread each")
    parser.add_argument("--folder", type=Path, default=Path("runs/repair"), help="warm start and results")
    options = parser.parse_args()
    quiet()
    started = time.perf_counter()
    options.folder.mkdir(parents=True, exist_ok=True)
    start = warm_start(options.folder, options.sft_updates)
    print(f"warm start after {time.perf_counter() - started:.0f} s, {time.process_time():.0f} CPU s", flush=True)
    jobs = [
        Job(turns, seed, start, options.lr, options.tokens, options.folder)
        for seed in options.seeds
        for turns in (2, 1)
    ]
    before, results = run_all(start, jobs, options.processes, options.minutes, options.folder)
    print(f"\n{table(before, results)}\n\n{gains(results)}")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_seconds = sum(one.ru_utime + one.ru_stime for one in used)
    print(f"{time.perf_counter() - started:.0f} s, {cpu_seconds:.0f} CPU s with all programs, load {load}")


if __name__ == "__main__":
    main()
