"""CPU seconds until lit_rl does something: an import, a line of help, the first rollout.

    python benchmarks/start.py [--rounds 3]

Each is a process of its own; its CPU seconds, and those of its children, are the median of the rounds. The first
rollout is that of ``lit-rl fit --config basics_grpo`` with a small random model: the process ends when the rollout
begins, so loading a larger model comes on top. Prints a table.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from lit_rl import CausalLM

MODEL = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "vocab_size": 1024,
}
UNTIL_FIRST_ROLLOUT = """
import os, sys
from lit_rl.cli.main import main
from lit_rl.modules.rollout_module import RolloutModule
RolloutModule.training_step = lambda *_, **__: os._exit(0)
main(sys.argv[1:])
"""
FIT = ["fit", "--config", "basics_grpo", "--run_dir", "run", "--model.policy.model"]


def steps(model: str) -> dict[str, list[str]]:
    """Commands of each row of the table."""
    lit_rl = [sys.executable, "-m", "lit_rl"]
    return {
        "`import lit_rl`": [sys.executable, "-c", "import lit_rl"],
        "`lit-rl --help`": [*lit_rl, "--help"],
        "`lit-rl report --help`": [*lit_rl, "report", "--help"],
        **{f"`lit-rl {verb} --help`": [*lit_rl, verb, "--help"] for verb in ("plan", "export", "check-data")},
        "`lit-rl fit` with a file that does not exist": [*lit_rl, "fit", "--config", "nowhere.yaml"],
        "`import torch, lightning.pytorch`": [sys.executable, "-c", "import torch, lightning.pytorch"],
        "`lit-rl fit --help`": [*lit_rl, "fit", "--help"],
        "`lit-rl fit` with a mistyped key": [*lit_rl, "fit", "--config", "basics_grpo", "--model.klmode", "3"],
        "`lit-rl fit --config basics_grpo` up to the first rollout": [
            *(sys.executable, "-c", UNTIL_FIRST_ROLLOUT, *FIT, model)
        ],
    }


def seconds(command: list[str], folder: str) -> float:
    """CPU seconds of a process and its children."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    start = spent()
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    # Status 2 is that of a mistake in what was typed, which two rows make.
    assert ended.returncode in (0, 2), ended.stderr
    return spent() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print(f"load {os.getloadavg()[0]:.1f}, torch {torch.__version__}, median of {rounds}")
    with tempfile.TemporaryDirectory() as folder:
        policy = CausalLM(config=MODEL, tokenizer="package:lit_rl/data/basics/tokenizer")
        policy.load()
        policy.save_pretrained(Path(folder) / "model")
        for name, command in steps(str(Path(folder) / "model")).items():
            taken = [seconds(command, folder) for _ in range(rounds)]
            print(f"| {name} | {statistics.median(taken):.2f} |", flush=True)


if __name__ == "__main__":
    main()
