"""From a checkpoint back to a module: the configuration that it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser

from lit_rl.arguments import UsageError
from lit_rl.models.policy import Policy
from lit_rl.renamed import migrate


def describe_policy(module: object, policy: Policy) -> str | None:
    """The part of a configuration that builds a module's policy, as JSON; ``None`` if the policy cannot tell."""
    arguments = policy.arguments()
    if arguments is None:
        return None
    described = {"class_path": _path_of(policy), "init_args": arguments}
    config = {"model": {"class_path": _path_of(module), "init_args": {"policy": described}}}
    return json.dumps(config, default=lambda value: dict(value) if isinstance(value, Mapping) else str(value))


def build_from_config(base: type, checkpoint: Mapping[str, Any], path: str | Path) -> Any:
    """The module that a checkpoint's configuration describes, of this version or of 0.3.

    Args:
        base: class of the module.
        checkpoint: as read.
        path: of the checkpoint, for the message.

    Raises:
        ValueError: the checkpoint holds no configuration.
    """
    if not checkpoint.get("config"):
        raise UsageError(
            f"{path} holds no configuration (it was not made by lit-rl fit): give the algorithm's arguments, at "
            "least policy"
        )
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(base, "model")
    config = yaml.safe_load(checkpoint["config"])
    migrate(config)
    return parser.instantiate_classes(parser.parse_object({"model": config["model"]})).model


def _path_of(part: object) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"
