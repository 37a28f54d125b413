"""Checks of configurations and typed arguments against the classes that they describe, before a parser builds any."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import yaml

from lit_rl.cli.shipped_configs import join_config_flags
from lit_rl.cli.verbs import RUNS
from lit_rl.errors import ArgumentError, UsageError, did_you_mean
from lit_rl.foreign_files import load_bounded_yaml
from lit_rl.signature_check import (
    OTHER_NAMES,
    CommandLineText,
    check_and_convert,
    check_and_convert_arguments,
    classes_by_name,
    constructor_parameters,
)

_FLAG = "--config="
_SECTIONS = (
    "model",
    "data",
    "trainer",
    "seed_everything",
    "run_dir",
    "validate_first",
    "ckpt_path",
    "weights_only",
    "verbose",
    "return_predictions",
)
_LISTS = ("--model.rewards", "--trainer.callbacks", "--data.validation_tasks", "--data.tasks")
_VERBS = ("fit", "validate", "test", "predict", "config")


def config_files_of(arguments: Sequence[str]) -> dict[str, Path]:
    """Return the files that ``--config`` names, in order, as absolute paths: the parser changes the working folder."""
    found = [word.removeprefix(_FLAG) for word in join_config_flags(arguments) if word.startswith(_FLAG)]
    return {name: Path(name).absolute() for name in found if Path(name).is_file()}


def replace_configs_by_parts(
    arguments: Sequence[str], part_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> list[str]:
    """Replace each configuration in the arguments by the part of it that the verb's parser knows.

    The parser then merges these parts as ``lit-rl fit`` merges configurations: in order, together with the arguments
    before, between and after them.
    """
    found: list[str] = []
    for word in join_config_flags(arguments):
        file = word.removeprefix(_FLAG)
        if file != word:
            part = part_of(load_bounded_yaml(Path(file).read_text(encoding="utf-8")) or {})
            word = f"{_FLAG}{json.dumps(part)}"
        found.append(word)
    return found


class _UniqueKeyLoader(yaml.SafeLoader):
    """Loader that refuses duplicate keys; YAML would silently keep the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        first: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in first:
                problem = f"{key.value} is given twice, first in line {first[key.value]}: keep one"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            first[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


def load_checked_config(name: str) -> dict[str, Any]:
    """Load a configuration, and raise an error if the file holds none."""
    try:
        content = yaml.load(Path(name).read_text(encoding="utf-8"), _UniqueKeyLoader)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        said, remedy = " ".join(str(error).split()), ""
        if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark):
            said = f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
            remedy = "; YAML indents with blanks, not tabs" if "\\t" in said else ""
            if error.context_mark and "flow" in (error.context or ""):
                remedy = (
                    f"; line {error.context_mark.line + 1} opens a bracket that is not closed, or a comma is missing"
                )
        raise UsageError(f"{name}, {said}{remedy}") from error
    if not isinstance(content, dict):
        got = "is empty" if content is None else f"holds {str(content)[:60]}"
        raise UsageError(f"{name} {got}: a configuration needs sections model and data; run lit-rl configs copy NAME")
    for section in content:
        first = str(section).partition(".")[0]
        if first not in (*_SECTIONS, *_VERBS):
            raise UsageError(f"{name}: there is no section {section}; {did_you_mean(first, _SECTIONS)}")
    return content


def check_and_expand_configs(arguments: Sequence[str], homes: Mapping[str, type], trainer: type) -> list[str]:
    """Check files and flags, in the order in which the parser reads them, against the classes that they describe.

    Return the arguments, with a class in place of each hub id or folder that stands for a class.
    """
    merged: dict[str, Any] = {}
    found: list[str] = []
    had_tasks = False
    words = join_flags_and_values(join_config_flags(arguments))
    for word in words:
        flag, _, text = word.partition("=")
        key, *below = flag.removeprefix("--").split(".")
        file = text if flag == "--config" and text[:1] != "{" and Path(text).is_file() else ""
        if file:
            layer: dict[str, Any] = load_checked_config(file)
        elif flag.startswith("--") and key in (*homes, "trainer") and "help" not in below and flag[-1] != "+":
            if flag in _LISTS and [one.partition("=")[0] for one in words].count(flag) > 1:
                raise UsageError(
                    f"{flag} is given twice, and only the last has an effect: give one list, {flag} '[A, B]'"
                )
            layer = {key: _nest_value([part for part in below if part != "init_args"], CommandLineText(text))}
        else:
            if words[0] in RUNS and flag.startswith("--") and key not in (*_SECTIONS, "config", "help", "print_config"):
                place = OTHER_NAMES.get(key)
                advice = f"write --model.{place}" if place else did_you_mean(key, _SECTIONS)
                raise UsageError(f"{flag} is unknown; {advice}")
            found.append(word)
            continue
        sources: list[str] = []
        try:
            for section in [one for one in layer if one in (*homes, "trainer")]:
                given = inline_init_args(layer[section], section)
                merged[section] = merge_flat_configs(merged.get(section), given)
                had_tasks |= section == "data" and _has_key_path(merged[section], ["validation_tasks"])
                stand_ins = _check_and_find_model_sources(section, merged[section], homes.get(section), trainer)
                sources += [key for key in stand_ins if _has_key_path(given, key.split(".")[1:])]
        except UsageError as error:
            raise UsageError(f"{file}: {error}" if file else str(error)) from error
        found.append(_expand_model_sources(word, layer, sources) if sources else word)
    task = find_class_or_none(str(merged["data"].get("class_path"))) if had_tasks and words[0] != "export" else None
    if task and "validation_tasks" in constructor_parameters(task) and "validation_tasks" not in merged["data"]:
        found.append("--data.validation_tasks=null")  # or the parser keeps the earlier task's
    for section in homes if words[0] in RUNS else ():  # other verbs need only one section
        if isinstance(given := merged.get(section), Mapping) and given and "class_path" not in given:
            raise UsageError(f"{section} names no class: give class_path, and {next(iter(given))} under init_args")
    return found


def _check_and_find_model_sources(section: str, value: Any, home: type | None, trainer: type) -> list[str]:
    """Check what is known of a section so far; return the keys at which a hub id or folder stands for a class."""
    if not isinstance(value, Mapping if home is None else CommandLineText | str | Mapping):
        raise ArgumentError(section, "keys and values" if home is None else "a class with its arguments", str(value))
    if home is None:
        check_and_convert_arguments(trainer, cast(Mapping[Any, Any], value), section)
        return []
    if isinstance(value, Mapping) and "class_path" not in value:
        return []  # the parser reports the missing class
    after = check_and_convert(value, home, section, config=True)
    return list(_changed_key_paths(value, after, section))


def _changed_key_paths(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before:
            yield from _changed_key_paths(before[key], after.get(key), f"{path}.{key}")
    elif (
        isinstance(before, str)
        and before[:1] != "{"
        and isinstance(after, Mapping)
        and before != after.get("class_path", before)
    ):
        yield path


def _expand_model_sources(word: str, layer: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return a file's or flag's argument, with ``CausalLM`` at each key where a hub id or folder stands for a class."""
    flag = word.partition("=")[0]
    content: Any = copy.deepcopy(dict(layer))
    for key in keys:
        *above, last = key.split(".")
        part = content
        for name in above:
            part = part.get("init_args", part)[name]
        part = part.get("init_args", part)
        part[last] = {
            "class_path": "lit_rl.models.CausalLM",
            "init_args": {"model": str(part[last]), "config": None, "tokenizer": None},
        }
        if flag == f"--{key}":
            return f"{flag}={json.dumps(part[last])}"
    return f"{_FLAG}{json.dumps(content)}" if flag == "--config" else word


def _has_key_path(value: Any, keys: Sequence[str]) -> bool:
    return not keys or (isinstance(value, Mapping) and keys[0] in value and _has_key_path(value[keys[0]], keys[1:]))


def join_flags_and_values(words: Sequence[str]) -> list[str]:
    """Join each ``--key value`` to ``--key=value``."""
    found: list[str] = []
    for word in words:
        if found and found[-1].startswith("--") and "=" not in found[-1] and not word.startswith("--"):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def _nest_value(keys: Sequence[str], value: Any) -> Any:
    return {keys[0]: _nest_value(keys[1:], value)} if keys else value


def inline_init_args(value: Any, path: str) -> Any:
    """Return a part of a configuration with each class's arguments moved from ``init_args`` beside ``class_path``."""
    if isinstance(value, CommandLineText) and value.lstrip()[:1] in ("{", "["):
        value = value.parse_yaml()
    if isinstance(value, list):
        return [inline_init_args(one, f"{path}[{number}]") for number, one in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    beside = value.keys() - {"class_path", "init_args", "dict_kwargs"} if "class_path" in value else ()
    for key in beside:
        raise UsageError(f"{path}: {key} is beside class_path: put it under init_args")
    arguments = value.get("init_args", {k: one for k, one in value.items() if k not in ("class_path", "dict_kwargs")})
    found = {key: inline_init_args(one, f"{path}.{key}") for key, one in (arguments or {}).items()}
    return {"class_path": value["class_path"], **found} if "class_path" in value else found


def merge_flat_configs(under: Any, over: Any) -> Any:
    """Merge a flat part of a configuration over an earlier part, as the parser does."""
    if isinstance(under, str) and isinstance(over, Mapping) and "class_path" not in over:
        read = under.parse_yaml() if isinstance(under, CommandLineText) else under
        under = inline_init_args(read, "") if isinstance(read, Mapping) else {"class_path": read}
    if isinstance(under, Mapping) and isinstance(over, str) and "class_path" in under and find_class_or_none(over):
        over = {"class_path": str(over)}
    if not isinstance(under, Mapping) or not isinstance(over, Mapping):
        return under if isinstance(under, list) and isinstance(over, Mapping) else over  # for its last item
    if over.get("class_path", under.get("class_path")) != under.get("class_path"):
        cls, before = (find_class_or_none(str(one.get("class_path"))) for one in (over, under))
        kept = constructor_parameters(cls) if cls is not None else {}
        other = {"validation_tasks"} if cls is not before else ()  # another task is validated on its own problems
        under = {key: one for key, one in under.items() if key in kept and key not in other}
    return {**under, **{key: merge_flat_configs(under.get(key), one) for key, one in over.items()}}


def find_class_or_none(name: str) -> type | None:
    """Return the class that a path, or a short name of this package, stands for; ``None`` for any other text."""
    module, _, short = name.rpartition(".")
    with suppress(Exception):
        found = getattr(import_module(module), short) if module else classes_by_name()[name]
        return found if isinstance(found, type) else None
    return None
