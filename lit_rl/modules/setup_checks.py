"""Checks at setup: problems, a precision that works, a sandbox."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from torch import optim

from lit_rl.arguments import UsageError
from lit_rl.data.cut_task import CutTask
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.models.codecs.codec import Codec
from lit_rl.reports.diagnosis.history import MAX_ADAM_LR
from lit_rl.rollout import Environment
from lit_rl.rollout.environment import check_before_answer

_SPLITS: dict[str, Split] = {"fit": "train", "validate": "validation", "test": "test", "predict": "train"}


def require_problems(trainer: pl.Trainer, stage: str) -> None:
    """Check whether the task has problems for this stage."""
    task = task_of(trainer)
    if task is None:
        return
    tasks = (task.validation_tasks or [task]) if stage == "validate" else [task]
    if not any(of.problems(_SPLITS[stage]) for of in tasks):
        verb, split = next(one for one in _SPLITS.items() if one[0] == stage)  # its type is one of Lightning's
        remedy = f"have load_problems return some for the split {split}" + ", or use lit-rl validate" * (verb == "test")
        if split != "train" and task.max_validation_problems == 0:
            remedy = "raise data.max_validation_problems"
        elif isinstance(task, CutTask):
            remedy = "give split='train', which trains on four fifths of it"
        raise UsageError(f"{task.name} has no {split} problems, so there is nothing to {verb}: {remedy}")
    measured = task.validation_tasks or [task]
    trained = {one.task_id: one.prompt for one in task.problems("train")} if stage == "fit" else {}
    for of in measured if stage == "fit" and trainer.limit_val_batches else ():
        of_training = sum(trained.get(one.task_id) == one.prompt for one in of.problems("validation"))
        if of_training:
            rank_zero_warn(
                f"{of_training} of {len(of.problems('validation'))} validation problems of {of.name} are trained on, "
                "thus not held out: have load_problems return others for the split validation"
            )
    if stage == "fit" and trainer.limit_val_batches and not any(of.problems("validation") for of in measured):
        rank_zero_info(
            f"{task.name} has no validation problems, so nothing is measured while it trains: return some for the "
            "split validation, give data.validation_tasks, or set trainer.limit_val_batches to 0"
        )


def doubt_measuring(trainer: pl.Trainer) -> None:
    """Warn where validation has nothing that counts what passes; a callback of the user's own may."""
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    own = any(not type(one).__module__.startswith(("lit_rl.", "lightning.")) for one in callbacks)
    if trainer.limit_val_batches and not (own or any(hasattr(one, "metric_names") for one in callbacks)):
        rank_zero_warn(
            "no ExecutionEvaluation among the callbacks, so that validation measures nothing: take lit_rl.Trainer, or "
            "add the callback"
        )


def doubt_rates(optimizer: optim.Optimizer) -> None:
    """Warn of a learning rate that an Adam hardly means."""
    is_adam = isinstance(optimizer, optim.Adam | optim.NAdam | optim.RAdam | optim.Adamax)
    groups = optimizer.param_groups if is_adam else ()
    rate = max((one.get("max_lr", one.get("initial_lr", one["lr"])) for one in groups), default=0.0)
    if rate > MAX_ADAM_LR:
        rank_zero_warn(
            f"the learning rate is {rate:g}, and {type(optimizer).__name__} moves a weight by about that much in each "
            "update: lower it (1e-6 to 1e-3 are usual)"
        )


def splits_of(trainer: pl.Trainer, stage: str, *, train: bool) -> list[tuple[TaskDataModule, Split]]:
    """List whose problems, of which split, are sampled in a stage; none without a task.

    Args:
        trainer: with the task.
        stage: of the run.
        train: whether training samples too.
    """
    task = task_of(trainer)
    found: list[tuple[TaskDataModule, Split]] = []
    if task is not None and (stage == "validate" or (stage == "fit" and trainer.limit_val_batches)):
        found += [(of, "validation") for of in task.validation_tasks or [task]]
    if task is not None and (stage in ("test", "predict") or (stage == "fit" and train)):
        found.append((task, _SPLITS[stage]))
    return found


def require_no_programs(module: Any, stage: str) -> None:
    """Check that a module without a sandbox meets no problem that has a program to run.

    Args:
        module: a :class:`~lit_rl.modules.PolicyModule` with its trainer.
        stage: of the run.
    """
    task, samples = task_of(module.trainer), splits_of(module.trainer, stage, train=module.samples_to_train)
    if task is not None and any(problem.check.runs_program for of, split in samples for problem in of.problems(split)):
        raise UsageError(
            f"{type(module).__name__} has no sandbox, and the problems of {task.name} have programs to run: set "
            "model.sandbox, such as lit_rl.execution.Sandbox"
            + ("" if module.samples_to_train or stage != "fit" else ", or trainer.limit_val_batches to 0")
        )


def require_playable(environment: Environment, trainer: pl.Trainer, stage: str, *, train: bool) -> None:
    """Check whether an environment can play the problems of this stage.

    A problem that it cannot play gets one turn; a task of which it can play none is refused.

    Args:
        environment: answers the policy.
        trainer: with the task.
        stage: of the run.
        train: whether training samples too.
    """
    for of, split in splits_of(trainer, stage, train=train) if environment.max_turns > 1 else ():
        problems = of.problems(split)
        reasons = [environment.refusal(problem) for problem in problems]
        refused = [reason for reason in reasons if reason]
        if refused and len(refused) == len(problems):
            raise UsageError(refused[0])
        if problems:
            check_before_answer(environment, problems[reasons.index("")])
        if refused:
            rank_zero_info(f"{of.name}: {len(refused)} of {len(problems)} {split} problems have one turn only")


def require_extendable(codec: Codec, trainer: pl.Trainer) -> None:
    """Check whether conversations about the task's problems can have a second turn, as the policy writes them."""
    task = task_of(trainer)
    for of in [task, *(task.validation_tasks or ())] if task is not None else []:
        for split in ("train", "validation"):
            for problem in of.problems(split):
                codec.require_extendable(problem)


def check_precision(precision: Any) -> None:
    """Refuse a trainer's precision that scales losses, or would lose small gradients."""
    faults = {
        ("16", "16-mixed"): "scales losses, and gradients would be clipped in their scaled size",
        ("16-true",): "keeps weights in float16, in which small gradients become 0",
    }
    for names, fault in faults.items():
        if str(precision) in names:
            raise UsageError(f"trainer.precision {precision} {fault}: use bf16-mixed or 32-true")


def settle_precision(trainer: pl.Trainer) -> None:
    """Keep a precision that converts tensors from touching batches of problems, and buffers in bf16-true."""
    precision: Any = trainer.precision_plugin
    check_precision(precision.precision)
    # bf16-true and 64-true would convert the batch, which holds no tensors, and fail on frozen dataclasses.
    precision.convert_input = lambda batch: batch
    if precision.precision == "bf16-true":
        precision.convert_module = _narrow_weights


def _narrow_weights(module: torch.nn.Module) -> torch.nn.Module:
    """Convert weights alone: with rotary frequencies in bfloat16, positions from some hundred on would be wrong."""
    for parameter in module.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return module


def task_of(trainer: pl.Trainer) -> TaskDataModule | None:
    """The task that a trainer runs, if it runs one."""
    task: Any = getattr(trainer, "datamodule", None)
    return task if isinstance(task, TaskDataModule) else None
