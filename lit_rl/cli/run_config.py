"""Defaults that depend on the rest of a configuration, and the folders that a run writes to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.cli import SaveConfigCallback

from lit_rl.errors import ArgumentError
from lit_rl.modules.policy_module import PolicyModule

_SEEDS = ("model.init_args.seed", "data.init_args.seed", "model.init_args.policy.init_args.init_seed")
_KEY = re.compile(r"--(model|data)(\.\w+)+")
_LENGTHS = ("max_rollouts", "max_updates")
_BOARD = "lightning.pytorch.loggers.TensorBoardLogger"


def rewrite_policy_nulls(arguments: Sequence[str]) -> list[str]:
    """Rewrite each ``--model.policy.KEY null`` among the arguments so that the parser understands the null.

    The parser takes a null two classes deep for the text ``None``, or rejects it.
    """
    found: list[str] = []
    for argument in arguments:
        if argument == "null" and found and _KEY.fullmatch(found[-1]):
            argument = f"{found.pop()}=null"
        key = argument.removesuffix("=null")
        parts = [part for part in key.removeprefix("--").split(".") if part != "init_args"]
        if key != argument and _KEY.fullmatch(key) and len(parts) > 2:
            argument = f'--{".".join(parts[:-1])}={{"{parts[-1]}": null}}'
        found.append(argument)
    return found


def fill_in_seeds(config: Any) -> None:
    """Set every seed that has no value to the run's seed, ``seed_everything``."""
    seed = config.get("seed_everything")
    if isinstance(seed, bool) or seed is None:
        return
    for key in _SEEDS:
        if key in config and config[key] is None:
            config[key] = seed


def fill_in_schedule_length(config: Any) -> None:
    """Spread a schedule whose length is not set over the run's rollouts, or updates.

    Some of torch's schedules have a default of five iterations, which counts as not set.
    """
    arguments = config.get("model.init_args") or {}
    length = next((arguments[name] for name in _LENGTHS if arguments.get(name)), None)
    schedule = arguments.get("update.lr_scheduler.init_args") if arguments.get("update.lr_scheduler") else None
    if length is None or schedule is None:
        return
    if schedule.get("total_iters") == 5:
        schedule["total_iters"] = length
    if "total_steps" in schedule and schedule["total_steps"] is None and schedule.get("epochs") is None:
        schedule["total_steps"] = length + 1  # a cycle also counts the initial rate


def apply_run_dir(config: Any) -> None:
    """If ``run_dir`` is given, write checkpoints there and logs to a version folder below."""
    given, trainer = config.get("run_dir"), config.get("trainer")
    if given is None:
        return
    if not given:
        raise ArgumentError("run_dir", "a folder", "an empty string")
    path = Path(given)
    trainer["default_root_dir"] = str(path)
    if trainer.get("logger") in (None, True):
        trainer["logger"] = Namespace(class_path=_BOARD, init_args=Namespace())
    for logger in _as_list(trainer["logger"]):
        if _class_name_of_entry(logger) in (
            "TensorBoardLogger",
            "CSVLogger",
        ):  # these loggers make a folder with the given name
            logger.init_args["save_dir"], logger.init_args["name"] = str(path.parent), path.name
        elif "save_dir" in logger.init_args:
            logger.init_args["save_dir"] = str(path)
    trainer["callbacks"] = callbacks = _as_list(trainer.get("callbacks"))
    savers = [one for one in callbacks if _class_name_of_entry(one) == "Checkpointing"]
    if not savers and trainer.get("enable_checkpointing") is not False:
        savers = [Namespace(class_path="lit_rl.callbacks.Checkpointing", init_args=Namespace())]
        callbacks += savers
    for saver in savers:
        saver.init_args["folder"] = str(path)


def use_verb_as_log_version(config: Any, verb: str) -> None:
    """Write the logs of verbs that do not train to ``<verb>/`` instead of a new ``version_N/``."""
    for logger in _as_list(config.get("trainer.logger")) if verb in ("validate", "test", "predict") else ():
        if _class_name_of_entry(logger) == "TensorBoardLogger" and logger.init_args.get("version") is None:
            logger.init_args["version"] = verb


def _as_list(chosen: Any) -> list[Any]:
    return chosen if isinstance(chosen, list) else [chosen] if chosen else []


def _class_name_of_entry(chosen: Any) -> str:
    return str(getattr(chosen, "class_path", "")).rpartition(".")[2]


class SaveConfigInTraining(SaveConfigCallback):
    """Writes ``config.yaml`` when training starts; a refused start or a validation leaves the run's file unchanged."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write nothing yet."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write ``config.yaml``, unless the run has finished: then nothing is trained with this configuration."""
        if not (isinstance(pl_module, PolicyModule) and pl_module.clock.is_over):
            super().setup(trainer, pl_module, "fit")
