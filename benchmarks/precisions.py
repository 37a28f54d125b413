r"""Does bfloat16 learn what float32 learns? Algorithms on the embedded task, each in every precision: one table.

    python benchmarks/precisions.py --seeds 0 1 2
    python benchmarks/precisions.py --steps 8 --algorithms PPO\ sparse GSPO GRPO --precisions float32 dtype:\ bfloat16

All start, with the settings of ``benchmarks/algorithms.py``, from the same float32 imitation of the same seed; SFT
starts from random weights. pass@1 is measured on 260 held-out problems by float32 weights, as saved. The gap is the
mean distance between the log-probabilities of sampler and trainer over all rollouts, nats per token; the ratio is the
one farthest from 1 between the weights that sampled and the same weights in training, a token, over all rollouts. CPU
seconds are those of the training process alone.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from algorithms import Clock, imitation, measure, rollout_module, shown, task, trainer, warm_start

PRECISIONS = {
    "float32": ("float32", "32-true"),
    "dtype: bfloat16": ("bfloat16", "32-true"),
    "bf16-mixed": ("float32", "bf16-mixed"),
    "bf16-true": ("float32", "bf16-true"),
}
"""Dtype of the policy and precision of the trainer."""


class Gaps(pl.Callback):
    """Means of the gap, and extremes of the importance ratio."""

    def __init__(self) -> None:
        self.gaps: list[float] = []
        self.farthest = 0.0

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        logged = trainer.callback_metrics
        if "sampling/logprob_gap/mean" in logged:
            self.gaps.append(float(logged["sampling/logprob_gap/mean"]))
            ends = (float(logged[f"sampling/importance_ratio/{end}"]) for end in ("min", "max"))
            self.farthest = max(self.farthest, *(abs(end - 1) for end in ends))


def run(name: str, precision: str, seed: int, options: argparse.Namespace) -> list[float]:
    """Greedy and sampled pass@1, gap, farthest ratio and CPU seconds of one training."""
    folder = options.folder / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    dtype, of_trainer = PRECISIONS[precision]
    clock, gaps = Clock(), Gaps()
    if name == "SFT":
        module: Any = imitation(seed, options.sft_updates, dtype)
    else:
        start, _ = warm_start(seed, folder, options.sft_updates)
        steps = {"epochs": 2, "minibatches": options.steps // 2} if options.steps > 1 else {}
        module = rollout_module(name, start, seed, options.rollouts, dtype, **steps)
    data = task(seed, batch_size=64 if name == "SFT" else 16)
    trainer(folder, [clock, gaps], precision=of_trainer).fit(module, data)
    found = measure(module, seed, folder)
    gap = statistics.mean(gaps.gaps) if gaps.gaps else 0.0
    return [found["val/greedy/pass@1"], found["val/sampled/pass@1"], gap, gaps.farthest, clock.spent.cpu_seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--algorithms", nargs="+", default=["SFT", "REINFORCE", "PPO", "GRPO"])
    parser.add_argument("--precisions", nargs="+", default=list(PRECISIONS), choices=PRECISIONS)
    parser.add_argument("--rollouts", type=int, default=100)
    parser.add_argument("--sft-updates", type=int, default=500)
    parser.add_argument("--steps", type=int, default=1, help="a rollout: 1, or an even number in two epochs")
    parser.add_argument("--folder", type=Path, default=Path("runs/precisions"), help="of the warm starts")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    print("| algorithm | precision | greedy | sampled | gap | ratio from 1 | CPU s |\n|---|---|---|---|---|---|---|")
    for name in options.algorithms:
        for precision in options.precisions:
            columns = zip(*(run(name, precision, seed, options) for seed in options.seeds), strict=True)
            cells = [shown(list(one), digits) for one, digits in zip(columns, (3, 3, 5, 3, 0), strict=True)]
            print(f"| {name} | {precision} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
