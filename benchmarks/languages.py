"""A second language, learnt offline: the embedded task in JavaScript, alone or beside Python.

    python benchmarks/languages.py javascript
    python benchmarks/languages.py python javascript

The steps of the demo with its model of 650,000 parameters and its tokenizer, which was made for Python: imitation of
demonstrations of which 60% carry a bug (SFT), then GRPO with rewards from running the programs, 16 problems x 8
completions a rollout. Several languages are one run, a ``Mixture``: each has the same share of every batch.

Measured on 260 held-out problems per language: pass@1 of greedy and of sampled completions (temperature 1, two each).
Wall and CPU seconds are those of everything, measuring and all programs included. The warm start stays in the folder,
and a run goes on from one that is there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from algorithms import SAMPLED, TOKENIZER, adamw, falling, one_cycle, trainer
from repair import MODEL, quiet

from lit_rl.data import Basics, Mixture
from lit_rl.evaluation import evaluate
from lit_rl.execution import Sandbox
from lit_rl.execution.languages import version
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO, SFT, Optimization, Update
from lit_rl.rewards import TestsReward
from lit_rl.types import Sampling

STARTED = time.perf_counter()
MAX_TOKENS = 64
"""A body in JavaScript has twice as many tokens as in Python."""


class Progress(pl.Callback):
    """Prints the mean reward of every tenth rollout."""

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if (batch_idx + 1) % 10 == 0:
            print(f"{batch_idx + 1:4d} rollouts  reward {trainer.callback_metrics['reward/mean']:.3f}", flush=True)


def tasks(languages: Sequence[str], batch_size: int) -> Mixture:
    return Mixture([Basics(language=language) for language in languages], batch_size=batch_size)


def measured(policy: CausalLM, languages: Sequence[str]) -> dict[str, float]:
    """Share of held-out problems solved, by language and way of sampling."""
    shares = {}
    with Sandbox() as sandbox:
        for language in languages:
            problems = Basics(language=language, num_validation_problems=260).problems("validation")
            for name, sampling in SAMPLED.items():
                asked = replace(sampling, max_tokens=MAX_TOKENS)
                found = evaluate(policy, problems, sampling=asked, sandbox=sandbox, batch_size=len(problems))
                shares[f"{language} {name}"] = found.pass_at[1]
    return shares


def spent() -> list[float]:
    """Wall and CPU seconds of this process and of those that it has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return [time.perf_counter() - STARTED, sum(one.ru_utime + one.ru_stime for one in used)]


def warm_start(languages: Sequence[str], folder: Path, updates: int) -> dict[str, Any]:
    """Imitate, unless an earlier run has; what it came to, and the time that it took."""
    noted = folder / "warm_start.json"
    if not noted.exists():
        policy = CausalLM(config=MODEL, tokenizer=TOKENIZER)
        schedule = one_cycle(6e-3, updates, rise=0.15)
        optimization = Optimization(optimizer=adamw(6e-3, weight_decay=0.01), lr_scheduler=schedule)
        module = SFT(policy, max_updates=updates, update=optimization)
        trainer(folder, []).fit(module, tasks(languages, batch_size=32))
        shares = measured(policy, languages)
        policy.save_pretrained(folder / "warm_start")
        noted.write_text(json.dumps({"shares": shares, "spent": spent()}))
        return {"shares": shares, "spent": [0.0, 0.0]}
    return dict(json.loads(noted.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("languages", nargs="+", choices=("python", "javascript"))
    parser.add_argument("--sft-updates", type=int, default=1000)
    parser.add_argument("--rollouts", type=int, default=100)
    parser.add_argument("--lr", type=float, default=6e-4, help="of GRPO")
    parser.add_argument("--folder", type=Path, default=Path("runs/languages"))
    options = parser.parse_args()
    quiet()
    start = warm_start(options.languages, options.folder, options.sft_updates)
    before, earlier = start["shares"], start["spent"]
    print(f"warm start: {before}", flush=True)
    policy = CausalLM(str(options.folder / "warm_start"))
    grpo = GRPO(
        policy,
        max_rollouts=options.rollouts,
        sampling=Sampling(num_samples=8, max_tokens=MAX_TOKENS),
        rewards=[TestsReward()],
        sandbox=Sandbox,
        update=Update(optimizer=adamw(options.lr), lr_scheduler=falling(options.rollouts)),
    )
    trainer(options.folder, [Progress()]).fit(grpo, tasks(options.languages, batch_size=16))
    after = measured(policy, options.languages)
    policy.save_pretrained(options.folder / "model")
    for name in before:
        print(f"{name} pass@1 {before[name]:.2f} -> {after[name]:.2f}")
    seconds, cpu_seconds = map(sum, zip(earlier, spent(), strict=True))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    versions = ", ".join(map(version, options.languages))
    print(f"{seconds:.0f} s, {cpu_seconds:.0f} CPU s, {options.rollouts} rollouts, {versions}, load {load}")


if __name__ == "__main__":
    main()
