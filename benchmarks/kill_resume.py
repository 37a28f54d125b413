"""SIGKILL runs at random moments and start the same command again: do they end like undisturbed ones?

Each run is ``lit-rl fit`` with programs executed in the sandbox, a checkpoint after each rollout, validation between:
GRPO and PPO with a critic, on one rank and on two ranks with shards, and GRPO in two turns. An epoch is three
rollouts, or two where ``limit_train_batches`` shortens it, so that ten rollouts cross several borders. A run is
killed up to three times, some while a checkpoint is written; every third one is first ended by ``max_rollouts``,
often at a border, and then raised. Tasks stay far from every limit of the sandbox, so what a program does never
depends on the load of the machine.

    python benchmarks/kill_resume.py --runs 20

Prints a line per run, writes JSON, and ends with ``resumed identical N/20``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing as mp
import os
import random
import signal
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import yaml

from lit_rl.cli.main import VERBS
from lit_rl.cli.main import main as lit_rl_main
from lit_rl.models.loading.checkpoints import read_checkpoint

assert VERBS  # the classes are known by name before the first fork

KINDS = [("GRPO", 1, 1.0), ("PPO", 2, 1.0), ("PPO", 1, 2), ("GRPO", 2, 0.7), ("GRPO in two turns", 1, 1.0)]
"""Algorithm, ranks, and ``limit_train_batches``: all three batches of an epoch, or two of them."""

MOST_KILLS = 3
ROLLOUTS = 10
LONGEST_SECONDS = 300.0


def configuration(
    folder: Path, algorithm: str, ranks: int, limit: float, max_rollouts: int = ROLLOUTS
) -> dict[str, Any]:
    """A run that takes seconds."""
    policy = {
        "tokenizer": "package:lit_rl.data/basics/tokenizer",
        "config": {
            "model_type": "llama",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "max_position_embeddings": 256,
        },
    }
    module = {
        "policy": {"class_path": "lit_rl.models.CausalLM", "init_args": policy},
        "sampling": {"num_samples": 4, "max_tokens": 16},
        # Untrained, it never passes a test; lengths differ, so there is still something to learn from.
        "rewards": [
            {"class_path": "lit_rl.rewards.TestsReward"},
            {"class_path": "lit_rl.rewards.LengthPenalty"},
        ],
        "update": {"optimizer": {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.01}}, "epochs": 2},
        "max_rollouts": max_rollouts,
        "sandbox": {"class_path": "lit_rl.execution.Sandbox", "init_args": {"num_workers": 1}},
    }
    if algorithm == "PPO":
        module |= {"critic": {"class_path": "lit_rl.models.SeparateCritic"}, "critic_update": {"warmup_rollouts": 2}}
    data = {"batch_size": 4 // ranks, "num_train_problems": 12, "num_validation_problems": 26}
    if algorithm == "GRPO in two turns":
        repair = {"class_path": "lit_rl.rollout.Repair", "init_args": {"max_message_tokens": 24}}
        module["collect"] = {"environment": repair}
        data["num_public_cases"] = 1
    checkpointing = {"folder": str(folder / "run"), "every_n_rollouts": 1}
    return {
        "trainer": {
            "accelerator": "cpu",
            "devices": ranks,
            "strategy": "fsdp2" if ranks > 1 else "auto",
            "max_epochs": -1,
            "limit_train_batches": limit,
            "val_check_interval": 2,
            "check_val_every_n_epoch": None,
            "enable_progress_bar": False,
            "logger": False,
            "default_root_dir": str(folder),
            "callbacks": [{"class_path": "lit_rl.callbacks.Checkpointing", "init_args": checkpointing}],
        },
        "model": {"class_path": f"lit_rl.modules.{algorithm.split()[0]}", "init_args": module},
        "data": {
            "class_path": "lit_rl.data.Basics",
            "init_args": data,
        },
    }


class Run:
    """The processes of one start of a command: one per rank, in a process group of their own."""

    def __init__(self, folder: Path, algorithm: str, ranks: int, limit: float, max_rollouts: int = ROLLOUTS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(configuration(folder, algorithm, ranks, limit, max_rollouts)))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        fork = mp.get_context("fork")
        log = folder / "log.txt"
        self.processes = [fork.Process(target=_rank, args=(config, log, rank, ranks, port)) for rank in range(ranks)]
        for process in self.processes:
            process.start()

    def kill(self) -> bool:
        """SIGKILL to every rank and what it started; whether all were alive."""
        alive = all(process.is_alive() for process in self.processes)
        for process in self.processes:
            try:
                os.killpg(process.pid or 0, signal.SIGKILL)
            except ProcessLookupError:  # it has ended, or has not made its group yet
                process.kill()
        self.join()
        return alive

    def join(self) -> list[int | None]:
        """Wait for the end; exit codes."""
        for process in self.processes:
            process.join(LONGEST_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
        return [process.exitcode for process in self.processes]


def _rank(config: Path, log: Path, rank: int, ranks: int, port: int) -> None:
    os.setpgrp()
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    if ranks > 1:
        places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": ranks, "RANK": rank}
        places |= {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks, "NODE_RANK": 0, "GROUP_RANK": 0}
        os.environ.update({name: str(value) for name, value in places.items()})
    lit_rl_main(["fit", "--config", str(config)])


def digest(folder: Path) -> str:
    """Digest of the weights after the last rollout, to the last bit."""
    weights = read_checkpoint(folder / "run" / f"rollout_{ROLLOUTS:06d}.ckpt")["state_dict"]
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode() + weights[name].contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def done(folder: Path) -> int:
    """Rollouts of the newest checkpoint."""
    return max((int(p.stem.split("_")[1]) for p in (folder / "run").glob("rollout_*.ckpt")), default=0)


def undisturbed(folder: Path, algorithm: str, ranks: int, limit: float) -> tuple[str, float]:
    """Weights and seconds of a run that nobody kills."""
    started = time.monotonic()
    codes = Run(folder, algorithm, ranks, limit).join()
    if any(codes):
        raise RuntimeError(f"the undisturbed run failed: {codes}\n{(folder / 'log.txt').read_text()[-2000:]}")
    return digest(folder), time.monotonic() - started


def kill_at_random(run: Run, folder: Path, seconds: float, while_saving: bool, chance: random.Random) -> bool:
    """Kill at a random moment of the run's time, or soon after a random checkpoint began; whether it was alive."""
    ends = time.monotonic() + seconds * chance.uniform(0.2, 0.95)
    if while_saving:
        part = (
            folder / "run" / f".rollout_{chance.randrange(min(done(folder), ROLLOUTS - 1), ROLLOUTS) + 1:06d}.ckpt.part"
        )
        while not part.exists() and run.processes[0].is_alive():
            time.sleep(0.0005)
        time.sleep(chance.uniform(0, 0.01))
    else:
        time.sleep(max(0.0, ends - time.monotonic()))
    return run.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/kill_resume.json"))
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        whole = {kind: undisturbed(Path(scratch) / f"whole_{kind[0]}_{kind[1]}", *kind) for kind in KINDS}
        for (algorithm, ranks, _), (_, seconds) in whole.items():
            print(f"undisturbed {algorithm} on {ranks} rank(s): {seconds:.1f} s", flush=True)
        while len(rows) < arguments.runs:
            kind = KINDS[len(rows) % len(KINDS)]
            while_saving = len(rows) // len(KINDS) % 2 == 1
            folder = Path(tempfile.mkdtemp(dir=scratch))
            raised_from = chance.randrange(2, ROLLOUTS) if len(rows) % 3 == 2 else None
            if raised_from is not None and any(Run(folder, *kind, raised_from).join()):
                raise RuntimeError(f"a run to raise failed\n{(folder / 'log.txt').read_text()[-2000:]}")
            kills = 0
            for _ in range(chance.randrange(1, MOST_KILLS + 1)):
                seconds = whole[kind][1] * (ROLLOUTS - done(folder)) / ROLLOUTS
                kills += kill_at_random(Run(folder, *kind), folder, seconds, while_saving, chance)
            if not kills:
                continue  # it ended before the kill, so it tested nothing
            left = sorted(p.name for p in (folder / "run").glob("*.ckpt") if not p.is_symlink())
            half = any((folder / "run").glob(".*.part"))
            codes = Run(folder, *kind).join()
            same = not any(codes) and digest(folder) == whole[kind][0]
            rows.append(
                {"algorithm": kind[0], "ranks": kind[1], "limit_train_batches": kind[2], "identical": same}
                | {"while_saving": while_saving, "kills": kills, "raised_from": raised_from}
                | {"killed_after": left[-1] if left else "no checkpoint", "half_written": half}
            )
            raised = f"raised from {raised_from}" if raised_from else ""
            print(
                f"{len(rows):2d} {kind[0]:4} {kind[1]} rank(s), {raised:13} "
                f"killed {kills} times, last after {rows[-1]['killed_after']:18}"
                f"{' (one half-written)' if half else '':19} -> {'identical' if same else f'DIFFERENT {codes}'}",
                flush=True,
            )
            if not same:
                print((folder / "log.txt").read_text()[-3000:])
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(rows, indent=1))
    print(f"resumed identical {sum(row['identical'] for row in rows)}/{len(rows)}")


if __name__ == "__main__":
    main()
