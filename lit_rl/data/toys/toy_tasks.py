"""Toy worlds in numbers, and their tasks: sorting a few numbers, walking along a corridor. No text, no program.

Sorting is solved in seconds and shows how an algorithm learns. The corridor with a goal at its end is the smallest
world in which a critic has something to learn.

Source:
    sorting and its rewards: the policy-gradient lecture of Stanford CS336, 2025
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Unpack

from lit_rl.data.task import Split, TaskDataModule, TaskOptionsNoBatchSize
from lit_rl.execution.checks import TokenTarget
from lit_rl.types import Problem

STAY_AWAY, APPROACH = 0, 1
"""The two actions in the corridor."""


def numbers_of_toy_problem(problem: Problem) -> tuple[int, ...]:
    """Return the numbers of a toy problem."""
    assert problem.check.numbers is not None
    return problem.check.numbers


def count_sorted_positions(prompt: Sequence[int], response: Sequence[int]) -> int:
    """Return the number of positions where the response equals the sorted prompt; missing positions count as wrong.

    Example:
        >>> count_sorted_positions([3, 1, 0, 2], [0, 3, 1, 2])
        1
    """
    return sum(ours == right for ours, right in zip(response, sorted(prompt), strict=False))


def sort_inclusion_ordering(prompt: Sequence[int], response: Sequence[int]) -> int:
    """Give one point for each prompt number that occurs in the response, and one for each ordered pair of neighbours.

    This gives more partial credit than :func:`count_sorted_positions`: 0 to 2n - 1 for a response of n numbers.

    Example:
        >>> sort_inclusion_ordering([3, 1, 0, 2], [0, 3, 1, 2])
        6
    """
    included = sum(number in response for number in prompt)
    ordered = sum(first <= second for first, second in pairwise(response))
    return included + ordered


class Corridor(TaskDataModule):
    """Walk to the goal from each starting cell. With one cell and one step it is a single binary choice.

    A completion is a row of actions, 1 towards the goal and 0 away from it. It ends at the goal, which gives 1,
    or after the sampling's ``max_tokens``. With discount ``gamma`` the value of distance d under the best
    policy is ``gamma ** (d - 1)``.

    Args:
        num_cells: cells besides the goal.
        starts: distances to start from, each from 1 to ``num_cells``; by default every cell.
        batch_size: starts per rollout on one rank; ``None`` for all of them.
        **options: see :class:`lit_rl.data.task.TaskDataModule`.
    """

    name = "corridor"

    def __init__(
        self,
        num_cells: int = 5,
        starts: list[int] | None = None,
        *,
        batch_size: int | None = None,
        **options: Unpack[TaskOptionsNoBatchSize],
    ) -> None:
        chosen = list(range(1, num_cells + 1)) if starts is None else list(starts)
        super().__init__(batch_size=max(1, len(chosen)) if batch_size is None else batch_size, **options)
        self.num_cells = num_cells
        self.starts = chosen

    def load_problems(self, split: Split) -> list[Problem]:
        return [corridor_problem(self.num_cells, start) for start in self.starts]


def corridor_problem(num_cells: int, start: int) -> Problem:
    """Return the problem of walking to the goal from ``start`` steps away.

    Example:
        >>> corridor_problem(5, 2).reference
        '1 1'
    """
    return Problem(
        task_id=f"corridor/{num_cells}/{start}",
        prompt=f"{num_cells} {start}",
        check=TokenTarget((num_cells, start)),
        reference=" ".join(["1"] * start),
    )


LECTURE_PROMPTS = ((1, 0, 2), (3, 2, 4), (1, 2, 3))
"""The three prompts of the lecture."""


class Sorting(TaskDataModule):
    """Prompts of n numbers; the answer is the same numbers in order.

    Training and evaluation use the same prompts: the toy policy has a parameter for every position and nothing to
    generalise with. Every batch holds all prompts by default.

    Args:
        prompts: lists of the same length of numbers >= 0; by default the lecture's three.
        batch_size: prompts per rollout on one rank; ``None`` for all of them.
        **options: see :class:`lit_rl.data.task.TaskDataModule`.
    """

    name = "sorting"

    def __init__(
        self,
        prompts: list[list[int]] | None = None,
        *,
        batch_size: int | None = None,
        **options: Unpack[TaskOptionsNoBatchSize],
    ) -> None:
        chosen = [tuple(prompt) for prompt in (LECTURE_PROMPTS if prompts is None else prompts)]
        super().__init__(batch_size=max(1, len(chosen)) if batch_size is None else batch_size, **options)
        self.prompts = chosen

    def load_problems(self, split: Split) -> list[Problem]:
        return [sorting_problem(prompt) for prompt in self.prompts]


def sorting_problem(prompt: Sequence[int]) -> Problem:
    """Return the problem of sorting these numbers.

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
