"""Job scripts on a real scheduler: a run that is preempted, requeued, and ends like an undisturbed one."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from lit_rl.training.checkpoints import read_checkpoint
from lit_rl.training.preemption import REQUEUE_STATUS

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 400.0
ROLLOUTS = 40


def answers() -> bool:
    """Return whether a scheduler is there and has a node to give."""
    if shutil.which("sinfo") is None:
        return False
    try:
        found = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return False
    return any(state in found.stdout for state in ("idle", "mix"))


# Asking costs seconds where a scheduler is configured but down, so only the marked run asks.
pytestmark = [pytest.mark.slurm]


@pytest.fixture(scope="module", autouse=True)
def scheduler() -> None:
    if not answers():
        pytest.skip('no scheduler answers: eval "$(configs/slurm/test_scheduler.sh start FOLDER)" starts one')


def command(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def configuration(folder: Path) -> Path:
    """GRPO with executed programs on two ranks with shards, a second or so a rollout."""
    policy = {
        "tokenizer": "package:lit_rl.data/basics/tokenizer",
        "config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
        | {"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 256},
    }
    module = {
        "policy": {"class_path": "lit_rl.models.CausalLM", "init_args": policy},
        "sampling": {"num_samples": 8, "max_tokens": 32},
        "rewards": [{"class_path": f"lit_rl.rewards.{name}"} for name in ("TestsReward", "LengthPenalty")],
        "update": {"optimizer": {"class_path": "torch.optim.Adam", "init_args": {"lr": 0.01}}},
        "max_rollouts": ROLLOUTS,
        "sandbox": {"class_path": "lit_rl.execution.Sandbox", "init_args": {"num_workers": 1}},
    }
    trainer = {
        "accelerator": "cpu",
        "strategy": "fsdp2",
        "max_epochs": -1,
        "limit_val_batches": 0,
        "enable_progress_bar": False,
        "logger": False,
        "default_root_dir": str(folder),
        "callbacks": [
            {
                "class_path": "lit_rl.callbacks.Checkpointing",
                "init_args": {"folder": "checkpoints", "every_n_rollouts": 1},
            }
        ],
    }
    data = {"batch_size": 2, "num_train_problems": 40, "num_validation_problems": 26}
    run = {
        "trainer": trainer,
        "model": {"class_path": "lit_rl.modules.GRPO", "init_args": module},
        "data": {"class_path": "lit_rl.data.Basics", "init_args": data},
    }
    folder.mkdir(parents=True)
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(run))
    return file


def submit(folder: Path, *options: str) -> str:
    """Submit the job script as a user does; the job's number."""
    file = configuration(folder)
    launcher = folder / "lit-rl"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m lit_rl "$@"\n')
    launcher.chmod(0o755)
    environment = f"ALL,LIT_RL={launcher},PYTHONPATH={ROOT},OMP_NUM_THREADS=1"
    options = ("--ntasks-per-node=2", "--cpus-per-task=1", f"--chdir={folder}", f"--export={environment}", *options)
    script = str(ROOT / "configs/slurm/fit.sbatch")
    return command("sbatch", "--parsable", *options, script, "--config", str(file))


def facts(job: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+)=(\S*)", command("scontrol", "show", "job", job)))


def wait_for(what: str, test: Any) -> None:
    ends = time.monotonic() + SECONDS
    while not test():
        assert time.monotonic() < ends, f"waited {SECONDS} s for {what}"
        time.sleep(0.5)


ENDS = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}


def is_over(state: dict[str, str]) -> bool:
    """Return whether a job will not start again; one that failed with status 75 is about to be requeued."""
    return state["JobState"] in ENDS and state["ExitCode"] != f"{REQUEUE_STATUS}:0"


def finish(job: str, folder: Path) -> dict[str, str]:
    """Wait for the job's end; a requeued job would wait two minutes to start again, which nobody needs here."""

    def over() -> bool:
        state = facts(job)
        if state["JobState"] == "PENDING" and state.get("Reason") == "BeginTime":
            subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], check=False, capture_output=True)
        return is_over(state)

    wait_for(f"job {job}", over)
    return facts(job)


def log(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.glob("*.log")))


def digest(folder: Path) -> str:
    weights = read_checkpoint(folder / "checkpoints" / f"rollout_{ROLLOUTS:06d}.ckpt")["state_dict"]
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(name.encode() + weights[name].numpy().tobytes())
    return total.hexdigest()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, scheduler: None) -> str:
    folder = tmp_path_factory.mktemp("slurm") / "whole"
    state = finish(submit(folder), folder)
    assert state["JobState"] == "COMPLETED", log(folder)
    return digest(folder)


def preempt(job: str) -> None:
    """A job of a partition that comes first; it wants the whole node."""
    command("sbatch", "--partition=high", "--exclusive", "--output=/dev/null", "--wrap", "sleep 2")


def time_is_almost_up(job: str) -> None:
    """Signal that the scheduler sends to the steps of a job before its time limit."""
    command("scancel", "--signal=USR1", job)


@pytest.mark.parametrize("disturb", [preempt, time_is_almost_up])
def test_a_job_that_is_stopped_goes_on_and_ends_like_an_undisturbed_one(
    tmp_path: Path, undisturbed: str, disturb: Any
) -> None:
    if disturb is preempt and "PartitionName=high" not in command("scontrol", "show", "partition"):
        pytest.skip("the scheduler has no partition `high` that preempts the default one")
    folder = tmp_path / "run"
    job = submit(folder)
    # A later one counts too: the third is kept for a moment only.
    kept = (folder / "checkpoints").glob
    wait_for("the third rollout", lambda: any(one.stem >= "rollout_000003" for one in kept("rollout_*.ckpt")))
    disturb(job)
    state = finish(job, folder)
    assert state["JobState"] == "COMPLETED", log(folder)
    assert int(state["Restarts"]) >= 1
    assert "a signal asked this run to stop" in log(folder)
    assert "going on from" in log(folder)
    assert digest(folder) == undisturbed
    if "LIT_RL_SLURM_LOG" in os.environ:
        with Path(os.environ["LIT_RL_SLURM_LOG"]).open("a") as file:
            file.write(f"== {disturb.__name__}\n{log(folder)}\n")


def test_each_seed_of_an_array_has_a_folder_and_weights_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "seeds"
    job = submit(folder, "--array=0-1%1")
    wait_for("the array", lambda: not command("squeue", "-h", "-j", job, "-o", "%i"))
    runs = sorted((folder / "runs" / "lit-rl").iterdir())
    assert [path.name for path in runs] == ["seed_0", "seed_1"], log(folder)
    assert digest(runs[0]) != digest(runs[1])
