"""Expert iteration, the simplest thing that works: sample, keep what passes, fine-tune, and again. pass@1 by tokens.

    python benchmarks/expert_iteration.py --task basics --start runs/basics/sft/model --seeds 0 1 2
    python benchmarks/expert_iteration.py --task repair --start runs/basics/repair_sft/model --keep passed all

Each round samples completions of new training problems (``CompletionWriter``), keeps those that passed,
or all, each distinct one once (``CompletionFile``), and fine-tunes on them from the weights of the round
before. ``basics`` has one turn of at most 40 tokens; ``repair`` has two of 24 with feedback on a public case between
them, as in configs/basics_repair_grpo.yaml. Sampled tokens are the policy's own, of all rows, kept or not, as
``completion/length`` counts them for GRPO. pass@1 is that of 260 held-out problems after the last turn, greedy and
sampled (temperature 1, two each). Round 0 is the start.

Each finished round is a line of ``results.jsonl`` in the folder and leaves its weights there; a run with the same
settings goes on after the last one, and within a round from the rows that were written.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from algorithms import adamw
from bare_trainer import bare_trainer

from lit_rl.callbacks import CompletionWriter
from lit_rl.data import Basics, CompletionFile
from lit_rl.data.basics.problems import REPAIR_TEMPLATE
from lit_rl.data.completion_file import Keep
from lit_rl.evaluation import evaluate
from lit_rl.execution import Sandbox
from lit_rl.models import CausalLM
from lit_rl.modules import SFT, Collect, Evaluate, Optimization
from lit_rl.reports.run_files import read_rollouts
from lit_rl.rollout import Environment, Repair
from lit_rl.types import Sampling

TASKS: dict[str, tuple[dict[str, Any], Environment | None, int]] = {
    "basics": ({}, None, 40),
    "repair": ({"num_public_cases": 1, "untold_constants": True}, Repair(template=REPAIR_TEMPLATE), 24),
    "tellable": ({"families": "tellable", "num_public_cases": 1, "untold_constants": True}, None, 24),
    "tellable_told": ({"families": "tellable", "num_public_cases": 1}, None, 24),
}
"""By name: arguments of the task, what answers the policy, tokens of a turn."""


@dataclass(frozen=True)
class Settings:
    """Settings that a result depends on besides seed and number of the round."""

    task: str
    start: str
    keep: Keep
    problems: int
    samples: int
    epochs: int
    batch_size: int
    lr: float


@dataclass(frozen=True)
class Round:
    """The state after a round: tokens sampled so far, completions kept in it, and pass@1 on held-out problems."""

    seed: int
    number: int
    tokens: int
    kept: int
    greedy: float
    sampled: float


def expert_iteration(settings: Settings, seed: int, rounds: int, folder: Path) -> Iterator[Round]:
    """Rounds of expert iteration, those that an earlier run finished first; the start is round 0."""
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.jsonl"
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    model, last = settings.start, None
    for line in done:
        if line["settings"] == asdict(settings):
            last = Round(**line["round"])
            model = str(folder / f"round_{last.number}") if last.number else settings.start
            yield last
    for number in range(0 if last is None else last.number + 1, rounds + 1):
        kept = tokens = 0
        if last is not None:
            path = sample(settings, model, seed, number, folder)
            tokens = last.tokens + sum(row.num_tokens for rollout in read_rollouts(path) for row in rollout.rows)
            model = str(folder / f"round_{number}")
            kept = fine_tune(settings, path, last, seed, folder, model)
        last = Round(seed, number, tokens, kept, *measured(settings, model))
        with results.open("a") as file:
            file.write(json.dumps({"settings": asdict(settings), "round": asdict(last)}) + "\n")
        yield last


def sample(settings: Settings, model: str, seed: int, number: int, folder: Path) -> Path:
    """Write completions of problems that no other round sees."""
    options, environment, max_tokens = TASKS[settings.task]
    path = folder / f"round_{number}.jsonl.gz"
    module = SFT(
        CausalLM(model),
        sandbox=Sandbox,
        seed=1000 * seed + number,
        collect=Collect(environment=environment),
        evaluate=Evaluate(predict=Sampling(num_samples=settings.samples, max_tokens=max_tokens)),
    )
    draw = 1000 * (seed + 1) + number
    data = Basics(num_train_problems=settings.problems, draw_seed=draw, validation_batch_size=64, **options)
    bare_trainer(CompletionWriter(str(path))).predict(module, data, return_predictions=False)
    return path


def fine_tune(settings: Settings, path: Path, before: Round, seed: int, folder: Path, model: str) -> int:
    """Imitate what was kept, and save the policy; returns how many completions that were."""
    data = CompletionFile(str(path), keep=settings.keep, batch_size=settings.batch_size, seed=seed)
    kept = len(data.problems("train"))
    data.batch_size = min(settings.batch_size, kept)
    start = str(folder / f"round_{before.number}") if before.number else settings.start
    policy = CausalLM(start)
    updates = settings.epochs * (kept // data.batch_size)
    module = SFT(policy, max_updates=updates, seed=seed, update=Optimization(optimizer=adamw(settings.lr)))
    bare_trainer(default_root_dir=folder).fit(module, data)
    policy.save_pretrained(model)
    return kept


def measured(settings: Settings, model: str) -> tuple[float, float]:
    """Greedy and sampled pass@1 on held-out problems."""
    options, environment, max_tokens = TASKS[settings.task]
    problems = Basics(num_validation_problems=260, **options).problems("validation")
    policy = CausalLM(model)
    found = []
    with Sandbox() as sandbox:
        for sampling in (
            Sampling(temperature=0.0, max_tokens=max_tokens),
            Sampling(num_samples=2, max_tokens=max_tokens),
        ):
            of = evaluate(
                policy, problems, sampling=sampling, sandbox=sandbox, environment=environment, batch_size=len(problems)
            )
            found.append(of.pass_at[1])
    return found[0], found[1]


def table(rounds: list[Round]) -> str:
    """Markdown: means over seeds, with their standard deviation."""
    lines = ["| round | sampled tokens | kept | greedy pass@1 | sampled pass@1 |", "|---" * 5 + "|"]
    for number in sorted({one.number for one in rounds}):
        of = [one for one in rounds if one.number == number]
        cells = [f"{statistics.mean(one.tokens for one in of):.0f}", f"{statistics.mean(one.kept for one in of):.0f}"]
        for values in ([one.greedy for one in of], [one.sampled for one in of]):
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.3f}{spread}")
        lines.append(f"| {number} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="basics")
    parser.add_argument(
        "--start", default="runs/basics/sft/model", help="folder of the policy that round 1 samples from"
    )
    parser.add_argument("--keep", nargs="+", choices=("passed", "all"), default=["passed"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--problems", type=int, default=256, help="of a round")
    parser.add_argument("--samples", type=int, default=8, help="of each problem")
    parser.add_argument("--epochs", type=int, default=2, help="over what a round kept")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--folder", type=Path, default=Path("runs/expert_iteration"))
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name in ("lightning.pytorch", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for keep in options.keep:
        settings = Settings(
            *(options.task, options.start, keep, options.problems, options.samples),
            *(options.epochs, options.batch_size, options.lr),
        )
        rounds = []
        for seed in options.seeds:
            for one in expert_iteration(
                settings, seed, options.rounds, options.folder / f"{options.task}_{keep}_{seed}"
            ):
                rounds.append(one)
                print(f"{options.task} keep {keep}  {one}", flush=True)
        print(f"\n{options.task}, keep {keep}, seeds {options.seeds}\n\n{table(rounds)}\n", flush=True)


if __name__ == "__main__":
    main()
