"""Lightning's trainer with the settings that rollouts need, for scripts and notebooks."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import (
    Checkpoint,
    ProgressBar,
)
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities.model_helpers import is_overridden
from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_warn

from lit_rl.callbacks.checkpointing import Checkpointing, find_checkpointing_callbacks, raise_if_stopped
from lit_rl.callbacks.completion_log import CompletionLog
from lit_rl.callbacks.completion_writer import CompletionWriter
from lit_rl.callbacks.diagnostics import Diagnostics
from lit_rl.callbacks.execution_evaluation import ExecutionEvaluation
from lit_rl.callbacks.progress_screen import ProgressScreen
from lit_rl.callbacks.run_record import RunRecord, has_run_folder
from lit_rl.callbacks.tensorboard_layout import TensorBoardLayout
from lit_rl.errors import ArgumentError, UsageError, short_repr
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.policy import Policy
from lit_rl.modules.policy_module import PolicyModule
from lit_rl.modules.rollout_module import RolloutModule
from lit_rl.modules.setup_check import precision_fault
from lit_rl.reports.run_summary import tensorboard_loggers
from lit_rl.signature_check import check_and_convert_arguments
from lit_rl.training.checkpoints import read_checkpoint, resolve_checkpoint_path
from lit_rl.training.strategy import check_strategy
from lit_rl.types import Problem

TRAINER_DEFAULTS: dict[str, Any] = {
    # Rollouts differ in length; a step is a rollout, and each one is worth a point on the curves.
    "log_every_n_steps": 1,
    "num_sanity_val_steps": 0,
    # Intervals count rollouts over all epochs; without an interval, a run validates at the end of each epoch.
    "check_val_every_n_epoch": None,
    # Problems are dealt out to ranks by ProblemLoader, without duplicates.
    "use_distributed_sampler": False,
    # Tensors made in inference mode would break the training step after a standalone validation.
    "inference_mode": False,
    "enable_model_summary": False,
    "default_root_dir": "runs",
}
"""Trainer settings whose defaults differ from Lightning's because of rollouts, also on the command line."""


_RECORDERS = (TensorBoardLayout, CompletionWriter, RunRecord)


def _with_lightning_signature(method: Any) -> Callable[[Any], Any]:
    """Give a method the signature and description of Lightning's method, which the command line reads."""
    return wraps(method)


class Trainer(pl.Trainer):
    """``lightning.pytorch.Trainer`` with :data:`TRAINER_DEFAULTS`, whose runs end by the module's own limits.

    Epochs have no end unless ``max_epochs`` or ``max_steps`` is given: modules count rollouts (``max_rollouts``) or
    updates (``max_updates``). A ``val_check_interval`` counts rollouts or updates over all epochs.

    A run with a ``run_dir`` has :class:`~lit_rl.callbacks.Checkpointing` in that folder and a TensorBoard log below it;
    ``fit`` resumes where an earlier run in that folder stopped. ``Checkpointing`` with a folder of its own does the
    same. A signal that stops a run ends the script, after the run is saved.

    Every run has :class:`~lit_rl.callbacks.ExecutionEvaluation` and a :class:`~lit_rl.callbacks.ProgressScreen`, and
    with a logger or ``Checkpointing`` also :class:`~lit_rl.callbacks.RunRecord`,
    :class:`~lit_rl.callbacks.CompletionLog`, :class:`~lit_rl.callbacks.TensorBoardLayout` and, if it trains on
    rollouts, :class:`~lit_rl.callbacks.Diagnostics`. One of these among ``callbacks`` replaces the default
    one; ``enable_checkpointing=False`` and ``logger=False`` remove checkpoints and logger.

    Args:
        run_dir: the run's folder.
        **settings: settings of ``lightning.pytorch.Trainer``; each replaces the default.
    """

    @_with_lightning_signature(pl.Trainer.__init__)
    def __init__(self, *, run_dir: str | None = None, **settings: Any) -> None:
        silence_lightning()
        settings = check_and_convert_arguments(pl.Trainer, settings, "Trainer", config=False)
        check_trainer_settings(settings)
        settings = {**TRAINER_DEFAULTS, **settings, **({} if run_dir is None else run_dir_settings(run_dir, settings))}
        super().__init__(**{**settings, **dependent_trainer_settings(settings)})
        if not self.fast_dev_run:  # type: ignore[attr-defined]
            kinds: list[type[pl.Callback]] = [TensorBoardLayout] if tensorboard_loggers(self) else []
            kinds += [CompletionWriter, RunRecord] if has_run_folder(self) else []
            self._add_missing_callbacks(*kinds, *([CompletionLog] if self.loggers else []))

    def _has_callback(self, kind: type[pl.Callback]) -> bool:
        return any(isinstance(one, kind) for one in self.callbacks)  # type: ignore[attr-defined]

    def _add_missing_callbacks(self, *kinds: type[pl.Callback]) -> None:
        """Add a callback of each missing kind, after the callbacks that record and before those that save."""
        callbacks: list[pl.Callback] = self.callbacks  # type: ignore[attr-defined]
        place = max((at for at, one in enumerate(callbacks, 1) if isinstance(one, _RECORDERS)), default=0)
        callbacks[place:place] = [kind() for kind in kinds if not self._has_callback(kind)]

    @_with_lightning_signature(pl.Trainer.fit)
    def fit(
        self,
        model: pl.LightningModule,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: pl.LightningDataModule | None = None,
        ckpt_path: Any = None,
        weights_only: bool | None = None,
    ) -> None:
        """Train; arguments as in ``lightning.pytorch.Trainer.fit``."""
        model = unwrap_and_check_module("fit", model, train_dataloaders if datamodule is None else datamodule)
        if isinstance(model, PolicyModule):
            is_diagnosed = isinstance(model, RolloutModule) and self._has_callback(RunRecord)
            self._add_missing_callbacks(ExecutionEvaluation, *([Diagnostics] if is_diagnosed else []))
        start = self.lock_and_resolve_checkpoint(ckpt_path)
        with raise_if_stopped(self):
            super().fit(model, train_dataloaders, val_dataloaders, datamodule, start, weights_only)

    def lock_and_resolve_checkpoint(self, ckpt_path: Any) -> Any:
        """Return the checkpoint that a fit begins with: the newest in a run's folder or, without one, ``ckpt_path``.

        This claims the folder; a second call returns what the first call returned.
        """
        savers = find_checkpointing_callbacks(self)
        if any(saver.is_prepared for saver in savers):
            return ckpt_path
        if not any(saver.run_folder.checkpoints() for saver in savers):
            # Before the folder is claimed, since an error would leave the folder claimed.
            ckpt_path = resolve_checkpoint(ckpt_path, self)
        for saver in savers:
            ckpt_path = saver.lock_and_resolve_checkpoint(self, ckpt_path)
        return resolve_checkpoint(ckpt_path, self)

    @_with_lightning_signature(pl.Trainer.validate)
    def validate(self, model: Any = None, dataloaders: Any = None, ckpt_path: Any = None, **options: Any) -> Any:
        """Measure on validation problems; arguments as in ``lightning.pytorch.Trainer.validate``.

        The screen shows the results; ``verbose`` adds Lightning's table of all numbers.
        """
        return self._evaluate_or_predict("validate", model, ckpt_path, {"verbose": False, **options}, dataloaders)

    @_with_lightning_signature(pl.Trainer.test)
    def test(self, model: Any = None, dataloaders: Any = None, ckpt_path: Any = None, **options: Any) -> Any:
        """Measure on test problems; arguments as in ``lightning.pytorch.Trainer.test``."""
        return self._evaluate_or_predict("test", model, ckpt_path, {"verbose": False, **options}, dataloaders)

    @_with_lightning_signature(pl.Trainer.predict)
    def predict(self, model: Any = None, dataloaders: Any = None, datamodule: Any = None, **options: Any) -> Any:
        """Sample training problems and judge what is written; arguments as in ``lightning.pytorch.Trainer.predict``.

        Returns:
            an :class:`~lit_rl.rollout.Evaluated` per batch, on the CPU, unless ``return_predictions`` is false.
        """
        given = {**options, "datamodule": datamodule}
        return self._evaluate_or_predict("predict", model, given.pop("ckpt_path", None), given, dataloaders)

    def _evaluate_or_predict(
        self, verb: str, model: Any, ckpt_path: Any, options: dict[str, Any], dataloaders: Any
    ) -> Any:
        data = options.get("datamodule")
        if data is None and isinstance(dataloaders, pl.LightningDataModule):  # the task was given by position
            data = options["datamodule"] = dataloaders
            dataloaders = None
        model = unwrap_and_check_module(verb, model, dataloaders if data is None else data)
        if model is None and ckpt_path is None and not getattr(self.checkpoint_callback, "best_model_path", None):
            model = self.lightning_module  # Lightning would look for the best checkpoint
        if isinstance(model, PolicyModule):
            if verb != "predict":
                self._add_missing_callbacks(ExecutionEvaluation)
            if ckpt_path is None:
                warn_about_untrained_weights(self, model)
        run = getattr(super(), verb)
        with raise_if_stopped(self):
            return run(model, dataloaders, ckpt_path=resolve_checkpoint(ckpt_path, self), **options)


def check_trainer_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings of Lightning that have no effect, or a wrong one, under manual optimization."""
    check_strategy(settings.get("strategy", "auto"))
    if fault := precision_fault(settings.get("precision")):  # Lightning takes another precision on a CPU
        raise UsageError(fault)
    ours = {("gradient_clip_val", 0): "gradient_clip_norm", ("accumulate_grad_batches", 1): "microbatch_size"}
    for (name, unused), setting in ours.items():
        if settings.get(name) not in (None, unused):
            raise UsageError(f"trainer.{name} has no effect here: use model.update.{setting}")


def run_dir_settings(run_dir: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that follow from the folder of a run: checkpoints in it, logs in a version below it."""
    callbacks = _callbacks_of_settings(settings)
    savers = [one for one in callbacks if isinstance(one, Checkpointing)]
    if not savers and settings.get("enable_checkpointing") is not False:
        callbacks += (savers := [Checkpointing()])
    for saver in savers:
        saver.set_default_folder(run_dir)
    logger = _make_tensorboard_logger(Path(run_dir)) if settings.get("logger") in (None, True) else settings["logger"]
    return {"callbacks": callbacks, "logger": logger, "default_root_dir": run_dir}


def _make_tensorboard_logger(folder: Path) -> TensorBoardLogger:
    return TensorBoardLogger(str(folder.parent), name=folder.name)


def _callbacks_of_settings(settings: Mapping[str, Any]) -> list[pl.Callback]:
    given = settings.get("callbacks") or []
    return [given] if isinstance(given, pl.Callback) else list(given)


def dependent_trainer_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return trainer settings that follow from others: end, validation, checkpoints, ``barebones``, logs and screen."""
    callbacks = _callbacks_of_settings(settings)
    changed: dict[str, Any] = {}
    if all(settings.get(name) in (None, -1) for name in ("max_epochs", "max_steps", "max_time")):
        changed["max_epochs"] = -1
    if settings.get("check_val_every_n_epoch") is None and isinstance(settings.get("val_check_interval"), float | None):
        changed["check_val_every_n_epoch"] = 1
    if settings.get("enable_checkpointing") is None:  # not Lightning's own, from which nothing here resumes
        changed["enable_checkpointing"] = any(isinstance(one, Checkpoint) for one in callbacks)
    if settings.get("barebones"):
        changed["log_every_n_steps"] = 0
    root = settings.get("default_root_dir")
    if settings.get("logger") in (None, True) and root in (None, TRAINER_DEFAULTS["default_root_dir"]):
        folders = [one.run_folder.path for one in callbacks if isinstance(one, Checkpointing)]
        if folders:
            changed["logger"] = _make_tensorboard_logger(folders[0])
    if not any(isinstance(one, ProgressBar) for one in callbacks):
        if not any(isinstance(one, ProgressScreen) for one in callbacks):
            callbacks.append(ProgressScreen(live=False if settings.get("enable_progress_bar") is False else None))
        changed |= {"callbacks": callbacks, "enable_progress_bar": False}
    return changed


_LOADERS = {
    "fit": "train_dataloader",
    "validate": "val_dataloader",
    "test": "test_dataloader",
    "predict": "predict_dataloader",
}
"""Hooks by which a module may bring its own data, by verb of the trainer."""


def unwrap_and_check_module(verb: str, model: Any, data: Any) -> Any:
    """Check that a verb is given a module and then a task, which are easily swapped; return the module."""
    model = getattr(model, "_orig_mod", model)  # undo torch.compile: rollouts are no graph
    if model is not None and (isinstance(model, Policy) or not isinstance(model, torch.nn.Module)):
        remedy = "swap the two arguments" if isinstance(data, torch.nn.Module) else ""
        remedy = f"give an object of the class, {model.__name__}(...)" if isinstance(model, type) else remedy
        raise ArgumentError(verb, "a module first, such as GRPO(...), then a task", short_repr(model), remedy)
    is_list = isinstance(data, list) and all(isinstance(one, Problem) for one in data)
    is_missing = data is None and model is not None and not is_overridden(_LOADERS[verb], model)
    if isinstance(data, type | torch.nn.Module) or is_list or is_missing:
        raise ArgumentError(verb, "a task, such as datamodule=Basics()", short_repr(data))
    return model


_WARNINGS = (
    ".*args parameter is intended to run from within Python.*",
    ".*does not have many workers.*",
    ".*recommended to use .*sync_dist=True.*",
    ".*LeafSpec.*",
    ".*overridden `transfer_batch_to_device` in `LightningModule`.*",
    ".*in eval mode at the start of training.*",
    ".*Checkpoint directory .* exists and is not empty.*",
    ".*`is_gradient_checkpointing` is deprecated.*",  # peft asks for it
)
"""Beginnings, as regular expressions, of warnings that a user can do nothing about."""

_MESSAGES = (
    "\N{ELECTRIC LIGHT BULB} Tip:",  # of litlogger and litmodels
    "GPU available: False",
    "TPU available: False",
    "HPU available: False",
    "Seed set to",
    "Restoring states from the checkpoint path",
    "Restored all states from the checkpoint",
    "Loading `train_dataloader` to estimate",
    "The following callbacks returned in `LightningModule.configure_callbacks` will override",
    "`Trainer.fit` stopped:",
)
"""Beginnings of log messages to silence; the screen shows what a user needs of them."""

_LOGGERS = (
    "lightning.pytorch.utilities.rank_zero",
    "lightning.fabric.utilities.rank_zero",
    "lightning.fabric.utilities.seed",
    "lightning_utilities.core.rank_zero",
)


_LIBRARIES = "lightning|torch|transformers|peft|jsonargparse|tensorboard"
"""Beginnings of the names of modules whose warnings stay warnings under ``-W error``."""

_SEEN_WARNINGS: set[tuple[str, str]] = set()
"""Pairs of a package and a warning that it gave."""


def silence_lightning() -> None:
    """Silence the messages and warnings listed above; all others are kept."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if any(action == "error" and module is None for action, _, _, module, _ in warnings.filters):
        warnings.filterwarnings("default", module=_LIBRARIES)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=_LIBRARIES)
    for text in _WARNINGS:
        warnings.filterwarnings("ignore", message=text)
    warnings.formatwarning = _one_line_warning
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if _is_wanted_log_record not in logger.filters:
            logger.addFilter(_is_wanted_log_record)


def _one_line_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return a warning with its package; other packages' warnings are shown once, even if filters are reset."""
    if not {"lit_rl", "callbacks", "site-packages"} & {*Path(filename).parts}:
        return f"{filename}:{lineno}: {category.__name__}: {message}\n"
    # Find the package whose code warns: the warning may blame the line that called this code.
    frame, package, text = sys._getframe(1), "warnings", " ".join(str(message).split())
    while frame.f_back is not None and package in ("warnings", "logging", "lightning_utilities"):
        frame = frame.f_back
        package = frame.f_globals.get("__name__", "").partition(".")[0]
    if package == "lit_rl":
        return f"lit-rl: warning: {text}\n"
    is_repeated = (package, text) in _SEEN_WARNINGS
    _SEEN_WARNINGS.add((package, text))
    return "" if is_repeated else f"{package}: warning: {text}\n"


def _is_wanted_log_record(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_MESSAGES)


def resolve_checkpoint(name: Any, trainer: Any) -> Any:
    """Return the checkpoint that is asked for by a path, a run's folder, or ``last`` or ``best`` of this run.

    ``None``, remote paths and the names of Lightning's own checkpoints stay as they are.
    """
    if name in (None, "hpc", "registry") or "://" in str(name):
        return name
    if name not in ("last", "best"):
        found = resolve_checkpoint_path(Path(name))
    elif savers := find_checkpointing_callbacks(trainer):
        found = resolve_checkpoint_path(savers[0].run_folder.path, name)
    elif name == "best" or any(getattr(one, "save_last", False) for one in trainer.checkpoint_callbacks):
        return name
    else:  # Lightning would train from the start
        raise UsageError(
            f"ckpt_path {name} needs the callback lit_rl.callbacks.Checkpointing: "
            "add the callback, or give the path of a checkpoint or of a run's folder"
        )
    read_checkpoint(found, lazily=True)  # raises if the checkpoint is faulty
    if found != Path(name):
        rank_zero_info(f"{name} is the checkpoint {found}")
    return str(found)


def warn_about_untrained_weights(trainer: Any, module: Any) -> None:
    """Warn if a measurement without a checkpoint measures weights that no run trained."""
    if module.clock.count:
        return
    newest = [path for saver in find_checkpointing_callbacks(trainer) for path in saver.run_folder.checkpoints()[-1:]]
    policy = module.policy
    if newest:
        rank_zero_warn(f"this measures the initial policy: to measure {newest[0]}, add --ckpt_path last")
    elif isinstance(policy, CausalLM) and policy.config is not None and policy.model is None:
        rank_zero_warn("this measures random weights: give --ckpt_path or model.policy.model to measure other weights")
