"""Describes modules, policies and tasks as configurations, and builds a module from its checkpoint's configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from os.path import commonprefix
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, ArgumentParser, set_parsing_settings
from jsonargparse._common import parsing_settings  # public functions add to the settings, but take nothing back
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from lit_rl.data.task import PLACEHOLDER, TaskDataModule
from lit_rl.errors import UsageError
from lit_rl.models.policy import Policy
from lit_rl.signature_check import ArgumentChecks, constructor_parameters


def policy_config_json(module: object, policy: Policy) -> str | None:
    """Return the part of a configuration that builds a module's policy, as JSON; ``None`` if the policy cannot tell."""
    arguments = policy.constructor_arguments()
    if arguments is None:
        return None
    described = {"class_path": _class_path_of(policy), "init_args": arguments}
    config = {"model": {"class_path": _class_path_of(module), "init_args": {"policy": described}}}
    return json.dumps(config, default=lambda value: dict(value) if isinstance(value, Mapping) else str(value))


def describe_task_prompts(task: TaskDataModule | None) -> dict[str, Any] | None:
    """Describe a task's prompts: its name, its chat with a placeholder for the problem, and all stop strings."""
    problems = [] if task is None else task.problems("train")
    if task is None or not problems:
        return None
    stops = dict.fromkeys(stop for problem in problems for stop in problem.stop_strings)
    chats = [one.prompt for one in problems[:100] if not isinstance(one.prompt, str)]
    messages = zip(*chats, strict=True) if len({len(chat) for chat in chats}) == 1 else ()
    chat = [{**same[0], "content": _common_template([one["content"] for one in same])} for same in messages]
    return {"name": task.name, "chat": task.chat or chat, "stop_strings": list(stops)}


def _common_template(texts: list[str]) -> str:
    start = commonprefix(texts)  # noqa: RUF071  # characters are meant, not folders
    end = commonprefix([text[len(start) :][::-1] for text in texts])[::-1]  # noqa: RUF071
    return start if len({*texts}) == 1 else f"{start}{PLACEHOLDER}{end}"


def module_from_config(base: type, checkpoint: Mapping[str, Any], path: str | Path, trust: Iterable[str] = ()) -> Any:
    """Build the module that a checkpoint's configuration describes."""
    if not checkpoint.get("config"):
        raise UsageError(
            f"{path} holds no configuration (it was not made by lit-rl fit): give the algorithm's arguments, at "
            "least policy"
        )
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(base, "model")
    config = yaml.safe_load(checkpoint["config"])
    with restrict_config_imports(trust, str(path), "if you trust who made it, name the module in trust=[...]"):
        return parser.instantiate_classes(parser.parse_object({"model": config["model"]})).model


_MAX_ITEMS = 20
"""Largest number of items of a list in a description: a task of the user's own may hold its problems."""


def to_config(part: Any) -> Any:
    """Return a part as a configuration has it, from the attributes that have the names of its arguments."""
    if part is None or isinstance(part, str | int | float):
        return part
    if isinstance(part, Mapping):
        return {str(key): to_config(one) for key, one in part.items()}
    if isinstance(part, list | tuple):
        return [to_config(one) for one in part[:_MAX_ITEMS]]
    if hasattr(part, "__qualname__"):  # a class or a function
        return str(part.__qualname__)
    arguments: Mapping[str, Any] = {}
    if isinstance(part, Policy):
        arguments = part.constructor_arguments() or {}
    elif isinstance(part, Optimizer):
        arguments = part.defaults
    elif isinstance(part, ArgumentChecks | LRScheduler) or is_dataclass(part):
        kind: Any = type(part)
        arguments = {
            one: getattr(part, one) for one in constructor_parameters(kind) if one != "optimizer" and hasattr(part, one)
        }
    is_group = is_dataclass(part) and not isinstance(part, ArgumentChecks)
    return to_config(arguments) if is_group else {"class_path": _class_path_of(part), "init_args": to_config(arguments)}


_OURS = ("lit_rl", "torch.optim", "bitsandbytes.optim")
"""Modules that the configuration in any file may name: our parts, and optimizers with their schedules."""


@contextmanager
def restrict_config_imports(named: Iterable[str], source: str, remedy: str) -> Iterator[None]:
    """Import and build nothing that a configuration names, except our classes, optimizers, and what ``named`` lists.

    A checkpoint or the folder of a run may come from a stranger, and a class is imported, and called, by its name
    alone. What the user's own configuration names is the user's choice and needs no such care.
    """
    before = dict(parsing_settings)
    set_parsing_settings(import_path_denylist=["*"], import_path_allowlist=[*_OURS, *named])
    try:
        yield
    except ArgumentError as error:
        # The parser's message must not be explained: an explanation would import the modules that it names.
        denied = re.search(r"Importing '([^']+)' is not allowed", str(error))
        if denied:
            what = f"{denied[1]}, which is not part of lit_rl, so it was not built"
            raise UsageError(f"{source} names {what}: {remedy}") from error
        raise UsageError(f"{source} does not fit this version: {' '.join(str(error).split())[:400]}") from error
    finally:
        parsing_settings.clear()
        parsing_settings.update(before)


def _class_path_of(part: object) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"
