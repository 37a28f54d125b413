"""Checks for combinations that cannot work, or are hardly meant; they run once, when a trainer sets a module up.

Each check is a function of the module, with its trainer, and the stage; the function returns what is wrong and what to
do, or an empty text.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import EarlyStopping, Timer
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from torch import optim

from lit_rl.data.task import SingleFileTask, Split, TaskDataModule
from lit_rl.errors import UsageError
from lit_rl.reports.diagnosis.history import MAX_ADAM_LR
from lit_rl.rollout import Environment
from lit_rl.rollout.environment import feedback_check

_SPLITS: dict[str, Split] = {"fit": "train", "validate": "validation", "test": "test", "predict": "train"}


def check_setup(module: Any, stage: str) -> None:
    """Refuse settings that cannot work in a stage; warn about settings that are hardly meant."""
    stage = next(name for name in _SPLITS if name == stage)  # Lightning's stage is a member of an enumeration
    for find in CHECKS_THAT_RAISE:
        if fault := find(module, stage):
            raise UsageError(fault)
    for find in CHECKS_THAT_WARN:
        if warning := find(module, stage):
            rank_zero_warn(warning)


def _describe_nothing_to_do(module: Any, stage: str) -> str:
    names = {"fit": ("max_epochs", "max_steps", "limit_train_batches"), "validate": ("limit_val_batches",)}
    name = next((name for name in names.get(stage, ()) if getattr(module.trainer, name) == 0), "")
    verb = "train" if stage == "fit" else stage
    return f"trainer.{name} is 0, so there is nothing to {verb}: leave it out, or raise it" if name else ""


def _describe_extra_slurm_tasks(module: Any, stage: str) -> str:
    tasks, ranks = int(os.environ.get("SLURM_STEP_NUM_TASKS", 1)), module.trainer.world_size
    if tasks <= ranks:
        return ""
    return (
        f"srun started {tasks} tasks, and trainer.devices x num_nodes is {ranks}: set trainer.devices to the tasks of "
        "a node, or start one task"
    )


def _describe_missing_problems(module: Any, stage: str) -> str:
    task = task_of_trainer(module.trainer)
    tasks = [] if task is None else task.validation_tasks if stage == "validate" and task.validation_tasks else [task]
    if task is None or any(of.problems(_SPLITS[stage]) for of in tasks):
        return ""
    split = _SPLITS[stage]
    remedy = f"make load_problems return problems for split {split}" + ", or use lit-rl validate" * (stage == "test")
    if split != "train" and task.max_validation_problems == 0:
        remedy = "raise data.max_validation_problems"
    elif isinstance(task, SingleFileTask):
        remedy = "give split='train', which trains on four fifths of the problems"
    return f"{task.name} has no {split} problems, so there is nothing to {stage}: {remedy}"


def _describe_missing_sandbox(module: Any, stage: str) -> str:
    task, samples = (
        task_of_trainer(module.trainer),
        sampled_tasks_and_splits(module.trainer, stage, train=module.samples_to_train),
    )
    if module.collector.sandbox is not None or task is None:
        return ""
    if not any(problem.check.runs_program for of, split in samples for problem in of.problems(split)):
        return ""
    return (
        f"{type(module).__name__} has no sandbox, and the problems of {task.name} have programs to run: set "
        "model.sandbox, such as lit_rl.execution.Sandbox"
        + ("" if module.samples_to_train or stage != "fit" else ", or trainer.limit_val_batches to 0")
    )


def _describe_unfit_precision(module: Any, stage: str) -> str:
    return precision_fault(module.trainer.precision_plugin.precision)


def precision_fault(precision: Any) -> str:
    """Return what is wrong with a precision that scales losses, or would lose small gradients; empty if nothing is."""
    if str(precision) in ("16", "16-mixed"):
        fault = "scales losses, which gradient clipping does not support"
    elif precision == "16-true":
        fault = "keeps weights in float16, in which small gradients become 0"
    else:
        return ""
    return f"trainer.precision {precision} {fault}: use bf16-mixed or 32-true"


def _describe_validation_overlap(module: Any, stage: str) -> str:
    task = task_of_trainer(module.trainer)
    if task is None or stage != "fit" or not module.trainer.limit_val_batches:
        return ""
    trained = {one.task_id: one.prompt for one in task.problems("train")}
    for of in task.validation_tasks or [task]:
        problems = of.problems("validation")
        if same := sum(trained.get(one.task_id) == one.prompt for one in problems):
            return (
                f"{same} of {len(problems)} validation problems of {of.name} are also trained on: make "
                "load_problems return other problems for the split validation"
            )
    return ""


def _describe_no_evaluation(module: Any, stage: str) -> str:
    callbacks, samples = module.trainer.callbacks, module.sampling is not None
    measures = any(hasattr(one, "ks") for one in callbacks) or _has_user_callback(callbacks) or not samples
    if stage not in ("fit", "validate") or not module.trainer.limit_val_batches or measures:
        return ""
    return (
        "without the callback ExecutionEvaluation, validation measures nothing: use lit_rl.Trainer, or add the callback"
    )


def _describe_endless_run(module: Any, stage: str) -> str:
    trainer, clock, kinds = module.trainer, module.clock, EarlyStopping | Timer
    limited = clock.limit is not None or trainer.max_epochs != -1 or trainer.max_steps != -1
    keeps = any(isinstance(one, kinds) or hasattr(one, "resume_hint") for one in trainer.callbacks)
    if stage != "fit" or limited or keeps or _has_user_callback(trainer.callbacks):
        return ""
    return (
        f"this run has no limit and no Checkpointing: give the module max_{clock.unit}s, or the trainer "
        "max_epochs or max_time"
    )


def _describe_unplayable_problems(module: Any, stage: str) -> str:
    """A problem that the environment cannot play gets one turn; a task without any problem it can play is refused."""
    environment: Environment = module.collector.environment
    if environment.max_turns < 2:
        return ""
    for of, split in sampled_tasks_and_splits(module.trainer, stage, train=module.samples_to_train):
        problems = of.problems(split)
        reasons = [environment.reason_unplayable(problem) for problem in problems]
        refused = [reason for reason in reasons if reason]
        if refused and len(refused) == len(problems):
            return refused[0]
        if problems:
            feedback_check(environment, problems[reasons.index("")])
        if refused:
            rank_zero_info(f"{of.name}: {len(refused)} of {len(problems)} {split} problems have one turn only")
    return ""


def _has_user_callback(callbacks: list[pl.Callback]) -> bool:
    """Return whether there is a callback of the user's own, which may do what ours do not."""
    return any(not type(one).__module__.startswith(("lit_rl.", "lightning.")) for one in callbacks)


Check = Callable[[Any, str], str]
CHECKS_THAT_RAISE: tuple[Check, ...] = (
    _describe_nothing_to_do,
    _describe_extra_slurm_tasks,
    _describe_missing_problems,
    _describe_unfit_precision,
    _describe_missing_sandbox,
    _describe_unplayable_problems,
)
CHECKS_THAT_WARN: tuple[Check, ...] = (_describe_validation_overlap, _describe_no_evaluation, _describe_endless_run)


def warn_about_high_learning_rates(optimizer: optim.Optimizer) -> None:
    """Warn about a learning rate that is hardly meant for an Adam."""
    is_adam = isinstance(optimizer, optim.Adam | optim.NAdam | optim.RAdam | optim.Adamax)
    groups = optimizer.param_groups if is_adam else ()
    rate = max((one.get("max_lr", one.get("initial_lr", one["lr"])) for one in groups), default=0.0)
    if rate > MAX_ADAM_LR:
        rank_zero_warn(
            f"the learning rate is {rate:g}, and {type(optimizer).__name__} moves a weight by about that much in each "
            "update: lower the rate (1e-6 to 1e-3 are usual)"
        )


def sampled_tasks_and_splits(trainer: pl.Trainer, stage: str, *, train: bool) -> list[tuple[TaskDataModule, Split]]:
    """List the tasks and splits whose problems are sampled in a stage; the list is empty without a task."""
    task = task_of_trainer(trainer)
    found: list[tuple[TaskDataModule, Split]] = []
    if task is not None and (stage == "validate" or (stage == "fit" and trainer.limit_val_batches)):
        found += [(of, "validation") for of in task.validation_tasks or [task]]
    if task is not None and (stage in ("test", "predict") or (stage == "fit" and train)):
        found.append((task, _SPLITS[stage]))
    return found


def limit_precision_conversion(trainer: pl.Trainer) -> None:
    """Keep a precision from converting batches of problems, and from converting buffers in bf16-true."""
    precision: Any = trainer.precision_plugin
    # bf16-true and 64-true would convert the batch, which holds no tensors, and fail on frozen dataclasses.
    precision.convert_input = lambda batch: batch
    if precision.precision == "bf16-true":
        precision.convert_module = _cast_parameters_to_bfloat16


def _cast_parameters_to_bfloat16(module: torch.nn.Module) -> torch.nn.Module:
    """Convert weights alone: with rotary frequencies in bfloat16, positions from some hundred on would be wrong."""
    for parameter in module.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return module


def task_of_trainer(trainer: pl.Trainer) -> TaskDataModule | None:
    """Return the task that a trainer runs, if it runs a task."""
    task: Any = getattr(trainer, "datamodule", None)
    return task if isinstance(task, TaskDataModule) else None
