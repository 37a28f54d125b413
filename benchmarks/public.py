"""MBPP's training problems to MBPP's test problems: the runs of benchmarks/public_plan.md, resumable at any time.

    python benchmarks/public.py --size half --model FILE_OR_FOLDER --arm base           # measure the model as it is
    python benchmarks/public.py --size half --model FILE_OR_FOLDER --arm grpo --seed 0
    python benchmarks/public.py --size half --model FILE_OR_FOLDER --arm rejection --seed 0   # after grpo: its tokens
    python benchmarks/public.py --table                                                 # the results so far

An arm trains with a checkpoint per rollout, then measures ``--rows`` completions at a time. The file of the arm,
``FOLDER/SIZE/ARM_SEED.json``, grows with each step; the same command goes on where it was. CPU seconds are those of
this process. On a GPU: ``--device cuda --rows 1024 --microbatch 16 --workers 8``.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import yaml
from bare_trainer import Given, bare_trainer
from on_gpu.measuring import as_markdown

from lit_rl import (
    GRPO,
    SFT,
    CausalLM,
    LoRA,
    Objective,
    Optimization,
    Sampling,
    Sandbox,
    TestsReward,
    UpdateConfig,
    evaluate,
)
from lit_rl.callbacks import Checkpointing
from lit_rl.data import MBPP, HumanEval, MBPPPlus
from lit_rl.data.task import TaskDataModule
from lit_rl.math.losses import Clipped
from lit_rl.models.loading.export import write_policy_folder
from lit_rl.rewards import LintReward

Cell = dict[str, Any]
ROLLOUTS, PROBLEMS, SAMPLES, MAX_TOKENS, RATE, KL, LINT = 24, 8, 8, 256, 3e-5, 0.01, 0.2
ARMS = ("base", "grpo", "no_lint", "rejection")
AS_EVALPLUS = Path(__file__).parents[1] / "configs" / "mbpp_plus_validate.yaml"
ASKED: Cell = yaml.safe_load(AS_EVALPLUS.read_text())["data"]["init_args"]
"""The chat of EvalPlus, with the answer begun."""
ASKED_BY_HUMANEVAL = {name: value for name, value in ASKED.items() if name != "form"}


class Spent(pl.Callback):
    """Counts rollouts, sampled tokens and CPU seconds over all starts, with ``samples`` completions per problem."""

    def __init__(self, samples: int = 1) -> None:
        self.samples = samples
        self.spent: Cell = {"rollouts": 0, "tokens": 0, "cpu_seconds": 0.0, "wall_seconds": 0.0, "pass_rates": []}
        self.since = (0.0, 0.0)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.since = (time.process_time(), time.perf_counter())

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        metrics, now = trainer.callback_metrics, (time.process_time(), time.perf_counter())
        self.spent["rollouts"] += 1
        for clock, before, after in zip(("cpu_seconds", "wall_seconds"), self.since, now, strict=True):
            self.spent[clock] += after - before
        self.since = now
        if "completion/length" in metrics:
            self.spent["tokens"] += round(float(metrics["completion/length"]) * len(batch) * self.samples)
            self.spent["pass_rates"].append(round(float(metrics["execution/pass_rate"]), 4))
            print({name: value for name, value in self.spent.items() if name != "pass_rates"}, flush=True)

    def state_dict(self) -> Cell:
        return self.spent

    def load_state_dict(self, state_dict: Cell) -> None:
        self.spent = dict(state_dict)


def fit(
    given: argparse.Namespace, module: Any, data: TaskDataModule, spent: Spent, folder: Path, every_minutes: float
) -> Cell:
    """Train from the last checkpoint, if there is one, and save its adapters."""
    saving = Checkpointing(str(folder / "run"), every_n_rollouts=None, every_minutes=every_minutes)
    trainer = bare_trainer(
        spent,
        saving,
        accelerator=given.device,
        enable_checkpointing=True,
        default_root_dir=folder,
        max_time={"seconds": given.seconds} if given.seconds else None,
    )
    trainer.fit(module, data, ckpt_path=saving.lock_and_resolve_checkpoint(trainer))
    if saving.exit_status:
        raise SystemExit(saving.resume_hint())
    write_policy_folder(module.policy, folder / "model", merge=False, overwrite=True)
    return spent.spent


def write(path: Path, cell: Cell) -> None:
    """Replace a file whole, so that a kill leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(cell, indent=1))
    part.replace(path)


def mbpp(given: argparse.Namespace, split: str, **options: Any) -> MBPP:
    """Return MBPP with its own splits and three tests shown."""
    path = str(given.data / "mbpp" / "mbpp.jsonl.gz")
    return MBPP(path, validation_split=split, batch_size=PROBLEMS, **ASKED, **options)


def policy_of(given: argparse.Namespace, model: str, *, trained: bool) -> CausalLM:
    """Return the base in ``--dtype``, with new adapters if it is trained."""
    return CausalLM(model, dtype=given.dtype, lora=LoRA(16, 32.0) if trained else None, init_seed=given.seed)


# -- learning ----------------------------------------------------------------------------------------------------------


def grpo(given: argparse.Namespace, folder: Path) -> Cell:
    """Train by GRPO on tests, with Ruff's findings as a second term."""
    with_lint = given.arm == "grpo"
    module = GRPO(
        policy_of(given, given.model, trained=True),
        [TestsReward(), *([LintReward(LINT)] if with_lint else [])],
        sandbox=partial(Sandbox, given.workers),
        sampling=Sampling(num_samples=SAMPLES, max_tokens=MAX_TOKENS),
        decouple_terms=with_lint,
        objective=Objective(loss=Clipped(clip_high=0.28), kl_coef=KL),
        update=UpdateConfig(
            optimizer=partial(torch.optim.AdamW, lr=RATE, betas=(0.9, 0.95), weight_decay=0.0),
            minibatches=4,
            microbatch_size=given.microbatch,
        ),
        max_rollouts=given.rollouts,
        seed=given.seed,
    )
    return fit(given, module, mbpp(given, "validation", seed=given.seed), Spent(SAMPLES), folder, 0.01)


def rejection(given: argparse.Namespace, folder: Path) -> Cell:
    """Sample as many tokens from the base as GRPO's arm did, then imitate each program that passed, for two epochs."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = json.loads(path_of(given, "grpo").read_text())["training"]["tokens"]
    together = max(PROBLEMS, given.rows // SAMPLES)
    log = folder / "batches.jsonl"
    batches = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    problems = mbpp(given, "validation").problems("train")
    by_id = {problem.task_id: problem for problem in problems}
    order = [one for turn in range(9) for one in random.Random(f"{given.seed}/{turn}").sample(problems, len(problems))]
    policy = measured(given, given.model)
    with Sandbox(given.workers) as sandbox:
        while sum(one["tokens"] for one in batches) < tokens:
            started, first = time.process_time(), len(batches) * together
            found = evaluate(
                policy,
                order[first : first + together],
                sampling=Sampling(num_samples=SAMPLES, max_tokens=MAX_TOKENS),
                sandbox=sandbox,
                batch_size=together,
                seed=1000 * given.seed + len(batches),
            )
            rows = answers(found.rollouts)
            one = {
                "tokens": sum(row["tokens"] for row in rows),
                "kept": sorted({(row["task"], row["text"]) for row in rows if row["verdict"] == "passed"}),
                "cpu_seconds": time.process_time() - started,
            }
            batches.append(one)
            print("sampled", {name: value for name, value in one.items() if name != "kept"}, flush=True)
            with log.open("a") as file:
                file.write(json.dumps(one) + "\n")
    kept = sorted({(task, text) for one in batches for task, text in one["kept"]})
    shown = [
        replace(by_id[task], task_id=f"{task}/{at}", fields={**by_id[task].fields, "demonstration": text})
        for at, (task, text) in enumerate(kept)
    ]
    updates = 2 * max(1, len(shown) // 16)
    update = Optimization(
        optimizer=partial(torch.optim.AdamW, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.0), microbatch_size=16
    )
    module = SFT(policy_of(given, given.model, trained=True), max_updates=updates, seed=given.seed, update=update)
    spent = fit(given, module, Given(shown, batch_size=16, seed=given.seed), Spent(), folder, 1)
    sampled = {
        "tokens": sum(one["tokens"] for one in batches),
        "completions": len(batches) * together * SAMPLES,
        "kept": len(shown),
    }
    cpu = spent["cpu_seconds"] + sum(one["cpu_seconds"] for one in batches)
    return sampled | {"optimizer_steps": updates, "cpu_seconds": cpu}


# -- measuring ---------------------------------------------------------------------------------------------------------


def measured(given: argparse.Namespace, model: str) -> CausalLM:
    """Return a policy on its device that is only sampled from."""
    policy = policy_of(given, model, trained=False)
    policy.load()
    return policy.to(given.device)


def answers(rollouts: Sequence[Any]) -> list[Cell]:
    """Return the task, verdict, tokens, text and program of each row."""
    return [
        {
            "task": one.problem.task_id,
            "verdict": one.outcome.verdict.value,
            "tokens": tokens,
            "text": text,
            "program": one.program.source if one.program else "",
        }
        for rollout in rollouts
        for one, tokens, text in zip(
            rollout.judgements,
            rollout.completions.on_host.token_counts.tolist(),
            rollout.completions.texts,
            strict=True,
        )
    ]


def measure(given: argparse.Namespace, cell: Cell, model: str, path: Path) -> None:
    """Measure sampled and greedy completions of MBPP's test problems, and greedy ones of HumanEval, by batches."""
    humaneval = HumanEval(str(given.data / "humaneval" / "HumanEval.jsonl.gz"), name="humaneval", **ASKED_BY_HUMANEVAL)
    test = mbpp(given, "test").problems("validation")
    jobs = {
        "greedy": (test, Sampling(temperature=0.0, max_tokens=MAX_TOKENS)),
        "humaneval": (humaneval.problems("validation"), Sampling(temperature=0.0, max_tokens=2 * MAX_TOKENS)),
        "sampled": (test, Sampling(num_samples=SAMPLES, max_tokens=MAX_TOKENS)),
    }
    policy = measured(given, model)
    with Sandbox(given.workers) as sandbox:
        for name, (problems, sampling) in jobs.items():
            rows = cell.setdefault(name, [])
            while len(rows) < len(problems) * sampling.num_samples:
                started, first = time.process_time(), len(rows) // sampling.num_samples
                batch = problems[first : first + max(1, given.rows // sampling.num_samples)]
                found = evaluate(policy, batch, sampling=sampling, sandbox=sandbox, batch_size=len(batch), seed=first)
                rows += answers(found.rollouts)
                seconds = time.process_time() - started
                cell["measuring_cpu_seconds"] = cell.get("measuring_cpu_seconds", 0.0) + seconds
                write(path, cell)
                print(given.size, given.arm, given.seed, name, first + len(batch), f"{seconds:.0f} CPU s", flush=True)
        if "plus" not in cell and not given.without_plus:
            cell["plus"] = judged_by_plus(given, cell["sampled"], sandbox)
            write(path, cell)


def judged_by_plus(given: argparse.Namespace, rows: Sequence[Cell], sandbox: Sandbox) -> list[Cell]:
    """Return the verdicts of the same programs under MBPP+'s tests, for the problems that have such tests."""
    plus = MBPPPlus(str(given.data / "evalplus" / "MbppPlus-OriginFmt.jsonl.gz"), validation_split="all")
    checks = {number_of(one.task_id): one.check for one in plus.problems("validation")}
    known = [row for row in rows if number_of(row["task"]) in checks]
    outcomes = sandbox.judge_many([(row["program"], checks[number_of(row["task"])]) for row in known])
    return [{"task": row["task"], "verdict": one.verdict.value} for row, one in zip(known, outcomes, strict=True)]


def number_of(task_id: str) -> str:
    return task_id.rpartition("/")[2]


# -- tables ------------------------------------------------------------------------------------------------------------


def shares(rows: Sequence[Cell], among: frozenset[str] | None = None) -> dict[str, float]:
    """Return the share of passed rows by problem; rows with an infrastructure failure are left out."""
    by_task: dict[str, list[bool]] = {}
    for row in rows:
        if row["verdict"] != "infrastructure_failure" and (among is None or number_of(row["task"]) in among):
            by_task.setdefault(row["task"], []).append(row["verdict"] == "passed")
    return {task: statistics.fmean(passed) for task, passed in by_task.items()}


def difference(after: dict[str, float], before: dict[str, float]) -> str:
    """Return the mean difference over the problems of both, with a 95% interval from the paired differences."""
    pairs = [after[task] - before[task] for task in after.keys() & before.keys()]
    mean, half = statistics.fmean(pairs), 1.96 * statistics.stdev(pairs) / len(pairs) ** 0.5
    return f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]"


def table(given: argparse.Namespace) -> str:
    """Return a table of all cells that are measured, beside the base."""
    rows: list[Cell] = []
    sanitized = MBPP(str(given.data / "mbpp" / "sanitized-mbpp.json.gz"), validation_split="all")
    few = frozenset(number_of(one.task_id) for one in sanitized.problems("validation"))
    for path in sorted(given.folder.glob("*/*.json")):
        base, cell = path.with_name("base_0.json"), json.loads(path.read_text())
        if "sampled" not in cell or not base.exists():
            continue
        before, training = json.loads(base.read_text()), cell.get("training", {})
        row: Cell = {"size": path.parent.name, "arm": path.stem, "tokens": training.get("tokens", 0)}
        row["steps"] = training.get("optimizer_steps", 0)
        for name, key, among in (
            ("sampled pass@1, 500", "sampled", None),
            ("greedy, 500", "greedy", None),
            ("sampled, sanitized", "sampled", few),
            ("sampled, MBPP+", "plus", None),
            ("HumanEval, greedy", "humaneval", None),
        ):
            if key in cell and key in before:
                of_now, of_then = shares(cell[key], among), shares(before[key], among)
                row[name] = f"{statistics.fmean(of_now.values()):.3f}"
                row[name] += "" if path == base else f", {difference(of_now, of_then)}"
        rows.append(row)
    return as_markdown(rows)


# -- command -----------------------------------------------------------------------------------------------------------


def path_of(given: argparse.Namespace, arm: str) -> Path:
    """Return the file of an arm with this seed."""
    return given.folder / given.size / f"{arm}_{given.seed}.json"


def main() -> None:
    """Train and measure whatever is not trained or measured yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=["half", "small"], default="small", help="0.5B or 135M, for the file's name")
    parser.add_argument("--model", help="hub id or folder")
    parser.add_argument("--arm", choices=ARMS, default="base")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--rows", type=int, default=80, help="completions that are sampled together when measuring")
    parser.add_argument("--microbatch", type=int, default=4, help="rows of a micro-batch")
    parser.add_argument("--workers", type=int, default=2, help="programs that run at the same time")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--seconds", type=float, help="most seconds of training")
    parser.add_argument("--without-plus", action="store_true", help="leave MBPP+'s tests to a later start")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the data sets")
    parser.add_argument("--folder", type=Path, default=Path("runs/public"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--train-only", action="store_true")
    parser.add_argument("--table", action="store_true", help="print what is there")
    given = parser.parse_args()
    if given.table:
        print(table(given))
        return
    torch.set_num_threads(given.threads)
    path = path_of(given, given.arm)
    cell: Cell = json.loads(path.read_text()) if path.exists() else {}
    model = given.model
    if given.arm != "base":
        folder = path.with_suffix("")
        if "training" not in cell:
            cell["training"] = (rejection if given.arm == "rejection" else grpo)(given, folder)
            cell["training"].setdefault("optimizer_steps", 4 * cell["training"]["rollouts"])
            write(path, cell)
        model = str(folder / "model")
    if not given.train_only:
        measure(given, cell, model, path)


if __name__ == "__main__":
    main()
