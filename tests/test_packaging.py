"""Shipped files are those in the tree, and imports go down."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Collection
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


def test_the_link_points_at_the_folder_and_the_name_guard_holds() -> None:
    link = ROOT / "lit_rl" / "callbacks"
    assert link.is_symlink()
    assert link.resolve() == ROOT / "callbacks"
    run = subprocess.run([sys.executable, "-c", "import callbacks"], cwd=ROOT, capture_output=True, text=True)
    assert "import lit_rl.callbacks, not callbacks" in run.stderr


def test_floors_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([tool], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:]
    assert "0 broken" in run.stdout


def test_no_files_import_each_other_not_even_inside_functions() -> None:
    files = {_module(path): path for path in (ROOT / "lit_rl").rglob("*.py")}
    files |= {_module(path): path for path in (ROOT / "lit_rl" / "callbacks").glob("*.py")}
    imports = {name: _imports(path, files) - {name} for name, path in files.items()}
    assert [name for name in files if name in _reached(name, imports)] == []


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path, files: Collection[str]) -> set[str]:
    """Files that a file imports anywhere: in functions and for type checkers, too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{name.name}" for name in node.names}
            found |= {name if name in files else str(node.module) for name in whole}
    return found & set(files)


def _reached(start: str, imports: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(imports[start])
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += imports[name]
    return reached


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
