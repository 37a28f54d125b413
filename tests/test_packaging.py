"""Shipped files are those in the tree; the sandbox and the judges start without torch."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages_in_the_tree() -> set[str]:
    folders = {file.parent for file in (ROOT / "lit_rl").rglob("__init__.py")}
    return {".".join(folder.relative_to(ROOT).parts) for folder in folders} | {
        "lit_rl.callbacks",
        "lit_rl.configs",
        "lit_rl.docs",
    }


def test_every_package_of_the_tree_is_listed() -> None:
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages_in_the_tree()


def test_execution_starts_without_torch() -> None:
    code = "import lit_rl.execution, sys; print([m for m in ('torch', 'numpy', 'lightning') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_wheel_holds_callbacks_and_package_data(wheel: Path) -> None:
    names = {str(file.relative_to(wheel)) for file in wheel.rglob("*")}
    assert {"lit_rl/callbacks/__init__.py", "lit_rl/callbacks/execution_evaluation.py", "lit_rl/py.typed"} <= names
    for pattern in PROJECT["tool"]["setuptools"]["package-data"]["lit_rl"]:
        for file in (ROOT / "lit_rl").glob(pattern):
            assert str(file.relative_to(ROOT)) in names
    sources = {str(f.relative_to(ROOT)) for f in (ROOT / "lit_rl").rglob("*.py") if "callbacks" not in f.parts}
    assert sources <= names


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
