r"""All algorithms on the embedded task, from the same warm start, in one precision or several: one table.

    python benchmarks/algorithms.py --seeds 0 1 2
    python benchmarks/algorithms.py --steps 8 --algorithms PPO GSPO GRPO --precisions float32 dtype:\ bfloat16

For each seed a tiny policy first imitates, in float32, demonstrations of which 60% carry a bug (SFT, 500 updates); each
algorithm goes on from there, SFT of another precision from random weights. Every rollout is 16 problems x 8
completions. Measured on 260 held-out problems, by float32 weights: pass@1 of greedy and of sampled completions
(temperature 1, two each), mean length of the greedy ones in tokens, and the rollouts until greedy pass@1 first reached
0.9, looked at every 20. The gap is the mean distance between the log-probabilities of sampler and trainer, nats per
token; the ratio is the one farthest from 1 between the weights that sampled and the same weights in training, a token,
over all rollouts. CPU seconds are those of the training process, without the programs that it has run.

PPO comes with its reward on the last token, and with what has a place on it and the rest spread evenly (tokens). DPO
learns from 512 x 8 completions of the warm start, made once (32 rollouts' worth), and 150 updates of 32 pairs.

Each finished run is a line of ``results.jsonl``; a call with the same settings goes on after the last one.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from bare_trainer import bare_trainer

from lit_rl.callbacks import ExecutionEvaluation, PreferenceWriter
from lit_rl.data import Basics, PreferencePairs
from lit_rl.data.task import TaskDataModule
from lit_rl.execution import Sandbox
from lit_rl.math.advantages import BatchMean
from lit_rl.math.losses import Clipped
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.modules import (
    DPO,
    GRPO,
    PPO,
    REINFORCE,
    SFT,
    CriticConfig,
    EvaluationConfig,
    Objective,
    Optimization,
    PolicyModule,
    UpdateConfig,
)
from lit_rl.rewards import RewardTerm, TestsReward
from lit_rl.rewards.token_credit import Credit
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
PRECISIONS = {
    "float32": ("float32", "32-true"),
    "dtype: bfloat16": ("bfloat16", "32-true"),
    "bf16-mixed": ("float32", "bf16-mixed"),
    "bf16-true": ("float32", "bf16-true"),
}
"""Dtype of the policy and precision of the trainer."""
ALGORITHMS = ("SFT", "REINFORCE", *PPO_CREDIT, "GRPO", "GSPO", "DPO")
MAX_TOKENS = 40
WANTED = 0.9
SAMPLED = {
    "greedy": Sampling(temperature=0.0, max_tokens=MAX_TOKENS),
    "sampled": Sampling(num_samples=2, max_tokens=MAX_TOKENS),
}
COLUMNS = {
    "greedy": ("greedy", 3),
    "sampled": ("sampled", 3),
    "length": ("tokens", 1),
    "rollouts": (f"rollouts to {WANTED}", 0),
    "gap": ("gap", 5),
    "farthest": ("ratio from 1", 3),
    "cpu_seconds": ("CPU s", 0),
}
"""Headings and digits."""
Numbers = dict[str, float | None]


class Watch(pl.Callback):
    """CPU seconds of training without evaluation, the sampler's distance, and when greedy pass@1 reached the target."""

    def __init__(self) -> None:
        self.cpu_seconds, self.started, self.farthest = 0.0, 0.0, 0.0
        self.rollouts = 0
        self.reached: float | None = None
        self.gaps: list[float] = []

    def on_train_batch_start(self, *args: Any) -> None:
        self.started = time.process_time()

    def on_train_batch_end(self, trainer: pl.Trainer, *args: Any) -> None:
        self.cpu_seconds += time.process_time() - self.started
        self.rollouts += 1
        logged = trainer.callback_metrics
        if "sampling/logprob_gap/mean" in logged:
            self.gaps.append(float(logged["sampling/logprob_gap/mean"]))
            ends = (float(logged[f"sampling/importance_ratio/{end}"]) for end in ("min", "max"))
            self.farthest = max(self.farthest, *(abs(end - 1) for end in ends))

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        greedy = float(trainer.callback_metrics.get("val/greedy/pass@1", 0.0))
        print(f"    {self.rollouts:4d} steps {self.cpu_seconds:6.1f} CPU s  greedy {greedy:.3f}", flush=True)
        if greedy >= WANTED - 1e-6 and self.reached is None:
            self.reached = self.rollouts


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


def imitate(seed: int, folder: Path, updates: int, precision: str = "float32") -> tuple[SFT, float]:
    """SFT from random weights; the module and its CPU seconds."""
    dtype, of_trainer = PRECISIONS[precision]
    module = SFT(
        CausalLM(config=MODEL, tokenizer=TOKENIZER, init_seed=seed, dtype=dtype),
        max_updates=updates,
        seed=seed,
        update=Optimization(optimizer=adamw(5e-3, weight_decay=0.01), lr_scheduler=one_cycle(5e-3, updates, rise=0.04)),
    )
    watch = Watch()
    trainer(folder, [watch], precision=of_trainer).fit(module, task(seed, batch_size=64))
    return module, watch.cpu_seconds


def warm_start(seed: int, folder: Path, updates: int) -> tuple[str, float]:
    """Imitate in float32, unless an earlier run has. Returns the policy's folder and the CPU seconds it took."""
    start, noted = folder / f"sft_{updates}", folder / f"sft_{updates}.json"
    if not noted.exists():
        module, seconds = imitate(seed, folder, updates)
        policy: Any = module.policy
        policy.save_pretrained(start)
        noted.write_text(json.dumps(seconds))
    return str(start), json.loads(noted.read_text())


def rollout_module(
    name: str, start: str, seed: int, rollouts: int, dtype: str = "float32", **update: Any
) -> PolicyModule:
    """One of the sampling algorithms, with the settings that they all share; ``update`` changes those of its steps."""
    shared: dict[str, Any] = {
        "sampling": Sampling(num_samples=8, max_tokens=MAX_TOKENS),
        "rewards": [TestsReward()],
        "update": UpdateConfig(optimizer=adamw(4e-4), lr_scheduler=falling(rollouts), **update),
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
        critic_update=CriticConfig(learning_rate=1e-3, warmup_rollouts=5),
        **shared,
    )


def make_pairs(path: Path, start: str, data: Basics, rewards: list[RewardTerm], problems: int, **options: Any) -> float:
    """Write pairs from eight completions of each problem; ``options`` are the writer's. Returns CPU seconds."""
    sampling = Sampling(num_samples=8, max_tokens=options.pop("max_tokens"))
    evaluation = EvaluationConfig(predict=sampling)
    module = DPO(CausalLM(start), rewards=rewards, sandbox=Sandbox, seed=data.seed, evaluate=evaluation)
    data.max_train_problems = problems
    started = time.process_time()
    trainer(path.parent, [PreferenceWriter(str(path), **options)]).predict(module, data, return_predictions=False)
    return time.process_time() - started


def measure(module: PolicyModule, seed: int, folder: Path) -> Numbers:
    """Validation metrics of a policy that was trained."""
    policy: Any = module.policy
    folder = folder / "done"
    policy.save_pretrained(folder)
    fresh = SFT(CausalLM(str(folder)), sandbox=Sandbox, seed=seed, evaluate=EvaluationConfig(sampling=SAMPLED))
    metrics = trainer(folder, [ExecutionEvaluation()], every=1).validate(fresh, task(seed), verbose=False)[0]
    found: Numbers = {name: float(metrics[f"val/{name}/pass@1"]) for name in SAMPLED}
    return found | {"length": float(metrics["val/greedy/completion/length"])}


def run(name: str, precision: str, seed: int, folder: Path, options: argparse.Namespace) -> Numbers:
    """Train one algorithm from the warm start and measure it."""
    start, seconds = warm_start(seed, folder, options.sft_updates)
    dtype, of_trainer = PRECISIONS[precision]
    watch, callbacks = Watch(), [ExecutionEvaluation()]
    if name == "SFT" and precision == "float32":
        module: PolicyModule = SFT(CausalLM(start), max_updates=1)
        module.policy.load()
    elif name == "SFT":
        module, seconds = imitate(seed, folder, options.sft_updates, precision)
    elif name == "DPO":
        pairs, how = folder / "pairs.jsonl", {"max_tokens": MAX_TOKENS, "margin": 0.5, "max_pairs": 4}
        seconds = make_pairs(pairs, start, task(seed), [TestsReward()], options.pair_problems, **how)
        module = DPO(
            CausalLM(start, dtype=dtype),
            beta=options.dpo_beta,
            max_updates=options.dpo_updates,
            sandbox=Sandbox,
            seed=seed,
            update=Optimization(optimizer=adamw(options.dpo_lr), lr_scheduler=falling(options.dpo_updates)),
            evaluate=EvaluationConfig(sampling={"greedy": SAMPLED["greedy"]}),
        )
        data: TaskDataModule = PreferencePairs(str(pairs), batch_size=32, seed=seed, validation_tasks=[task(seed)])
        trainer(folder, [*callbacks, watch], every=50, precision=of_trainer).fit(module, data)
        watch.reached = watch.reached and options.pair_problems * 8 // 128
    else:
        seconds = 0.0
        steps = {"epochs": 2, "minibatches": options.steps // 2} if options.steps > 1 else {}
        module = rollout_module(name, start, seed, options.rollouts, dtype, **steps)
        trainer(folder, [*callbacks, watch], every=20, precision=of_trainer).fit(module, task(seed))
    gap = statistics.mean(watch.gaps) if watch.gaps else None
    noted: Numbers = {"rollouts": watch.reached, "gap": gap, "farthest": watch.farthest if watch.gaps else None}
    return measure(module, seed, folder) | noted | {"cpu_seconds": seconds + watch.cpu_seconds}


def shown(values: Sequence[float | None], digits: int) -> str:
    """Mean and, for several seeds, standard deviation; a dash where it was never reached."""
    there = [value for value in values if value is not None]
    if not there:
        return "-"
    text = f"{statistics.mean(there):.{digits}f}"
    if len(there) > 1:
        text += f" ± {statistics.stdev(there):.{digits}f}"
    return text if len(there) == len(values) else f"{text} ({len(there)} of {len(values)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--algorithms", nargs="+", default=list(ALGORITHMS), choices=ALGORITHMS)
    parser.add_argument("--precisions", nargs="+", default=["float32"], choices=PRECISIONS)
    parser.add_argument("--rollouts", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1, help="a rollout: 1, or an even number in two epochs")
    parser.add_argument("--sft-updates", type=int, default=500)
    parser.add_argument("--pair-problems", type=int, default=512)
    parser.add_argument("--dpo-updates", type=int, default=150)
    parser.add_argument("--dpo-lr", type=float, default=1e-4)
    parser.add_argument("--dpo-beta", type=float, default=0.1)
    parser.add_argument("--folder", type=Path, default=Path("runs/algorithms"), help="warm starts, pairs, results")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    axes = ("seeds", "algorithms", "precisions", "folder")
    settings = {key: value for key, value in vars(options).items() if key not in axes}
    path = options.folder / "results.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    found = {tuple(line["run"]): line["numbers"] for line in lines if line["settings"] == settings}
    for seed in options.seeds:
        folder = options.folder / str(seed)
        folder.mkdir(parents=True, exist_ok=True)
        for one in ((name, precision, seed) for name in options.algorithms for precision in options.precisions):
            if one in found:
                continue
            print(*one, flush=True)
            found[one] = run(*one, folder, options)
            with path.open("a") as file:
                file.write(json.dumps({"settings": settings, "run": one, "numbers": found[one]}) + "\n")
    print(f"| algorithm | precision | {' | '.join(heading for heading, _ in COLUMNS.values())} |")
    print("|---" * (2 + len(COLUMNS)) + "|")
    for name in options.algorithms:
        for precision in options.precisions:
            rows = [found[name, precision, seed] for seed in options.seeds]
            cells = [shown([row[key] for row in rows], digits) for key, (_, digits) in COLUMNS.items()]
            print(f"| {name} | {precision} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
