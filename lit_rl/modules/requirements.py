"""What a run needs, checked when it is set up: problems, a precision that works, a sandbox."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl

from lit_rl.data.base import Split, TaskDataModule

_SPLITS: dict[str, Split] = {"fit": "train", "validate": "validation", "test": "test", "predict": "train"}


def require_problems(trainer: pl.Trainer, stage: str) -> None:
    """Check whether the task has what this stage is about.

    Raises:
        ValueError: it has not one problem for it.
    """
    task = task_of(trainer)
    if task is None:
        return
    tasks = (task.validation_tasks or [task]) if stage == "validate" else [task]
    if not any(of.problems(_SPLITS[stage]) for of in tasks):
        verb = next(name for name in _SPLITS if name == stage)  # Lightning's stages are members of an enumeration
        raise ValueError(f"{task.name} has no {_SPLITS[stage]} problems, so there is nothing to {verb}")


def require_no_programs(module: Any, stage: str) -> None:
    """Check that a module without a sandbox meets no problem that has a program to run.

    Args:
        module: a :class:`~lit_rl.modules.PolicyModule` with its trainer.
        stage: of the run.

    Raises:
        ValueError: the problems of this stage have programs.
    """
    task = task_of(module.trainer)
    if task is None:
        return
    validates = stage == "validate" or (stage == "fit" and module.trainer.limit_val_batches)
    problems = [p for of in task.validation_tasks or [task] for p in of.problems("validation")] if validates else []
    if stage == "test":
        problems += task.problems("test")
    if stage == "predict" or (stage == "fit" and module.samples_to_train):
        problems += task.problems("train")
    if any(problem.check.runs_program for problem in problems):
        raise ValueError(
            f"{type(module).__name__} has no sandbox, and the problems of {task.name} have programs to run: set "
            "model.sandbox, such as lit_rl.execution.Sandbox"
            + ("" if module.samples_to_train or stage != "fit" else ", or trainer.limit_val_batches to 0")
        )


def settle_precision(trainer: pl.Trainer) -> None:
    """Let batches of problems pass a precision that would convert tensors.

    Raises:
        ValueError: the precision scales losses, or would lose small gradients.
    """
    precision: Any = trainer.precision_plugin
    if getattr(precision, "scaler", None) is not None:
        raise ValueError(
            "precision 16-mixed scales losses, and gradients would be clipped in their scaled size: "
            "use bf16-mixed or 32-true"
        )
    if precision.precision == "16-true":
        raise ValueError(
            "precision 16-true keeps weights in float16, in which small gradients become 0: use bf16-mixed or 32-true"
        )
    # bf16-true and 64-true would convert the batch, which holds no tensors, and fail on frozen dataclasses.
    precision.convert_input = unchanged


def task_of(trainer: pl.Trainer) -> TaskDataModule | None:
    """The task that a trainer runs, if it runs one."""
    task: Any = getattr(trainer, "datamodule", None)
    return task if isinstance(task, TaskDataModule) else None


def unchanged(batch: Any) -> Any:
    """The batch as it is."""
    return batch
