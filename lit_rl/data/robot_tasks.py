"""Service-robot tasks to train on: rooms, things and people that the RoboEval benchmark does not have."""

from __future__ import annotations

import random
from typing import Unpack

from lit_rl.data.options import TaskOptions
from lit_rl.data.robot_families import FAMILIES, RobotTask
from lit_rl.data.robot_prompts import PromptForm, robot_problem
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution.checks import RobotWorlds
from lit_rl.types import Problem


class RobotTasks(TaskDataModule):
    """Generated service-robot tasks: fetch, search, tell, relay, patrol, count, deliver on demand.

    Validation instructions do not occur in training.

    Args:
        num_train: training problems.
        num_validation: validation (and test) problems.
        task_seed: seed of the generator; another seed gives other problems.
        form: ``instruct`` (chat messages) or ``completion`` (beginning of a source file).
        timeout_seconds: CPU seconds for a program in one world.
        **options: see :class:`lit_rl.data.task.TaskDataModule`.
    """

    name = "robot_tasks"

    def __init__(
        self,
        num_train: int = 512,
        num_validation: int = 64,
        task_seed: int = 0,
        form: PromptForm = "instruct",
        timeout_seconds: float = 1.0,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.num_train = num_train
        self.num_validation = num_validation
        self.task_seed = task_seed
        self.form = form
        self.timeout_seconds = timeout_seconds

    def load_problems(self, split: Split) -> list[Problem]:
        """Problems of all families in turn."""
        tasks = generate(self.num_train + self.num_validation, seed=self.task_seed)
        # Validation comes first, so that more training problems leave it as it is.
        chosen = tasks[self.num_validation :] if split == "train" else tasks[: self.num_validation]
        first = self.num_validation if split == "train" else 0
        return [
            robot_problem(
                f"robot_tasks/{self.task_seed}/{first + index}",
                task.instruction,
                RobotWorlds(task.tests, self.timeout_seconds),
                form=self.form,
                reference=task.reference,
            )
            for index, task in enumerate(chosen)
        ]


def generate(count: int, *, seed: int = 0) -> list[RobotTask]:
    """Tasks with different instructions, the families in turn; a longer list begins with a shorter one.

    Raises:
        ValueError: there are not this many different instructions.
    """
    rng = random.Random(seed)
    tasks: dict[str, RobotTask] = {}
    for attempt in range(20 * count):
        if len(tasks) == count:
            break
        task = FAMILIES[attempt % len(FAMILIES)](rng)
        tasks.setdefault(task.instruction, task)
    if len(tasks) < count:
        raise ValueError(f"cannot make {count} different robot tasks, only {len(tasks)}: ask for fewer")
    return list(tasks.values())
