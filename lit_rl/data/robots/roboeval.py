"""RoboEval: service-robot programs, tested in worlds. To measure on, never to train on.

The benchmark's licence forbids its use as training data, and it is not shipped here: the task reads a user's
own checkout. To train robot rewards, use :class:`RobotTasks` or :class:`RoboInstruct`.
"""

from __future__ import annotations

from typing import Unpack

from lit_rl.data.local_files import local_path
from lit_rl.data.prompts import Form
from lit_rl.data.robots.roboeval_files import read_tasks
from lit_rl.data.robots.robot_checks import RobotWorlds
from lit_rl.data.robots.robot_tasks import robot_problem
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.types import Problem


class RoboEval(TaskDataModule):
    """The RoboEval benchmark: 16 tasks in 5 wordings each.

    A completion passes if its program succeeds in every world of its task. ``pass@1`` is the mean over the 80
    prompts.

    Args:
        checkout: root of a clone of https://github.com/ut-amrl/codebotler.
        form: ``instruct`` (chat messages) or ``completion`` (beginning of a source file).
        timeout_seconds: CPU seconds for a program in one world.
        **options: see :class:`lit_rl.data.task.TaskDataModule`.

    Source:
        Hu et al. 2024, https://arxiv.org/abs/2311.11183
    """

    name = "roboeval"

    def __init__(
        self,
        checkout: str,
        form: Form = "instruct",
        timeout_seconds: float = 1.0,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.checkout = checkout
        self.form = form
        self.timeout_seconds = timeout_seconds

    def load_problems(self, split: Split) -> list[Problem]:
        """All 80 problems for validation and test, none to train on."""
        if split == "train":
            return []
        return [
            robot_problem(
                f"roboeval/{task.name}/{index}",
                instruction,
                RobotWorlds(task.tests, self.timeout_seconds),
                form=self.form,
                fields={"task": task.name},
            )
            for task in read_tasks(local_path(self.checkout))
            for index, instruction in enumerate(task.prompts)
        ]
