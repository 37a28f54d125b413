"""The settings of a run, as LightningCLI saves them beside its numbers, and what differs between runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

CONFIG_FILE = "config.yaml"
_PLACES = (
    "run_dir",
    "ckpt_path",
    "trainer.logger",
    "trainer.default_root_dir",
    "trainer.callbacks.Checkpointing.folder",
)
"""Where a run is saved says nothing of what it is."""

_SEED = "seed_everything"


class Difference(NamedTuple):
    """A setting that some runs have otherwise than others.

    Args:
        name: as the command line takes it, such as ``model.optimizer.lr``.
        runs: by value, the names of the runs that have it; the value is empty where it is not set.
    """

    name: str
    runs: Mapping[str, Sequence[str]]


def read_settings(folder: Path) -> dict[str, str]:
    """Every setting of a run by its name; empty for a run that was made in Python, or whose file cannot be read.

    Args:
        folder: of its numbers.
    """
    try:
        config = yaml.safe_load((folder / CONFIG_FILE).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return {name: text for name, text in _flat("", config) if not name.startswith(_PLACES)}


def without_seeds(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that runs of another seed have, too."""
    return {name: value for name, value in settings.items() if not _is_seed(name)}


def differences(settings: Mapping[str, Mapping[str, str]]) -> list[Difference]:
    """What is not alike in all runs; the trainer's settings and seeds last.

    Left out are seeds that follow from the run's own, and arguments that a run lacks because its class is another one.

    Args:
        settings: by the name of the run; runs without any are not compared.
    """
    known = {run: of_run for run, of_run in settings.items() if of_run}
    names = sorted(dict.fromkeys(name for of_run in known.values() for name in of_run), key=_rank)
    differing = {}
    for name in names:
        runs: dict[str, list[str]] = {}
        for run, of_run in known.items():
            runs.setdefault(of_run.get(name, ""), []).append(run)
        if len(runs) > 1:
            differing[name] = runs
    return [
        Difference(name, runs)
        for name, runs in differing.items()
        if not _follows(name, known.values()) and not ("" in runs and _owner(name, names) in differing)
    ]


def _follows(name: str, settings: Collection[Mapping[str, str]]) -> bool:
    """Whether this is a seed that is the run's own in each run."""
    return name != _SEED and _is_seed(name) and all(one.get(name) == one.get(_SEED) for one in settings)


def _owner(name: str, names: Collection[str]) -> str:
    """The class, by the name of its setting, that has this argument; empty if it is no argument of a class."""
    while name:
        name = name.rpartition(".")[0]
        if name in names:
            return name
    return ""


def _rank(name: str) -> int:
    """What is trained before how, and seeds last."""
    return 2 if _is_seed(name) else int(name.startswith("trainer."))


def _is_seed(name: str) -> bool:
    last = name.rpartition(".")[2]
    return name == _SEED or last == "seed" or last.endswith("_seed")


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Names and values below a part of the configuration; classes by their short names."""
    if isinstance(value, Mapping) and "class_path" in value:
        yield name, _short(value)
        yield from _flat(name, value.get("init_args") or {})
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), part)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) and "class_path" in one for one in value):
        yield name, ", ".join(map(_short, value))
        for one in value:
            yield from _flat(f"{name}.{_short(one)}", one.get("init_args") or {})
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value, default=str)


def _short(value: Mapping[str, Any]) -> str:
    return str(value["class_path"]).rpartition(".")[2]
