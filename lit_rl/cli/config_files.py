"""Checking configuration files before the parser reads them: its messages do not name the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml

import lit_rl.data
from lit_rl.arguments import LISTS, ArgumentError, UsageError, alternatives, arguments_at, arguments_of, fits, misfit
from lit_rl.cli.messages import suggestion
from lit_rl.cli.shipped_configs import in_one_word
from lit_rl.data.local_files import SUFFIXES
from lit_rl.foreign_files import load_yaml
from lit_rl.reports.run_files import settings_of

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
_LISTS = ("model.rewards", "trainer.callbacks", "data.validation_tasks", "data.tasks")
_VERBS = ("fit", "validate", "test", "predict", "config")
_MOST_CHANGED = 4


def files_of(arguments: Sequence[str]) -> dict[str, Path]:
    """The files that ``--config`` names, in order, each with its whole path: the parser changes the folder."""
    found = [word.removeprefix(_FLAG) for word in in_one_word(arguments) if word.startswith(_FLAG)]
    return {name: Path(name).absolute() for name in found if Path(name).is_file()}


def with_parts(
    arguments: Sequence[str], part_of: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> tuple[list[str], dict[str, Mapping[str, Any]]]:
    """Arguments with a part of each configuration in its place, for a verb whose parser does not know the rest.

    The parser's own action for configurations merges the parts as those of ``lit-rl fit``: in order, with what is
    given before, between and after them.

    Args:
        arguments: of the verb.
        part_of: from what a file holds to what the verb needs of it.

    Returns:
        The arguments, in which ``--config FILE`` became ``--config={...}``, and the part of each file.

    Raises:
        ValueError: ``--config`` without a file.
    """
    found: list[str] = []
    parts: dict[str, Mapping[str, Any]] = {}
    for word in in_one_word(arguments):
        if word in ("--config", "-c", _FLAG):
            raise UsageError(f"{word} needs a value: give a file after it")
        file = word.removeprefix(_FLAG)
        if file != word:
            parts[file] = part_of(load_yaml(Path(file).read_text(encoding="utf-8")) or {})
            word = f"{_FLAG}{json.dumps(parts[file])}"
        found.append(word)
    return found, parts


class _UniqueKeyLoader(yaml.SafeLoader):
    """Loader that refuses duplicate keys, of which YAML silently keeps the last."""

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


def check_file(name: str) -> dict[str, Any]:
    """Check whether a file is a configuration.

    Returns:
        Its content.

    Raises:
        ValueError: it is empty, not YAML, not a mapping, or has a key twice or an unknown section; the message names
            the file.
    """
    try:
        content = yaml.load(Path(name).read_text(encoding="utf-8"), _UniqueKeyLoader)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}: give the path of a YAML file") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text: a configuration is a YAML file") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        remedy = "; YAML indents with blanks, not tabs" if "\\t" in (error.problem or "") else ""
        if error.context_mark and "flow" in (error.context or ""):
            remedy = f"; line {error.context_mark.line + 1} opens a bracket that is not closed, or a comma is missing"
        raise UsageError(f"{name}{position}: {error.problem or error.context or 'not YAML'}{remedy}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{name}: {' '.join(str(error).split())}") from error
    if content is None:
        raise UsageError(f"{name} is empty: a configuration has the sections model and data (lit-rl configs copy NAME)")
    if not isinstance(content, dict):
        raise UsageError(
            f"{name} is not a configuration: expected sections such as model and data, got {str(content)[:60]}"
        )
    for section in content:
        first = str(section).partition(".")[0]
        if first not in (*_SECTIONS, *_VERBS):
            raise UsageError(f"{name}: there is no section {section}{suggestion(first, _SECTIONS)}")
    return content


def check_files(names: Iterable[str], given: Sequence[str], trainer: type) -> None:
    """Check the keys, classes and lists of configurations, as far as the classes of this package say what they take.

    Args:
        names: of the files, in the order in which they are read.
        given: the whole command; ``--model GRPO`` names a class that the files need not name.
        trainer: class whose arguments the section ``trainer`` has.

    Raises:
        ValueError: the message names the file and the key, or the list that is given twice.
    """
    words = [word.partition("=")[0].removeprefix("--") for word in given]
    for name in _LISTS:
        if words.count(name) > 1:
            raise UsageError(f"--{name} is given twice, and the last one counts: give one list, --{name} '[A, B]'")
    for word, following in zip(given, [*given[1:], ""], strict=True):
        flag, equals, inside = word.partition("=")
        if flag in ("--data", "--held_out"):
            _require_no_rows(flag, inside if equals else following)
    named: dict[str, str | None] = {section: None for section in ("model", "data") if section in words}
    for name in names:
        content = check_file(name)
        for section in ("model", "data"):
            value = content.get(section, {})
            if section == "data":
                _require_no_rows(f"{name}: data", value)
            if section in named and value is None:
                raise UsageError(f"{name}: {section} is null, and would drop what was given before: leave it out")
            keys = value.keys() if isinstance(value, dict) else ()
            if {str(key).partition(".")[0] for key in keys} & {"class_path", "init_args"}:
                named[section] = value.get("class_path", named.get(section))
            elif keys and section not in named:
                raise UsageError(
                    f"{name}: {section} names no class: give class_path, and {next(iter(keys))} under init_args"
                )
            if keys and "class_path" not in keys and named[section] is not None:  # adds to an earlier file's arguments
                value = {"class_path": named[section], "init_args": value.get("init_args", value)}
            _check_value(f"{name}: {section}", value, Any)
        _check_keys(f"{name}: trainer", content.get("trainer"), trainer, closed=True)


def overridden(files: Mapping[str, Path]) -> Iterator[str]:
    """Yield a line for each whole configuration that comes after other files and changes what they set."""
    before: dict[str, str] = {}
    earlier: list[str] = []
    for path in files.values():
        content = check_file(str(path))
        settings = {name.replace("init_args.", ""): value for name, value in settings_of(content).items()}
        changed = [name for name, value in settings.items() if before.get(name, value) != value]
        if changed and all("class_path" in (content.get(section) or {}) for section in ("model", "data")):
            names = ", ".join(changed[:_MOST_CHANGED]) + (", ..." if len(changed) > _MOST_CHANGED else "")
            yield (
                f"{path.name} comes after {' and '.join(earlier)} and overrides {names}: the last --config counts, so "
                "give the one that changes others last"
            )
        before |= settings
        earlier.append(path.name)


def _require_no_rows(where: str, value: Any) -> None:
    """Refuse a file of rows where the class is named that reads it."""
    if isinstance(value, str) and value.endswith(SUFFIXES) and not value.endswith(".json"):  # may be a section
        readers = [name for name in lit_rl.data.__all__ if "path" in arguments_at(f"lit_rl.data.{name}")]
        remedy = (
            f"name the class that reads it, such as --data MBPP --data.path {value}; {', '.join(readers)} have a path"
        )
        raise ArgumentError(where, "a class", value, remedy)


def _check_value(where: str, value: Any, hint: Any) -> None:
    """Check the shape of a value, where the parser's own message would not say what is wrong.

    Args:
        where: the file and the dotted key.
        value: as YAML reads it.
        hint: the type that the constructor's argument has.

    Raises:
        ValueError: a key that a group does not have, a key beside ``class_path``, or one object where a list is needed.
    """
    kinds = list(alternatives(hint))
    items = next((get_args(kind)[0] for kind in kinds if get_origin(kind) in LISTS), None)
    if isinstance(value, list) and items is not None:
        for number, one in enumerate(value):
            _check_value(f"{where}[{number}]", one, items)
        return
    if items is str and isinstance(value, str) and not value.startswith("[") and not fits(value, hint):
        raise misfit(where, hint, value)
    path = value.get("class_path") if isinstance(value, dict) else value
    cls = _class_of(path) if isinstance(path, str) else None
    if isinstance(value, dict) and path is not None:
        for key in value.keys() - {"class_path", "init_args", "dict_kwargs"}:
            raise UsageError(f"{where}: {key} is beside class_path: put it under init_args")
        _check_keys(where, value.get("init_args"), cls)
    of_kind = cls is not None and any(isinstance(kind, type) and issubclass(cls, kind) for kind in kinds)
    of_items = cls is not None and items is not None and any(issubclass(cls, one) for one in alternatives(items))
    if of_items and not of_kind:
        raise ArgumentError(where, "a list", str(path), "put it into a list, with - before it")
    groups = [kind for kind in kinds if isinstance(kind, type) and kind.__module__.startswith("lit_rl.")]
    if isinstance(value, dict) and path is None and "init_args" not in value:
        known = {key for kind in groups for key in arguments_of(kind)}
        for key in value if groups else ():
            if not isinstance(key, str):
                raise ArgumentError(where, "names as keys", str(key), f"a number has a point: 0.{key}, not 0,{key}")
        named = next((key for key in value if key not in known and isinstance(key, str) and _class_of(key)), None)
        if named is not None:
            raise UsageError(f"{where}: {named} is a class: write class_path: {named} and init_args")
        if groups and is_dataclass(groups[0]):
            _check_keys(where, value, groups[0], closed=True)


def _check_keys(where: str, arguments: Any, cls: type | None, *, closed: bool = False) -> None:
    """Check the values that a class is given by key, and where it is closed the keys; else those are the parser's."""
    if not isinstance(arguments, dict) or cls is None:
        return
    known = arguments_of(cls)
    for key, value in arguments.items():
        name = str(key).partition(".")[0]
        if name in known:
            _check_value(f"{where}.{key}", value, known[name].annotation if name == key else Any)
        elif closed:
            raise UsageError(f"{where}.{key} is unknown to {cls.__name__}{suggestion(name, known)}")


_HOMES = (
    "modules",
    "data",
    "rewards",
    "models",
    "callbacks",
    "rollout",
    "engines",
    "execution",
    "losses",
    "advantages",
)


def _class_of(path: str) -> type | None:
    """Return a class of this package or of Lightning by its path or short name; ``None`` for any other."""
    if not all(part.isidentifier() for part in path.split(".")):  # ../a.b is no module
        return None
    module, _, name = path.rpartition(".")
    homes = [module] if module else [f"lit_rl.{home}" for home in _HOMES]
    for home in homes if module.partition(".")[0] in ("", "lit_rl", "lightning") else ():
        with suppress(ImportError):
            found = getattr(import_module(home), name, None)
            if isinstance(found, type):
                return found
    return None


def check_groups(section: str, class_path: str, arguments: Mapping[str, Any]) -> None:
    """Check whether arguments whose default is a group of keys got keys and values.

    Args:
        section: ``model`` or ``data``.
        class_path: whose arguments these are.
        arguments: as the parser read them.

    Raises:
        ValueError: one of them is a list or a text; the message names it and its keys.
    """
    parameters = arguments_at(class_path)
    for key, value in arguments.items():
        default = parameters[key].default if key in parameters else None
        if is_dataclass(default) and isinstance(value, list | str | int | float | None):
            keys = ", ".join(field.name for field in fields(default))
            got = "null" if value is None else str(value)
            raise ArgumentError(f"{section}.{key}", "keys and values", got, f"its keys are {keys}")
