"""The public API is one: what ``lit_rl`` exports, what docs/api has an entry for, what the command line offers."""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lit_rl
from lit_rl.cli.main import main

DOCS = Path(__file__).parents[1] / "docs"
API = DOCS / "api"
ENTRY = re.compile(r"^::: (\S+)", re.MULTILINE)
BASES = {"SingleFileTask", "TranslatedTask"}
"""Parts that tasks of this package share; the parser offers every class that is derived from TaskDataModule."""


def found(path: str) -> Any:
    """Names that an entry of docs/api shows."""
    try:
        return import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name)


def exported(module: ModuleType) -> dict[str, Any]:
    """Names that a package exports; without ``__all__`` those that it, or a module below it, defines."""
    own = [name for name, one in vars(module).items() if getattr(one, "__module__", "").startswith(module.__name__)]
    return {name: getattr(module, name) for name in getattr(module, "__all__", own) if not name.startswith("_")}


@cache
def documented() -> dict[str, Any]:
    """Everything that docs/api has an entry for, by its name."""
    entries = {}
    for page in API.glob("*.md"):
        for path in ENTRY.findall(page.read_text("utf-8")):
            one = found(path)
            entries |= exported(one) if isinstance(one, ModuleType) else {path.rpartition(".")[2]: one}
    return entries


def test_whatever_lit_rl_exports_has_an_entry() -> None:
    exports = exported(lit_rl)
    assert {name for name, one in exports.items() if documented().get(name) is not one} == set()


def test_whatever_a_package_exports_has_one_name_and_an_entry_of_its_own() -> None:
    """Two things of one name, in two packages, would share a link and a key of a configuration."""
    pages = [found(path) for page in API.glob("*.md") for path in ENTRY.findall(page.read_text("utf-8"))]
    for page in pages:
        for name, one in exported(page).items() if isinstance(page, ModuleType) else ():
            assert documented()[name] is one, f"{page.__name__}.{name}"
            assert not inspect.isclass(one) or one.__name__ == name


@pytest.mark.parametrize("arguments", [["fit", "--help"], ["fit", "--model.help", "PPO"]])
def test_whatever_class_of_ours_the_command_line_offers_has_an_entry(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    said = " ".join(capsys.readouterr().out.split())
    offered = {name for names in re.findall(r"known subclasses: ([\w., ]+)\)", said) for name in names.split(", ")}
    ours = {name for name in offered if name.startswith("lit_rl.") and not name.startswith("lit_rl.cli.")}
    assert {"GRPO", "Basics", "Diagnostics"} <= {one.rpartition(".")[2] for one in ours} or "PPO" in arguments
    assert {"TestsReward", "CausalLM"} <= {one.rpartition(".")[2] for one in ours} or "PPO" not in arguments
    without = {name for name in ours if documented().get(name.rpartition(".")[2]) is not found(name)}
    assert {name.rpartition(".")[2] for name in without} <= BASES
