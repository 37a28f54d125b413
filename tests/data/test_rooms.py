"""A task's room: its checks and judges start with the standard library alone, and the core loads no task."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lit_rl

ROOT = Path(lit_rl.__file__).parents[1]
JUDGES = ("lit_rl.data.numerical.build_judge", "lit_rl.data.robots.robot_judge")


@pytest.mark.parametrize("module", JUDGES)
def test_a_task_s_judge_needs_the_standard_library_alone(module: str) -> None:
    code = f"import sys; sys.path.append({str(ROOT)!r}); import {module}; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (run.stdout.strip(), run.stderr) == ("False", "")


def test_the_core_loads_no_task() -> None:
    core = ", ".join(f"lit_rl.{name}" for name in ("execution", "rewards", "models", "modules", "rollout", "data.task"))
    code = f"import sys, {core}; print(*(name for name in sys.modules if name.startswith('lit_rl.data.')))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    rooms = {name.split(".")[2] for name in run.stdout.split()}
    assert not rooms & {"basics", "contests", "numerical", "robots", "toys", "humaneval", "mbpp"}
