"""A corridor with a goal at its end: the smallest world in which a critic has something to learn."""

from __future__ import annotations

from typing import Unpack

from lit_rl.data.task import SmallTaskOptions, Split, TaskDataModule
from lit_rl.execution.checks import TokenTarget
from lit_rl.types import Problem


class Corridor(TaskDataModule):
    """Walk to the goal from each starting cell. With one cell and one step it is a single binary choice.

    A completion is a row of actions, 1 towards the goal and 0 away from it. It ends at the goal, which pays 1,
    or after the sampling's ``max_tokens``. With discount ``gamma`` the value of distance d under the best
    policy is ``gamma ** (d - 1)``.

    Args:
        num_cells: cells besides the goal.
        starts: distances to start from; by default every cell.
        batch_size: starts per rollout on one rank; ``None`` for all of them.
        **options: see :class:`lit_rl.data.task.TaskDataModule`.

    Raises:
        ValueError: a start outside the corridor.
    """

    name = "corridor"

    def __init__(
        self,
        num_cells: int = 5,
        starts: list[int] | None = None,
        *,
        batch_size: int | None = None,
        **options: Unpack[SmallTaskOptions],
    ) -> None:
        chosen = list(range(1, num_cells + 1)) if starts is None else list(starts)
        super().__init__(batch_size=max(1, len(chosen)) if batch_size is None else batch_size, **options)
        if not chosen or any(not 1 <= start <= num_cells for start in chosen):
            raise ValueError(f"starts must be 1 to num_cells ({num_cells}) steps from the goal, got {chosen}")
        self.num_cells = num_cells
        self.starts = chosen

    def load_problems(self, split: Split) -> list[Problem]:
        """The same problems in every split."""
        return [corridor_problem(self.num_cells, start) for start in self.starts]


def corridor_problem(num_cells: int, start: int) -> Problem:
    """Walk to the goal from ``start`` steps away.

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
