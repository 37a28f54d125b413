"""Service-robot tasks to train on: rooms, things and people that the RoboEval benchmark does not have."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import Any, Unpack

from lit_rl.data.robots.robot_checks import RobotWorlds
from lit_rl.data.robots.robot_errands import MOST, run_errands
from lit_rl.data.robots.robot_families import FAMILIES, RobotTask
from lit_rl.data.robots.robot_prompts import PromptForm, robot_problem
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.types import Problem


class RobotTasks(TaskDataModule):
    """Generated service-robot tasks: fetch, search, tell, relay, patrol, count, deliver on demand.

    Validation instructions do not occur in training. With ``num_errands`` an instruction asks for several of these
    (all but patrol) and a program is 10 to 32 lines long: 10 to 19 with two errands, 16 to 26 with three, 23 to 32
    with four. The problem's field ``errands`` then lists instruction, reference and names of each.

    Args:
        num_train: training problems.
        num_validation: validation (and test) problems.
        task_seed: seed of the generator; another seed gives other problems.
        form: ``instruct`` (chat messages) or ``completion`` (beginning of a source file).
        timeout_seconds: CPU seconds for a program in one world.
        num_errands: errands that one program runs, 1 to 4.
        **options: see :class:`lit_rl.data.task.TaskDataModule`.

    Raises:
        ValueError: ``num_errands`` is not a whole number from 1 to 4.
    """

    name = "robot_tasks"

    def __init__(
        self,
        num_train: int = 512,
        num_validation: int = 64,
        task_seed: int = 0,
        form: PromptForm = "instruct",
        timeout_seconds: float = 1.0,
        num_errands: int = 1,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        if type(num_errands) is not int or not 1 <= num_errands <= MOST:
            raise ValueError(f"RobotTasks.num_errands must be a whole number from 1 to {MOST}, got {num_errands!r}")
        self.num_train = num_train
        self.num_validation = num_validation
        self.task_seed = task_seed
        self.form = form
        self.timeout_seconds = timeout_seconds
        self.num_errands = num_errands

    def load_problems(self, split: Split) -> list[Problem]:
        """Problems of all families in turn; with several errands, families are drawn."""
        tasks = generate(self.num_train + self.num_validation, seed=self.task_seed, num_errands=self.num_errands)
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
                fields=_fields(task),
            )
            for index, task in enumerate(chosen)
        ]


def _fields(task: RobotTask) -> dict[str, Any]:
    """Of a task of several errands: what each is, and the names that only it is about."""
    errands = [
        {
            "instruction": errand.task.instruction,
            "reference": errand.task.reference,
            "names": [name for names in asdict(errand.names).values() for name in names],
        }
        for errand in task.errands
    ]
    return {"errands": errands} if errands else {}


def generate(count: int, *, seed: int = 0, num_errands: int = 1) -> list[RobotTask]:
    """Tasks with different instructions; a longer list begins with a shorter one.

    Args:
        count: of the tasks.
        seed: of the generator.
        num_errands: 1 takes the families in turn; more draws that many of them for each task.

    Raises:
        ValueError: there are not this many different instructions.
    """
    rng = random.Random(seed)
    tasks: dict[str, RobotTask] = {}
    for attempt in range(20 * count):
        if len(tasks) == count:
            break
        task = FAMILIES[attempt % len(FAMILIES)](rng) if num_errands == 1 else run_errands(rng, num_errands)
        tasks.setdefault(task.instruction, task)
    if len(tasks) < count:
        raise ValueError(f"cannot make {count} different robot tasks, only {len(tasks)}: ask for fewer")
    return list(tasks.values())
