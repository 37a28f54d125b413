"""Arguments that every task takes, as a type: names and meaning are those of the base class."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from lit_rl.data.prefer_mixed import PreferMixed
from lit_rl.execution.program import Extraction

if TYPE_CHECKING:
    from lit_rl.data.task import TaskDataModule


class SmallTaskOptions(TypedDict, total=False):
    """Arguments of :class:`lit_rl.data.TaskDataModule` for tasks whose batch is by default the whole task."""

    validation_batch_size: int
    seed: int | None
    max_train_problems: int | None
    max_validation_problems: int | None
    validation_tasks: list[TaskDataModule] | None
    extraction: Extraction | None
    prefer: PreferMixed | None


class TaskOptions(SmallTaskOptions, total=False):
    """Arguments of :class:`lit_rl.data.TaskDataModule`."""

    batch_size: int
