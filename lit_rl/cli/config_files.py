"""Checking configuration files before the parser reads them: its messages do not name the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from lit_rl.arguments import ArgumentError, UsageError
from lit_rl.cli.messages import suggestion
from lit_rl.renamed import arguments_at

_FLAGS = ("--config", "-c")
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
_VERBS = ("fit", "validate", "test", "predict", "config")


def files_of(arguments: Sequence[str]) -> list[str]:
    """The files that ``--config`` names, in order."""
    found = []
    for flag, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, equals, value = flag.partition("=")
        if name in _FLAGS:
            found.append(value if equals else following)
    return [name for name in found if Path(name).is_file()]


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
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in _FLAGS:
            found.append(argument)
            continue
        file = value if equals else next(rest, None)
        if not file:
            raise UsageError(f"{name} needs a value: give a file after it")
        parts[file] = part_of(yaml.safe_load(Path(file).read_text(encoding="utf-8")) or {})
        found.append(f"--config={json.dumps(parts[file])}")
    return found, parts


def check_file(name: str) -> None:
    """Check whether a file is a configuration.

    Raises:
        ValueError: it is empty, not YAML, not a mapping, or has an unknown section; the message names the file.
    """
    try:
        content = yaml.safe_load(Path(name).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text: a configuration is a YAML file") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UsageError(f"{name}{position}: {error.problem or error.context or 'not YAML'}") from error
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
        if is_dataclass(default) and isinstance(value, list | str | int | float):
            keys = ", ".join(field.name for field in fields(default))
            raise ArgumentError(f"{section}.{key}", "keys and values", str(value), f"its keys are {keys}")
