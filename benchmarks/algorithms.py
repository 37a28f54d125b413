"""All algorithms on the embedded task, from the same warm start: one table.

    python benchmarks/algorithms.py --seeds 0 1 2

For each seed a tiny policy first imitates demonstrations of which 60% carry a bug (SFT, 500 updates); each algorithm
goes on from there. Every rollout is 16 problems x 8 completions. Measured on 260 held-out problems: pass@1 of greedy
and of sampled completions (temperature 1, two each), mean length of the greedy ones in tokens, and when pass@1 first
reached 0.9 greedily, looked at every 20 rollouts: rollouts, and seconds of training alone. CPU seconds are those of
the training process, without the programs that it has run: the clock to look at on a machine that others use too.

PPO comes with its reward on the last token, and with what has a place on it and the rest spread evenly (tokens).

DPO learns from 512 x 8 completions of the warm start, made once (32 rollouts' worth), and 150 updates of 32 pairs.

Each finished (algorithm, seed) is a line of ``results.jsonl``; a run with the same settings goes on after the last one.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from bare_trainer import bare_trainer

from lit_rl.advantages import BatchMean
from lit_rl.callbacks import ExecutionEvaluation, PreferenceWriter
from lit_rl.data import Basics, PreferencePairs
from lit_rl.data.task import TaskDataModule
from lit_rl.execution import Sandbox
from lit_rl.losses import Clipped
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.modules import (
    DPO,
    GRPO,
    PPO,
    REINFORCE,
    SFT,
    CriticUpdate,
    Evaluate,
    Objective,
    Optimization,
    PolicyModule,
    Update,
)
from lit_rl.rewards import TestsReward
from lit_rl.rewards.places import Credit
from lit_rl.types import Sampling

TOKENIZER = "package:lit_rl.data/basics/tokenizer"
MODEL = {
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
    "initializer_range": 0.04,
}
PPO_CREDIT: dict[str, Credit] = {"PPO": "spans", "PPO tokens": "tokens"}
ALGORITHMS = ("SFT", "REINFORCE", *PPO_CREDIT, "GRPO", "DPO")
MAX_TOKENS = 40
WANTED = 0.9
SAMPLED = {
    "greedy": Sampling(temperature=0.0, max_tokens=MAX_TOKENS),
    "sampled": Sampling(num_samples=2, max_tokens=MAX_TOKENS),
}


@dataclass
class Result:
    """One algorithm's result with one seed."""

    algorithm: str
    seed: int
    greedy: float
    sampled: float
    mean_length: float
    rollouts_to_wanted: int | None
    seconds_to_wanted: float | None
    seconds: float
    cpu_seconds: float


@dataclass
class Spent:
    """Time that something took: wall clock and this process's CPU."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.seconds + other.seconds, self.cpu_seconds + other.cpu_seconds)

    @classmethod
    def since(cls, started: Spent) -> Spent:
        """Time from a moment to now."""
        now = cls.now()
        return cls(now.seconds - started.seconds, now.cpu_seconds - started.cpu_seconds)

    @classmethod
    def now(cls) -> Spent:
        """A moment, to measure from."""
        return cls(time.perf_counter(), time.process_time())


class Clock(pl.Callback):
    """Seconds of training without evaluation, and when greedy pass@1 first reached the target."""

    def __init__(self) -> None:
        self.spent = Spent()
        self.started = Spent()
        self.rollouts = 0
        self.reached: tuple[int, float] | None = None

    def on_train_batch_start(self, *args: Any) -> None:
        self.started = Spent.now()

    def on_train_batch_end(self, *args: Any) -> None:
        self.spent += Spent.since(self.started)
        self.rollouts += 1

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        greedy = float(trainer.callback_metrics.get("val/greedy/pass@1", 0.0))
        print(f"    {self.rollouts:4d} steps {self.spent.seconds:6.1f} s  greedy {greedy:.3f}", flush=True)
        if greedy >= WANTED - 1e-6 and self.reached is None:
            self.reached = self.rollouts, self.spent.seconds


def adamw(lr: float, weight_decay: float = 0.0) -> Callable[[Any], torch.optim.Optimizer]:
    return partial(torch.optim.AdamW, lr=lr, betas=(0.9, 0.95), weight_decay=weight_decay)


def falling(updates: int) -> Callable[[torch.optim.Optimizer], Any]:
    return partial(torch.optim.lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.1, total_iters=updates)


def one_cycle(max_lr: float, updates: int, rise: float) -> Callable[[torch.optim.Optimizer], Any]:
    """A rate that rises during a share of the updates, then falls; it counts the rate of the beginning too."""
    return partial(
        torch.optim.lr_scheduler.OneCycleLR,
        max_lr=max_lr,
        total_steps=updates + 1,
        pct_start=rise,
        cycle_momentum=False,
    )


def task(seed: int, batch_size: int = 16) -> Basics:
    return Basics(
        batch_size=batch_size, validation_batch_size=130, num_validation_problems=260, seed=seed, draw_seed=seed
    )


def trainer(
    folder: Path, callbacks: list[pl.Callback], every: int | None = None, precision: str = "32-true"
) -> pl.Trainer:
    validation = {} if every is None else {"limit_val_batches": None, "val_check_interval": every}
    settings = {"default_root_dir": folder, "inference_mode": False, "check_val_every_n_epoch": None}
    return bare_trainer(*callbacks, precision=precision, **settings | validation)


def imitation(seed: int, updates: int, dtype: str = "float32") -> SFT:
    """SFT from random weights."""
    rate = one_cycle(5e-3, updates, rise=0.04)
    return SFT(
        CausalLM(config=MODEL, tokenizer=TOKENIZER, init_seed=seed, dtype=dtype),
        max_updates=updates,
        seed=seed,
        update=Optimization(optimizer=adamw(5e-3, weight_decay=0.01), lr_scheduler=rate),
    )


def warm_start(seed: int, folder: Path, updates: int) -> tuple[str, Spent]:
    """Imitate, unless an earlier run has. Returns the policy's folder and the time it took."""
    start, noted = folder / f"sft_{updates}", folder / f"sft_{updates}.json"
    if noted.exists():
        return str(start), Spent(**json.loads(noted.read_text()))
    clock, module = Clock(), imitation(seed, updates)
    trainer(folder, [clock]).fit(module, task(seed, batch_size=64))
    policy: Any = module.policy
    policy.save_pretrained(start)
    noted.write_text(json.dumps(asdict(clock.spent)))
    return str(start), clock.spent


def rollout_module(
    name: str, start: str, seed: int, rollouts: int, dtype: str = "float32", **update: Any
) -> PolicyModule:
    """One of the sampling algorithms, with the settings that they all share; ``update`` changes those of its steps."""
    shared: dict[str, Any] = {
        "sampling": Sampling(num_samples=8, max_tokens=MAX_TOKENS),
        "rewards": [TestsReward()],
        "update": Update(optimizer=adamw(4e-4), lr_scheduler=falling(rollouts), **update),
        "max_rollouts": rollouts,
        "sandbox": Sandbox,
        "seed": seed,
    }
    policy = CausalLM(start, dtype=dtype)
    if name == "GRPO":
        return GRPO(policy, **shared)
    if name == "GSPO":
        shared["update"] = replace(shared["update"], aggregate="sequence_mean")
        clip = Clipped(clip_low=3e-4, clip_high=4e-4)
        return GRPO(policy, objective=Objective(loss=clip, ratio_level="sequence"), **shared)
    if name == "REINFORCE":
        return REINFORCE(policy, baseline=BatchMean(normalize="none"), **shared)
    return PPO(
        policy,
        critic=SeparateCritic(),
        credit=PPO_CREDIT[name],
        critic_update=CriticUpdate(learning_rate=1e-3, warmup_rollouts=5),
        **shared,
    )


def make_pairs(start: str, seed: int, folder: Path, problems: int) -> tuple[Path, Spent]:
    """Write pairs from completions of the warm start. Returns their file and the time it took."""
    path = folder / "pairs.jsonl"
    module = DPO(
        CausalLM(start),
        rewards=[TestsReward()],
        sandbox=Sandbox,
        seed=seed,
        evaluate=Evaluate(predict=Sampling(num_samples=8, max_tokens=MAX_TOKENS)),
    )
    data = task(seed)
    data.max_train_problems = problems
    started = Spent.now()
    writer = PreferenceWriter(str(path), margin=0.5, max_pairs=4)
    trainer(folder, [writer]).predict(module, data, return_predictions=False)
    return path, Spent.since(started)


def measure(module: PolicyModule, seed: int, folder: Path) -> dict[str, float]:
    """Validation metrics of a policy that was trained."""
    policy: Any = module.policy
    folder = folder / "done"
    policy.save_pretrained(folder)
    fresh = SFT(CausalLM(str(folder)), sandbox=Sandbox, seed=seed, evaluate=Evaluate(sampling=SAMPLED))
    metrics = trainer(folder, [ExecutionEvaluation()], every=1).validate(fresh, task(seed), verbose=False)
    return {name: float(value) for name, value in metrics[0].items()}


def run(name: str, seed: int, folder: Path, options: argparse.Namespace) -> Result:
    """Train one algorithm from the warm start and measure it."""
    start, of_start = warm_start(seed, folder, options.sft_updates)
    clock, callbacks = Clock(), [ExecutionEvaluation()]
    before = Spent()
    if name == "SFT":
        module: PolicyModule = SFT(CausalLM(start), max_updates=0)
        module.policy.load()
        clock.spent = of_start
    elif name == "DPO":
        pairs, before = make_pairs(start, seed, folder, options.pair_problems)
        module = DPO(
            CausalLM(start),
            beta=options.dpo_beta,
            max_updates=options.dpo_updates,
            sandbox=Sandbox,
            seed=seed,
            update=Optimization(optimizer=adamw(options.dpo_lr), lr_scheduler=falling(options.dpo_updates)),
            evaluate=Evaluate(sampling={"greedy": SAMPLED["greedy"]}),
        )
        data: TaskDataModule = PreferencePairs(str(pairs), batch_size=32, seed=seed, validation_tasks=[task(seed)])
        trainer(folder, [*callbacks, clock], every=50).fit(module, data)
    else:
        module = rollout_module(name, start, seed, options.rollouts)
        trainer(folder, [*callbacks, clock], every=20).fit(module, task(seed))
    metrics = measure(module, seed, folder)
    rollouts, seconds = clock.reached or (None, None)
    spent = clock.spent + before
    if name == "DPO" and rollouts is not None:
        rollouts = options.pair_problems * 8 // 128
    return Result(
        algorithm=name,
        seed=seed,
        greedy=metrics["val/greedy/pass@1"],
        sampled=metrics["val/sampled/pass@1"],
        mean_length=metrics["val/greedy/completion/length"],
        rollouts_to_wanted=rollouts,
        seconds_to_wanted=None if seconds is None else seconds + before.seconds,
        seconds=spent.seconds,
        cpu_seconds=spent.cpu_seconds,
    )


def shown(values: list[float | int | None], digits: int) -> str:
    """Mean and, for several seeds, standard deviation; a dash where it was never reached."""
    there = [value for value in values if value is not None]
    if not there:
        return "-"
    text = f"{statistics.mean(there):.{digits}f}"
    if len(there) > 1:
        text += f" ± {statistics.stdev(there):.{digits}f}"
    return text if len(there) == len(values) else f"{text} ({len(there)} of {len(values)})"


def table(results: list[Result]) -> str:
    """Markdown."""
    lines = [
        f"| algorithm | greedy | sampled | tokens | rollouts to {WANTED} | seconds to {WANTED} | seconds | CPU s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in (name for name in ALGORITHMS if any(result.algorithm == name for result in results)):
        rows = [result for result in results if result.algorithm == name]
        cells = [
            shown([row.greedy for row in rows], 3),
            shown([row.sampled for row in rows], 3),
            shown([row.mean_length for row in rows], 1),
            shown([row.rollouts_to_wanted for row in rows], 0),
            shown([row.seconds_to_wanted for row in rows], 0),
            shown([row.seconds for row in rows], 0),
            shown([row.cpu_seconds for row in rows], 0),
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def finished(path: Path, settings: dict[str, Any]) -> list[Result]:
    """Results of earlier runs with these settings."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [Result(**line["result"]) for line in lines if line["settings"] == settings]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS), choices=ALGORITHMS)
    parser.add_argument("--rollouts", type=int, default=180)
    parser.add_argument("--sft-updates", type=int, default=500)
    parser.add_argument("--pair-problems", type=int, default=512)
    parser.add_argument("--dpo-updates", type=int, default=150)
    parser.add_argument("--dpo-lr", type=float, default=1e-4)
    parser.add_argument("--dpo-beta", type=float, default=0.1)
    parser.add_argument("--folder", type=Path, default=Path("runs/algorithms"), help="warm starts, pairs, results")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    path = options.folder / "results.jsonl"
    settings = {key: value for key, value in vars(options).items() if key not in ("seeds", "algorithms", "folder")}
    results = finished(path, settings)
    for seed in options.seeds:
        folder = options.folder / str(seed)
        folder.mkdir(parents=True, exist_ok=True)
        done = {result.algorithm for result in results if result.seed == seed}
        for name in (name for name in options.algorithms if name not in done):
            print(f"{name}, seed {seed}", flush=True)
            result = run(name, seed, folder, options)
            print(result, flush=True)
            results.append(result)
            with path.open("a") as lines:
                lines.write(json.dumps({"settings": settings, "result": asdict(result)}) + "\n")
    print(table([r for r in results if r.seed in options.seeds and r.algorithm in options.algorithms]))


if __name__ == "__main__":
    main()
