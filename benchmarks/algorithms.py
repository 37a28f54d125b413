r"""All algorithms on the embedded task, from the same warm start, in one precision or both: one table.

    python benchmarks/algorithms.py --seeds 0 1 2
    python benchmarks/algorithms.py --steps 8 --algorithms PPO GSPO GRPO --precisions float32 dtype:\ bfloat16

For each seed a tiny policy first imitates, in float32, demonstrations of which 60% carry a bug; each algorithm goes on
from there. Every rollout is 16 problems x 8 completions. Measured on 260 held-out problems, by float32 weights: pass@1
of greedy and of sampled completions (temperature 1), and the rollouts until greedy pass@1 first reached 0.9, checked
every 20 rollouts. CPU seconds are those of the training process, without the programs that it has run.

PPO runs with its reward on the last token, and with reward that has a place on that place and the rest spread evenly
(tokens). DPO learns from 512 x 8 completions of the warm start (32 rollouts' worth), in 150 updates of 32 pairs.

Each finished run is a line of ``runs/algorithms/results.jsonl``; the same command goes on after the last one.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import reproduce
from reproductions import learning
from reproductions.part import Case, Numbers, Part, Store

from lit_rl.data import Basics
from lit_rl.math.advantages import BatchMean
from lit_rl.math.losses import Clipped
from lit_rl.models import CausalLM, SeparateCritic
from lit_rl.modules import GRPO, PPO, REINFORCE, CriticConfig, Objective, PolicyModule
from lit_rl.rewards import TestsReward
from lit_rl.types import Sampling

MODEL = learning.MODEL | {"intermediate_size": 384, "num_hidden_layers": 4}
ALGORITHMS = ("SFT", "REINFORCE", "PPO", "PPO tokens", "GRPO", "GSPO", "DPO")
PRECISIONS = ("float32", "dtype: bfloat16")
MAX_TOKENS = 40
COLUMNS = {"greedy": "greedy", "sampled": "sampled", "to_0.9": "rollouts to 0.9", "cpu_seconds": "CPU s"}
FOLDER = Path("runs/algorithms")


def task(seed: int, batch_size: int = 16, **options: Any) -> Basics:
    return Basics(batch_size=batch_size, num_validation_problems=260, seed=seed, draw_seed=seed, **options)


def warm_start(seed: int, folder: Path, updates: int) -> tuple[str, float]:
    """Imitate in float32, unless an earlier case has; return the policy's folder and the CPU seconds of imitation."""
    noted = folder / "seconds.json"
    if not noted.exists():
        started = time.process_time()
        policy = CausalLM(config=MODEL, tokenizer=learning.TOKENIZER, init_seed=seed)
        learning.imitate(policy, task(seed, batch_size=64), folder, updates, lr=5e-3, rise=0.04, seed=seed)
        noted.write_text(json.dumps(time.process_time() - started))
    return str(folder / "start"), json.loads(noted.read_text())


def module_of(algorithm: str, policy: CausalLM, seed: int, rollouts: int, steps: int) -> PolicyModule:
    """Return one of the sampling algorithms, with ``steps`` optimizer steps per rollout."""
    update = {"epochs": 2, "minibatches": steps // 2} if steps > 1 else {}
    update |= {"aggregate": "sequence_mean"} if algorithm == "GSPO" else {}
    sampling = Sampling(num_samples=8, max_tokens=MAX_TOKENS)
    settings = learning.shared(seed, rollouts, 4e-4, [TestsReward()], sampling, **update)
    match algorithm:
        case "GRPO":
            return GRPO(policy, **settings)
        case "GSPO":
            clip = Clipped(clip_low=3e-4, clip_high=4e-4)
            return GRPO(policy, objective=Objective(loss=clip, ratio_level="sequence"), **settings)
        case "REINFORCE":
            return REINFORCE(policy, baseline=BatchMean(normalize="none"), **settings)
    settings |= {"critic_update": CriticConfig(learning_rate=1e-3, warmup_rollouts=5)}
    return PPO(policy, critic=SeparateCritic(), credit="spans" if algorithm == "PPO" else "tokens", **settings)


def run(seed: int, folder: Path, algorithm: str, precision: str, options: argparse.Namespace) -> Numbers:
    """Train one algorithm from the warm start and measure it."""
    start, seconds = warm_start(seed, folder.parent / str(seed), options.sft_updates)
    policy = CausalLM(start, dtype=precision.removeprefix("dtype: "))
    watch = learning.Measured(policy, task(seed).problems("validation"), MAX_TOKENS, every=20)
    if algorithm == "DPO":
        writer, started = {"max_tokens": MAX_TOKENS, "margin": 0.5, "max_pairs": 4}, time.process_time()
        data = task(seed, max_train_problems=512)
        learning.learn_from_pairs(policy, start, data, [TestsReward()], folder, updates=150, **writer)
        seconds = time.process_time() - started
    elif algorithm != "SFT":
        module = module_of(algorithm, policy, seed, options.rollouts, options.steps)
        learning.learn(module, task(seed), folder, watch)
        seconds = watch.cpu_seconds
    policy.load()
    policy.save_pretrained(folder / "done")
    measured = learning.pass_rates(CausalLM(str(folder / "done")), watch.problems, MAX_TOKENS)
    return measured | watch.rollouts_to(0.9) | {"cpu_seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS, choices=ALGORITHMS)
    parser.add_argument("--precisions", nargs="+", default=["float32"], choices=PRECISIONS)
    parser.add_argument("--rollouts", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1, help="a rollout: 1, or an even number in two epochs")
    parser.add_argument("--sft-updates", type=int, default=500)
    options = parser.parse_args()
    cases = [
        Case(f"{algorithm}, {precision}", partial(run, algorithm=algorithm, precision=precision, options=options))
        for algorithm in options.algorithms
        for precision in options.precisions
    ]
    name = f"{options.rollouts} rollouts of {options.steps} steps after {options.sft_updates} updates"
    digits = {"greedy": 3, "sampled": 3, "to_0.9": 0, "cpu_seconds": 0}
    part = Part(name, tuple(cases), COLUMNS, digits=digits)
    reproduce.run([part], options.seeds, FOLDER, processes=1)
    print(part.table(Store(FOLDER / "results.jsonl").of_part(part, options.seeds)))


if __name__ == "__main__":
    main()
