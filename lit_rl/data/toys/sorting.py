"""Sorting n numbers: a task that is solved in seconds and shows how an algorithm learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from lit_rl.data.task import SmallTaskOptions, Split, TaskDataModule
from lit_rl.execution.checks import TokenTarget
from lit_rl.types import Problem

PROMPTS = ((1, 0, 2), (3, 2, 4), (1, 2, 3))
"""The three prompts of the lecture."""


class Sorting(TaskDataModule):
    """Prompts of n numbers; the answer is the same numbers in order.

    Training and evaluation use the same prompts: the toy policy has a parameter for every position and nothing to
    generalise with. Every batch holds all prompts.

    Args:
        prompts: lists of the same length of numbers >= 0; by default the lecture's three.
        batch_size: prompts per rollout on one rank; ``None`` for all of them.
        **options: see :class:`lit_rl.data.task.TaskDataModule`.

    Raises:
        ValueError: no prompts, of different lengths, or with negative numbers.
    """

    name = "sorting"

    def __init__(
        self,
        prompts: list[list[int]] | None = None,
        *,
        batch_size: int | None = None,
        **options: Unpack[SmallTaskOptions],
    ) -> None:
        chosen = [tuple(prompt) for prompt in (PROMPTS if prompts is None else prompts)]
        super().__init__(batch_size=max(1, len(chosen)) if batch_size is None else batch_size, **options)
        lengths = {len(prompt) for prompt in chosen}
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError(f"sorting needs prompts of one length of at least 1, got {chosen}")
        if min(min(prompt) for prompt in chosen) < 0:
            raise ValueError(f"numbers to sort are token ids, so none may be negative, got {chosen}")
        self.prompts = chosen

    def load_problems(self, split: Split) -> list[Problem]:
        """The same problems in every split."""
        return [sorting_problem(prompt) for prompt in self.prompts]


def sorting_problem(prompt: Sequence[int]) -> Problem:
    """Sort these numbers.

    Example:
        >>> sorting_problem([3, 1, 2]).reference
        '1 2 3'
    """
    shown = " ".join(map(str, prompt))
    return Problem(
        task_id=f"sorting/{shown.replace(' ', '-')}",
        prompt=shown,
        check=TokenTarget(tuple(prompt)),
        reference=" ".join(map(str, sorted(prompt))),
    )
