"""Seconds to a held-out pass@1 on basics beside TRL's: same model, problems, rollouts, hyperparameters and sandbox.

    python benchmarks/trl_basics.py --peer-python PEER_VENV/bin/python --model runs/basics/sft/model

The model is what `make demo` exports after its warm start. Both train it by GRPO on the same problems in the same
order, 16 x 8 completions a rollout, and judge by the sandbox of this repository. Every few rollouts the greedy pass@1
on 260 held-out problems is measured, outside the clock; a run ends when it reaches the goal. Prints the seconds and
rollouts that each seed took, and writes JSON with the curves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from trl import columns, turn

sys.path.insert(0, str(Path(__file__).parent / "beside_trl"))
from basics import Task, write

from lit_rl.data import Basics
from lit_rl.types import Problem

BATCH, GROUP = 16, 8


def tasks_of(problems: Sequence[Problem]) -> list[Task]:
    """The part of problems that both sides need."""
    for problem in problems:
        assert problem.continues_program and problem.prompt == problem.program_prefix and not problem.stop_strings
    return [Task(problem.prompt, problem.check) for problem in problems]


def write_problems(path: Path, seed: int, rollouts: int) -> None:
    """Training problems in the order in which lit_rl takes them, and the held-out ones of `make demo`."""
    data = Basics(batch_size=BATCH, seed=seed, num_validation_problems=260)
    batches = iter(data.train_dataloader())
    train = [problem for _ in range(rollouts) for problem in next(batches)]
    write(path, tasks_of(train), tasks_of(data.problems("validation")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--model", required=True, help="folder that both start from")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rollouts", type=int, default=180, help="at most; the learning rate falls over this many")
    parser.add_argument("--every", type=int, default=10, help="rollouts between measurements")
    parser.add_argument("--goal", type=float, default=0.9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: where other programs run too")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    shared = {"batch": BATCH, "group": GROUP, "tokens": 40, "lr": 4e-4, "model": str(Path(given.model).resolve())}
    shared |= {name: getattr(given, name) for name in ("rollouts", "every", "goal", "threads", "clock")}
    arms = {"lit_rl": (sys.executable, "ours_basics.py"), "trl": (given.peer_python, "theirs_basics.py")}
    curves: dict[str, list[list[dict[str, float]]]] = {name: [] for name in arms}
    print(f"seconds ({given.clock}) to greedy pass@1 {given.goal}, rollouts, pass@1\n{'seed':<8}{columns(list(arms))}")
    with tempfile.TemporaryDirectory() as folder:
        for seed in given.seeds:
            problems = Path(folder) / f"{seed}.pickle"
            write_problems(problems, seed, given.rollouts)
            for name, (python, script) in arms.items():
                curves[name].append(turn(python, script, shared | {"seed": seed, "problems": str(problems)}))
            print(f"{seed:<8}" + columns([shown(curves[name][-1]) for name in arms]), flush=True)
    ratios = [theirs[-1]["seconds"] / ours[-1]["seconds"] for ours, theirs in zip(*curves.values(), strict=True)]
    reached = {name: sum(curve[-1]["pass@1"] >= given.goal for curve in curves[name]) for name in arms}
    print(f"reached by {reached}; TRL takes {statistics.median(ratios):.2f} times as long (median of seeds)")
    if given.output:
        about = {"load": os.getloadavg(), "torch": version("torch"), "transformers": version("transformers")}
        given.output.write_text(
            json.dumps({"curves": curves, "ratios": ratios} | about | {"arguments": vars(given)}, indent=1, default=str)
        )


def shown(curve: Sequence[dict[str, float]]) -> str:
    last = curve[-1]
    return f"{last['seconds']:.1f} {last['rollouts']} {last['pass@1']:.2f}"


if __name__ == "__main__":
    main()
