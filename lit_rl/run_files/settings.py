"""Read the settings that LightningCLI saves, compare those of several runs, and list what a resume changes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lit_rl.errors import ArgumentError
from lit_rl.foreign_files import load_bounded_yaml, open_regular_file

CONFIG_FILE = "config.yaml"
NOT_SET = "not set"
_NULL = "null"
_SEED = "seed_everything"
_LOCATIONS = (
    "run_dir",
    "ckpt_path",
    "trainer.logger",
    "trainer.default_root_dir",
    "trainer.callbacks.Checkpointing.folder",
)
"""Settings that say where a run is saved; they are left out."""

_KNOWN = ("lit_rl", "torch", "lightning")
"""Packages whose classes are called by their short names."""

_MAX_LENGTH = 80
_MAX_VALUE = 1 << 20
"""Largest number of bytes that are read of a configuration: those of real runs have some thousands."""


class SettingChange(NamedTuple):
    """A setting that a resumed run was given anew; it is in force unless ``why_ignored`` says why it is ignored."""

    name: str
    was: str
    given: str
    why_ignored: str

    def __str__(self) -> str:
        """Return the line that is printed."""
        effect = f"ignored: {self.why_ignored}" if self.why_ignored else "in force from now on"
        return f"{self.name}: {self.was} -> {self.given}, {effect}"


def read_settings(folder: Path) -> dict[str, str]:
    """Return every setting of a command-line run by name; empty without a file that can be read."""
    try:
        with open_regular_file(folder / CONFIG_FILE) as file:
            return setting_texts_by_name(file.read(_MAX_VALUE).decode())
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return {}


def setting_texts_by_name(config: str | Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a configuration (YAML or parsed) by name, without those that say where a run is saved."""
    read = load_bounded_yaml(config) if isinstance(config, str) else config
    flat = dict(_flatten_config("", read, _one_line_text)) if isinstance(read, Mapping) else {}
    return {name: text for name, text in flat.items() if not name.startswith(_LOCATIONS)}


def setting_values_by_name(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return every setting of a configuration by name, like :func:`setting_texts_by_name`; numbers stay numbers."""
    return dict(_flatten_config("", config, lambda value: value))


def settings_without_seeds(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without seeds; they are equal for runs that differ only in seeds."""
    return {name: value for name, value in settings.items() if not _is_seed(name)}


def settings_that_differ(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, list[str]]]:
    """Return, by name, each setting that differs between runs, with the runs that have each of its values.

    The trainer's settings come after all others, and seeds come last. A run that lacks a setting that it could have
    has the value :data:`NOT_SET`. An argument is compared only between runs whose class takes it. Seeds that repeat
    ``seed_everything`` in every run are left out.
    """
    known = _expand_null_groups({run: of_run for run, of_run in settings.items() if of_run})
    names = dict.fromkeys(name for of_run in known.values() for name in of_run)
    found = {}
    for name in sorted(names, key=lambda name: 2 if _is_seed(name) else int(name.startswith("trainer."))):
        owner = name.rpartition(".")[0]  # the setting whose class has this argument, if there is one
        while owner and owner not in names:
            owner = owner.rpartition(".")[0]
        owners = {of_run.get(owner) for of_run in known.values() if name in of_run}
        runs: dict[str, list[str]] = {}
        for run, of_run in known.items():
            if name in of_run or of_run.get(owner) in owners:
                runs.setdefault(of_run.get(name, NOT_SET), []).append(run)
        repeats = name != _SEED and _is_seed(name) and all(one.get(name) == one.get(_SEED) for one in known.values())
        if len(runs) > 1 and not repeats:
            found[name] = runs
    return found


_OF_CHECKPOINT = {
    "model.update.optimizer.": "the checkpoint's optimizer keeps its own value",
    "model.critic_update.learning_rate": "the checkpoint's optimizer keeps its own value",
}
"""Beginnings of settings that a checkpoint brings itself, and why changing them has no effect."""

_OF_WEIGHTS = ("model.policy.model", "model.policy.init_seed")
"""Settings that are ignored if the checkpoint holds all weights; it lacks frozen weights below adapters."""

_FIXED = re.compile(
    r"model\.(update\.optimizer|policy\.config(\..*)?|policy\.lora\.(rank|target_modules)|critic(\.config(\..*)?)?)"
)
"""Settings that decide which objects a checkpoint's state belongs to."""

_OF_TEXTS = ("SFT", "DPO")
"""Methods that count updates: their checkpoints count no rollouts."""


def setting_changes_on_resume(before: str | Mapping[str, Any], now: str | Mapping[str, Any]) -> list[SettingChange]:
    """Return each setting that differs from the start before, with the reason if the change is ignored."""
    old, new = setting_texts_by_name(before), setting_texts_by_name(now)
    changes = []
    for name in settings_that_differ({"before": old, "now": new}):
        was, given = old.get(name, NOT_SET), new.get(name, NOT_SET)
        other_kind = "PPO" in (was, given) or (was in _OF_TEXTS) != (given in _OF_TEXTS)
        if _FIXED.fullmatch(name) or (name == "model" and other_kind):
            remedy = (
                "keep that value, give this run another folder, or run lit-rl export on the earlier run and give the "
                "exported folder as model.policy.model"
            )
            raise ArgumentError(name, f"{was}, whose state the checkpoint holds", given, remedy)
        why = next((reason for prefix, reason in _OF_CHECKPOINT.items() if name.startswith(prefix)), "")
        if name in _OF_WEIGHTS and not any(key.startswith("model.policy.lora.") for key in new):
            why = "the weights are the checkpoint's"
        changes.append(SettingChange(name, was, given, why))
    return changes


def locate_setting(config: Any, name: str) -> tuple[str, Any]:
    """Return the whole key and the value of a setting in a configuration; its path must not lead through a list."""
    keys: list[str] = []
    for key in name.split("."):
        for step in ["init_args", key] if "class_path" in config else [key]:
            config = config[step]
            keys.append(step)
    return ".".join(keys), config


def _expand_null_groups(settings: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Replace a null group by its settings as null: a run without ``lora`` gets ``lora.rank`` as null."""
    names = dict.fromkeys(name for of_run in settings.values() for name in of_run)
    groups = {name: [other for other in names if other.startswith(f"{name}.")] for name in names}
    classes = {name for of_run in settings.values() for name, value in of_run.items() if value != _NULL}
    aligned = {}
    for run, of_run in settings.items():
        null = {name for name in of_run if groups[name] and name not in classes}
        spread = {name: _NULL for group in null for name in groups[group]}
        aligned[run] = {name: value for name, value in of_run.items() if name not in null} | spread
    return aligned


def _is_seed(name: str) -> bool:
    last = name.rpartition(".")[2]
    return name == _SEED or last == "seed" or last.endswith("_seed")


def _flatten_config(name: str, value: Any, form: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values below a part of the configuration, each value as ``form`` returns it."""
    if isinstance(value, Mapping) and "class_path" in value:
        yield name, _short_class_name(value)
        for key, part in (value.get("init_args") or {}).items():
            yield from _flatten_config(f"{name}.{key}", part, form)
    elif isinstance(value, Mapping) and (value or not name):
        for key, part in value.items():
            yield from _flatten_config(f"{name}.{key}" if name else str(key), part, form)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) and "class_path" in one for one in value):
        yield name, ", ".join(map(_short_class_name, value))
        short = [str(one["class_path"]).rpartition(".")[2] for one in value]
        for place, (label, one) in enumerate(zip(short, value, strict=True)):
            if short.count(label) > 1:
                label = f"{label}.{short[:place].count(label)}"
            for key, part in (one.get("init_args") or {}).items():
                yield from _flatten_config(f"{name}.{label}.{key}", part, form)
    else:
        yield name, form(value)


def _short_class_name(value: Mapping[str, Any]) -> str:
    path = str(value["class_path"])
    return path.rpartition(".")[2] if path.startswith(tuple(f"{package}." for package in _KNOWN)) else path


def _one_line_text(value: Any) -> str:
    text = value if isinstance(value, str) and value and value.isprintable() else json.dumps(value, default=str)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 4]} ..."
