"""The size of the library, which may fall and not grow unseen: raise a number here only with a reason in the change."""

from __future__ import annotations

import ast
import inspect
import tomllib
from pathlib import Path

import lightning.pytorch as pl
import pytest

from lit_rl.modules import DPO, GRPO, PPO, REINFORCE, SFT

ROOT = Path(__file__).parents[1]
FILES = [*(ROOT / "lit_rl").rglob("*.py"), *(ROOT / "callbacks").glob("*.py")]
"""``rglob`` does not follow the link from ``lit_rl/callbacks``."""


def lines_of(files: list[Path]) -> int:
    return sum(len(file.read_text().splitlines()) for file in files)


def test_the_library_grows_by_nothing_that_is_not_wanted() -> None:
    statements = sum(isinstance(node, ast.stmt) for file in FILES for node in ast.walk(ast.parse(file.read_text())))
    assert len(FILES) <= 289
    assert lines_of(FILES) <= 56_086
    assert statements <= 31_623
    assert lines_of(list((ROOT / "tests").rglob("*.py"))) <= 46_995


def test_few_files_stand_at_the_top() -> None:
    assert len(list((ROOT / "lit_rl").glob("*.py"))) <= 12


def test_imports_have_few_floors() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (floors,) = [one["layers"] for one in contracts if one["type"] == "layers"]
    assert len(floors) <= 12


@pytest.mark.parametrize(("algorithm", "most"), [(GRPO, 12), (PPO, 14), (REINFORCE, 14), (SFT, 12), (DPO, 12)])
def test_an_algorithm_is_near_lightning_and_shows_few_arguments(algorithm: type, most: int) -> None:
    """Settings are in groups, and nothing is handed on that the signature does not name."""
    parameters = inspect.signature(algorithm).parameters.values()
    assert len(parameters) <= most
    assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in parameters)
    assert algorithm.__mro__.index(pl.LightningModule) <= 4, "three classes at most in between"
