"""The job with vLLM nodes, with a scheduler's commands played by scripts: who runs where, and when it is requeued."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "configs/slurm/fit_with_vllm.sbatch"
SRUN = """#!/usr/bin/env bash
echo "$@" >> $CALLS
if [[ "$*" == *api_server* ]]; then
  [[ $SERVER == dies ]] && exit 1
  exec sleep 30
fi
printf '%s\\n' "$@" > $CALLS.words  # of the trainer alone
sleep 0.3
exit $STATUS
"""
SCONTROL = """#!/usr/bin/env bash
echo "scontrol $@" >> $CALLS
[[ $1 == show ]] && printf 'n%s\\n' $(seq $NODES)
[[ $1 == requeue ]] && kill -9 $PPID
exit 0
"""


def submit(folder: Path, **told: str) -> tuple[int, list[str], str]:
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "CALLS": str(folder / "calls")}
    environment |= {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "j", "SLURM_JOB_NODELIST": "n[1-3]", "NODES": "3"}
    environment |= {"SLURM_NTASKS_PER_NODE": "8", "SLURM_GPUS_ON_NODE": "4", "STATUS": "0", "SERVER": "lives"}
    environment |= {"VLLM_MODEL": "hub/model"} | told
    words = ["bash", str(SCRIPT), "--config", "my.yaml"]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    calls = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    return done.returncode, calls, done.stdout + done.stderr


def test_the_last_nodes_are_servers_and_the_trainer_is_told_where(tmp_path: Path) -> None:
    status, calls, _ = submit(tmp_path, VLLM_NODES="2")
    assert status == 0
    (server,) = [call for call in calls if "api_server" in call]
    (trainer,) = [call for call in calls if "lit-rl fit" in call]
    assert "--nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=n2,n3" in server
    assert "--model hub/model --port 8000 --enable-scale-out --logprobs-mode processed_logprobs" in server
    assert "--tensor-parallel-size 4" in server
    assert "--nodes=1 --ntasks=8 --nodelist=n1" in trainer
    assert "fit --config my.yaml --trainer.devices 8 --trainer.num_nodes 1" in trainer
    assert "--model.collect.engine.url [http://n2:8000,http://n3:8000]" in trainer
    assert (
        f"--model.collect.engine.folder {tmp_path}/runs/j/weights" in trainer and (tmp_path / "runs/j/weights").is_dir()
    )


@pytest.mark.parametrize(
    ("status", "server", "restarts", "requeued"),
    [
        ("75", "lives", "0", True),
        ("1", "dies", "0", True),
        ("1", "dies", "3", False),
        ("1", "lives", "0", False),
        ("0", "dies", "0", False),
    ],
)
def test_a_job_is_requeued_when_it_was_stopped_or_lost_its_server(
    tmp_path: Path, status: str, server: str, restarts: str, requeued: bool
) -> None:
    ended, calls, _ = submit(tmp_path, STATUS=status, SERVER=server, SLURM_RESTART_COUNT=restarts)
    assert ("scontrol requeue 7" in calls) == requeued
    assert requeued or ended == int(status)


def test_a_command_of_several_words_starts_the_run(tmp_path: Path) -> None:
    """As in a container."""
    status, _, _ = submit(tmp_path, LIT_RL="apptainer exec image.sif lit-rl")
    words = (tmp_path / "calls.words").read_text().splitlines()
    assert status == 0
    assert words[words.index("apptainer") :][:5] == ["apptainer", "exec", "image.sif", "lit-rl", "fit"]
