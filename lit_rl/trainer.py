"""Lightning's trainer with the settings that rollouts need, for scripts and notebooks."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import (
    BatchSizeFinder,
    Checkpoint,
    EarlyStopping,
    GradientAccumulationScheduler,
    LearningRateFinder,
    ProgressBar,
    StochasticWeightAveraging,
    Timer,
)
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from lightning.pytorch.utilities.model_helpers import is_overridden
from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_warn

from lit_rl.callbacks.checkpointing import Checkpointing, raise_if_stopped, savers_of
from lit_rl.callbacks.defaults import add_defaults, add_unless_listed
from lit_rl.callbacks.execution_evaluation import ExecutionEvaluation
from lit_rl.callbacks.named_checkpoint import doubt_weights, resolve
from lit_rl.callbacks.progress_screen import ProgressScreen
from lit_rl.errors import ArgumentError, UsageError, require_at_least, shown
from lit_rl.models.policy import Policy
from lit_rl.modules.policy_module import PolicyModule
from lit_rl.modules.setup_checks import check_precision
from lit_rl.signature_check import check_keys
from lit_rl.training.strategy import check_strategy
from lit_rl.types import Problem

TRAINER_DEFAULTS: dict[str, Any] = {
    # Rollouts differ in length; a step is a rollout, and each one is worth a point on the curves.
    "log_every_n_steps": 1,
    "num_sanity_val_steps": 0,
    # Intervals are counted in rollouts over all epochs; without one, a run validates at the end of each epoch.
    "check_val_every_n_epoch": None,
    # Problems are dealt out to ranks by ProblemLoader, without duplicates.
    "use_distributed_sampler": False,
    # Tensors made in inference mode would break the training step after a standalone validation.
    "inference_mode": False,
    "enable_model_summary": False,
    "default_root_dir": "runs",
}
"""Trainer defaults that rollouts change from Lightning's; the command line uses the same."""

_NO_USE: dict[type[pl.Callback], str] = {
    GradientAccumulationScheduler: "has no effect here: use model.update.microbatch_size",
    StochasticWeightAveraging: "takes over schedules and backward passes, as modules here do: leave it out",
    LearningRateFinder: "needs one loss that falls, which rollouts do not have: set model.update.optimizer's lr",
    BatchSizeFinder: "changes how many problems a rollout has: set model.update.microbatch_size for the memory",
}

MOST_RANKS_A_CORE = 4
"""More processes than this on each core is a mistake; a few are useful to try out what many ranks do."""


def _as_lightnings(method: Any) -> Callable[[Any], Any]:
    """Give a method the signature and the description of Lightning's, which the command line reads."""
    return wraps(method)


class Trainer(pl.Trainer):
    """``lightning.pytorch.Trainer`` with :data:`TRAINER_DEFAULTS`, ended by the module's own limits.

    Epochs have no end unless ``max_epochs`` or ``max_steps`` is given: modules count rollouts (``max_rollouts``) or
    updates (``max_updates``). A ``val_check_interval`` counts them over all epochs. Only callbacks that are given save.
    With a :class:`~lit_rl.callbacks.Checkpointing` callback, ``fit`` resumes where an earlier run in that folder
    stopped, as ``lit-rl fit`` does, and logs go to a version below that folder unless ``logger`` or
    ``default_root_dir`` says otherwise. A run with a logger or ``Checkpointing`` is recorded, see
    :class:`~lit_rl.callbacks.RunRecord`. A signal that stops a run ends the script, after the run is saved.

    A :class:`~lit_rl.callbacks.ProgressScreen` shows how the run goes, unless the callbacks have another
    progress bar.

    Args:
        **settings: settings of ``lightning.pytorch.Trainer``; each replaces the default.

    Raises:
        ValueError: a strategy that cannot work here.
    """

    @_as_lightnings(pl.Trainer.__init__)
    def __init__(self, **settings: Any) -> None:
        quiet()
        settings = check_keys(pl.Trainer, settings, "Trainer", config=False)
        check_settings(settings)
        settings = {**TRAINER_DEFAULTS, **settings}
        super().__init__(**{**settings, **dependent_settings(settings)})
        add_defaults(self)

    @_as_lightnings(pl.Trainer.fit)
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
        model = uncompiled(model)
        require_pair("fit", model, train_dataloaders if datamodule is None else datamodule)
        require_training(self)
        if isinstance(model, PolicyModule):
            add_unless_listed(self, ExecutionEvaluation)
            doubt_end(self, model)
        say_where(self)
        start = self.where_to_start(ckpt_path)
        with raise_if_stopped(self):
            super().fit(model, train_dataloaders, val_dataloaders, datamodule, start, weights_only)

    def where_to_start(self, ckpt_path: Any) -> Any:
        """Return the checkpoint that a fit begins with: the newest in a run's folder, else the one that was asked for.

        The folder is claimed; a second call returns what the first one did.
        """
        savers = savers_of(self)
        if any(saver.is_prepared for saver in savers):
            return ckpt_path
        if not any(saver.run.checkpoints() for saver in savers):
            ckpt_path = resolve(ckpt_path, self)  # before the folder is claimed, which a refusal would leave claimed
        for saver in savers:
            ckpt_path = saver.prepare(self, ckpt_path)
        return resolve(ckpt_path, self)

    @_as_lightnings(pl.Trainer.validate)
    def validate(self, model: Any = None, dataloaders: Any = None, ckpt_path: Any = None, **options: Any) -> Any:
        """Measure on validation problems; arguments as in ``lightning.pytorch.Trainer.validate``.

        The screen says what was found; ``verbose`` adds Lightning's table of all numbers.
        """
        require_validation(self)
        return self._measure("validate", model, ckpt_path, {"verbose": False, **options}, dataloaders)

    @_as_lightnings(pl.Trainer.test)
    def test(self, model: Any = None, dataloaders: Any = None, ckpt_path: Any = None, **options: Any) -> Any:
        """Measure on test problems; arguments as in ``lightning.pytorch.Trainer.test``."""
        return self._measure("test", model, ckpt_path, {"verbose": False, **options}, dataloaders)

    @_as_lightnings(pl.Trainer.predict)
    def predict(self, model: Any = None, dataloaders: Any = None, datamodule: Any = None, **options: Any) -> Any:
        """Sample training problems and judge what is written; arguments as in ``lightning.pytorch.Trainer.predict``.

        Returns:
            an :class:`~lit_rl.rollout.Evaluated` per batch, on the CPU, unless ``return_predictions`` is false.
        """
        given = {**options, "datamodule": datamodule}
        return self._measure("predict", model, given.pop("ckpt_path", None), given, dataloaders)

    def _measure(self, verb: str, model: Any, ckpt_path: Any, options: dict[str, Any], dataloaders: Any) -> Any:
        """Check what a measurement is given, and run it."""
        data = options.get("datamodule")
        if data is None and isinstance(dataloaders, pl.LightningDataModule):  # by position
            data = options["datamodule"] = dataloaders
            dataloaders = None
        model = uncompiled(model)
        require_pair(verb, model, dataloaders if data is None else data)
        if model is None and ckpt_path is None and not getattr(self.checkpoint_callback, "best_model_path", None):
            model = self.lightning_module  # Lightning would look for the best checkpoint
        if isinstance(model, PolicyModule):
            if verb != "predict":
                add_unless_listed(self, ExecutionEvaluation)
            if ckpt_path is None:
                doubt_weights(self, model)
        run = getattr(super(), verb)
        with raise_if_stopped(self):
            return run(model, dataloaders, ckpt_path=resolve(ckpt_path, self), **options)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse trainer settings that cannot work with manual optimization, or on this machine.

    Raises:
        ValueError: with the argument to use instead.
    """
    check_strategy(settings.get("strategy", "auto"))
    if settings.get("gradient_clip_val"):
        raise UsageError(
            "trainer.gradient_clip_val clips nothing here, got "
            f"{settings['gradient_clip_val']}: use model.update.gradient_clip_norm, which clips policy and critic apart"
        )
    if settings.get("accumulate_grad_batches", 1) not in (1, None):
        raise UsageError(
            f"trainer.accumulate_grad_batches has no effect here, got {settings['accumulate_grad_batches']}: use "
            "model.update.microbatch_size, which splits a batch without changing the gradient"
        )
    check_precision(settings.get("precision"))
    require_useful(_callbacks_of(settings))
    stateful = [one for one in _callbacks_of(settings) if is_overridden("state_dict", one, pl.Callback)]
    for one in stateful:
        if sum(one.state_key == other.state_key for other in stateful) > 1:
            name = type(one).__name__
            raise UsageError(
                f"trainer.callbacks has {name} more than once, and a checkpoint holds the state of one: keep one"
            )
    require_at_least(1, **{"trainer.check_val_every_n_epoch": settings.get("check_val_every_n_epoch")})
    require_at_least(-1, **{f"trainer.{name}": settings.get(name) for name in ("max_epochs", "max_steps")})
    if isinstance(time := settings.get("max_time"), str) and not re.fullmatch(r"\d+:\d\d:\d\d:\d\d", time.strip()):
        raise ArgumentError("trainer.max_time", "DD:HH:MM:SS, such as 00:12:00:00 for half a day", time)
    accelerator, devices = settings.get("accelerator", "auto"), settings.get("devices", "auto")
    if isinstance(accelerator, str) and accelerator not in ("auto", "cpu", "cuda", "gpu", "mps"):
        raise UsageError(f"trainer.accelerator is {accelerator}, which is not supported: use cpu, cuda or auto")
    if accelerator in ("gpu", "cuda") and not torch.cuda.is_available():
        raise UsageError(
            f"trainer.accelerator is {accelerator}, and torch {torch.__version__} sees no GPU here: use cpu or auto, "
            "or install a build of torch that fits the GPU's driver"
        )
    if str(devices) == "0" or (isinstance(devices, str) and not re.fullmatch(r"auto|-1|[\d, ]+", devices)):
        raise ArgumentError("trainer.devices", "a number of processes from 1 on, or auto", str(devices))
    cores = os.cpu_count() or 1
    counted = int(devices) if str(devices).isdigit() else 0  # the command line may hand over a text
    if accelerator in ("cpu", "auto") and not torch.cuda.is_available() and counted > MOST_RANKS_A_CORE * cores:
        raise UsageError(f"trainer.devices is {devices}, processes on {cores} cores: use at most one per core")


def require_useful(callbacks: list[pl.Callback]) -> None:
    """Refuse callbacks of Lightning's that cannot work here; each leaves the list, so that a next fit has none."""
    for one in callbacks:
        if remedy := next((text for kind, text in _NO_USE.items() if isinstance(one, kind)), None):
            callbacks.remove(one)
            raise UsageError(f"trainer.callbacks has {type(one).__name__}, which {remedy}")


def dependent_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Trainer settings that follow from others: of the end, screen, logs, validation, checkpoints and ``barebones``.

    Args:
        settings: as given, with :data:`TRAINER_DEFAULTS` for those that are not.

    Returns:
        the settings that change.
    """
    changed = {**screen_settings(settings), **log_settings(settings)}
    if all(settings.get(name) in (None, -1) for name in ("max_epochs", "max_steps", "max_time")):
        changed["max_epochs"] = -1
    if settings.get("check_val_every_n_epoch") is None and isinstance(settings.get("val_check_interval"), float | None):
        changed["check_val_every_n_epoch"] = 1
    if settings.get("enable_checkpointing") is None:  # none of Lightning's own, which nothing here resumes from
        changed["enable_checkpointing"] = any(isinstance(one, Checkpoint) for one in _callbacks_of(settings))
    if settings.get("barebones"):
        changed["log_every_n_steps"] = 0
    return changed


def screen_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Trainer settings that put a :class:`ProgressScreen` in the place of Lightning's progress bar.

    Args:
        settings: as given; a progress bar or a screen of the user's own stays.

    Returns:
        the settings that change.
    """
    callbacks = _callbacks_of(settings)
    if any(isinstance(callback, ProgressBar) for callback in callbacks):
        return {}
    if not any(isinstance(callback, ProgressScreen) for callback in callbacks):
        callbacks.append(ProgressScreen(live=False if settings.get("enable_progress_bar") is False else None))
    return {"callbacks": callbacks, "enable_progress_bar": False}


def log_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Trainer settings that send logs to a version below the folder of :class:`Checkpointing`, as ``--run_dir`` does.

    Args:
        settings: as given; a logger or a ``default_root_dir`` of the user's own stays.

    Returns:
        the settings that change.
    """
    root = settings.get("default_root_dir")
    if settings.get("logger") not in (None, True) or root not in (None, TRAINER_DEFAULTS["default_root_dir"]):
        return {}
    folders = [one.run.path for one in _callbacks_of(settings) if isinstance(one, Checkpointing)]
    return {"logger": TensorBoardLogger(str(folders[0].parent), name=folders[0].name)} if folders else {}


def _callbacks_of(settings: Mapping[str, Any]) -> list[pl.Callback]:
    given = settings.get("callbacks") or []
    return [given] if isinstance(given, pl.Callback) else list(given)


_LOADERS = {
    "fit": "train_dataloader",
    "validate": "val_dataloader",
    "test": "test_dataloader",
    "predict": "predict_dataloader",
}
"""Hooks by which a module may bring its own data, by verb of the trainer."""


def uncompiled(model: Any) -> Any:
    """The module itself in place of ``torch.compile(module)``, whose steps sample and run programs and are no graph."""
    if not hasattr(model, "_orig_mod"):
        return model
    rank_zero_warn("torch.compile(module) cannot compile rollouts and their updates: the module runs as it is")
    return model._orig_mod


def require_pair(verb: str, model: Any, data: Any) -> None:
    """Check the two things that a verb is given, which are easily swapped: Lightning's words would blame one of them.

    Args:
        verb: of the trainer.
        model: ``None`` for the one that was trained.
        data: a task, or loaders.

    Raises:
        ArgumentError: the first is no module, or the second no task.
    """
    if model is not None and (isinstance(model, Policy) or not isinstance(model, torch.nn.Module)):
        remedy = "swap the two" if isinstance(data, torch.nn.Module) else ""
        remedy = f"give an object of the class, {model.__name__}(...)" if isinstance(model, type) else remedy
        raise ArgumentError(verb, "a module first, such as GRPO(...), then a task", shown(model), remedy)
    is_list = isinstance(data, list) and all(isinstance(one, Problem) for one in data)
    is_missing = data is None and model is not None and not is_overridden(_LOADERS[verb], model)
    if isinstance(data, type | torch.nn.Module) or is_list or is_missing:
        raise ArgumentError(verb, "a task, such as datamodule=Basics()", shown(data))


def require_training(trainer: pl.Trainer) -> None:
    """Refuse a training of nothing, and several processes that know nothing of each other.

    Raises:
        UsageError: a limit is 0, or ``srun`` started more tasks than the trainer has ranks.
    """
    tasks = int(os.environ.get("SLURM_STEP_NUM_TASKS", 1))
    if tasks > trainer.world_size:
        raise UsageError(
            f"srun started {tasks} tasks, and trainer.devices x num_nodes is {trainer.world_size}: set trainer.devices "
            "to the tasks of a node, or start one task"
        )
    for name in ("max_epochs", "max_steps", "limit_train_batches"):
        if getattr(trainer, name) == 0:
            raise UsageError(f"trainer.{name} is 0, so there is nothing to train: leave it out, or raise it")


def doubt_end(trainer: pl.Trainer, module: PolicyModule) -> None:
    """Warn of a run that nothing ends and nothing keeps; a callback of the user's own may do either."""
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    limited = module.clock.limit is not None or trainer.max_epochs != -1 or trainer.max_steps != -1
    own = any(not type(one).__module__.startswith(("lit_rl.", "lightning.")) for one in callbacks)
    if not (limited or own or any(isinstance(one, Checkpointing | EarlyStopping | Timer) for one in callbacks)):
        rank_zero_warn(
            f"nothing ends this run, and no Checkpointing keeps it: give the module max_{module.clock.unit}s, or the "
            "trainer max_epochs or max_time"
        )


def require_validation(trainer: pl.Trainer) -> None:
    """Refuse a validation of nothing.

    Raises:
        UsageError: ``limit_val_batches`` is 0.
    """
    if trainer.limit_val_batches == 0:
        raise UsageError("trainer.limit_val_batches is 0, so there is nothing to validate: leave it out, or raise it")


def say_where(trainer: pl.Trainer) -> None:
    """Say in one line where a fit writes despite ``default_root_dir``, which moves neither logs nor checkpoints."""
    root = Path(trainer.default_root_dir).resolve()
    if root == Path(TRAINER_DEFAULTS["default_root_dir"]).resolve():
        return
    folders: list[tuple[str, str | Path, str]] = [
        ("logs", logger.save_dir, "the logger's save_dir")
        for logger in trainer.loggers
        if logger.save_dir and not Path(_folder_of(logger)).resolve().is_relative_to(root)
    ]
    folders += [("checkpoints", one.run.path, "Checkpointing's folder") for one in savers_of(trainer)]
    elsewhere = [one for one in folders if not Path(one[1]).resolve().is_relative_to(root)]
    if elsewhere:
        where = " and ".join(f"{what} go to {Path(folder).resolve()}" for what, folder, _ in elsewhere)
        names = " and ".join(name for _, _, name in elsewhere)
        rank_zero_info(f"trainer.default_root_dir is {root}, but {where}: set {names} to move them")


def _folder_of(logger: Logger) -> str:
    """Return the folder a logger writes to; some add a folder of their name to ``save_dir``, as ``--run_dir`` does."""
    return str(getattr(logger, "root_dir", None) or logger.save_dir)


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
"""Beginnings of the names of modules whose warnings stay warnings under ``-W error``: a user cannot mend them."""

_TOLD: set[tuple[str, str]] = set()
"""Packages and the warnings that they gave."""


def quiet() -> None:
    """Silence these messages and warnings; all others are kept."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if any(action == "error" and module is None for action, _, _, module, _ in warnings.filters):
        warnings.filterwarnings("default", module=_LIBRARIES)
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=_LIBRARIES)
    for text in _WARNINGS:
        warnings.filterwarnings("ignore", message=text)
    warnings.formatwarning = _in_one_line
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if _is_wanted not in logger.filters:
            logger.addFilter(_is_wanted)


def _in_one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning with the package that gives it; another package's is shown once, even where filters are reset."""
    if not {"lit_rl", "callbacks", "site-packages"} & {*Path(filename).parts}:
        return f"{filename}:{lineno}: {category.__name__}: {message}\n"
    package, text = _package_that_warns(), " ".join(str(message).split())
    if package == "lit_rl":
        return f"lit-rl: warning: {text}\n"
    told = (package, text) in _TOLD
    _TOLD.add((package, text))
    return "" if told else f"{package}: warning: {text}\n"


def _package_that_warns() -> str:
    """The package whose code warns, which may blame the line that called it."""
    frame, package = sys._getframe(2), "warnings"
    while frame.f_back is not None and package in ("warnings", "logging", "lightning_utilities"):
        frame = frame.f_back
        package = frame.f_globals.get("__name__", "").partition(".")[0]
    return package


def _is_wanted(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_MESSAGES)
