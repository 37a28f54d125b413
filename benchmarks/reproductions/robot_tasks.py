"""Service-robot tasks to train on: rooms, things and people that the RoboEval benchmark does not have.

Several errands may be put in one instruction and one program, in worlds that they share. Every errand is a task of a
family of its own, about rooms, things and people that no other errand of the program names. So their conditions do not
touch each other, and what must be true in a world is that all of them are.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, Unpack

from lit_rl.data.prompts import Form
from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.data.robots.robot_program import DEFINITION
from lit_rl.data.robots.robot_tasks import robot_problem
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.types import Problem
from reproductions.robot_families import ERRANDS, FAMILIES, PEOPLE, ROOMS, THINGS, Errand, Names, RobotTask

MOST = 4
"""Most errands of a task: each needs three rooms of its own."""

_START = "    start = get_current_location()\n"
_NUMBERS = ("Two", "Three", "Four")


def run_errands(rng: random.Random, number: int) -> RobotTask:
    """A task of this many errands, each of another family.

    The worlds are as many as those of the errand that has most; an errand with fewer meets its own several times.
    The condition of a world is ``["and", ...]`` with one formula for each errand, in their order.

    Args:
        rng: what chooses families and names.
        number: 2 to 4.
    """
    families = rng.sample(ERRANDS, number)
    errands = tuple(
        Errand(family(rng, names), names) for family, names in zip(families, _deal(rng, number), strict=True)
    )
    tasks = [errand.task for errand in errands]
    instructions = " ".join(f"({place}) {task.instruction}" for place, task in enumerate(tasks, start=1))
    return RobotTask(
        instruction=f"{_NUMBERS[number - 2]} errands, in any order: {instructions}",
        tests=tuple(_joint(tasks, world) for world in range(max(len(task.tests) for task in tasks))),
        reference=one_program([task.reference for task in tasks]),
        errands=errands,
    )


def one_program(programs: Sequence[str]) -> str:
    r"""One program that runs these one after the other; the start location is queried once, at the top.

    Example:
        >>> one_program(["def task_program():\n    go_to(start)\n", 'def task_program():\n    say("hi")\n'])
        'def task_program():\n    go_to(start)\n    say("hi")\n'
    """
    bodies = [program.removeprefix(DEFINITION) for program in programs]
    asked = _START if any(_START in body for body in bodies) else ""
    return DEFINITION + asked + "".join(body.replace(_START, "") for body in bodies)


def _deal(rng: random.Random, number: int) -> list[Names]:
    """Names for each errand, all different."""
    rooms, things, people = (rng.sample(names, len(names)) for names in (ROOMS, THINGS, PEOPLE))
    hands = range(number)
    return [Names(tuple(rooms[i::MOST]), tuple(things[i::MOST]), tuple(people[i::MOST])) for i in hands]


def _joint(tasks: Sequence[RobotTask], world: int) -> RobotTest:
    """One world that holds a world of every errand."""
    tests = [task.tests[world % len(task.tests)] for task in tasks]
    states = [test.state for test in tests]
    start = states[0]["robot_location"]
    rooms = [room for state in states for room in state["locations"] if room != start]
    state: dict[str, Any] = {
        "locations": [*rooms, start],
        "objects": dict(chain.from_iterable(state["objects"].items() for state in states)),
        "agents": dict(chain.from_iterable(state["agents"].items() for state in states)),
        "robot_location": start,
    }
    return RobotTest(state=state, should_timeout=False, check=["and", *(test.check for test in tests)])


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
    """

    name = "robot_tasks"

    def __init__(
        self,
        num_train: int = 512,
        num_validation: int = 64,
        task_seed: int = 0,
        form: Form = "instruct",
        timeout_seconds: float = 1.0,
        num_errands: int = 1,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
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
    """Fields of a task of several errands: each errand, and the names that only it uses."""
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
    """
    rng = random.Random(seed)
    tasks: dict[str, RobotTask] = {}
    for attempt in range(20 * count):
        if len(tasks) == count:
            break
        task = FAMILIES[attempt % len(FAMILIES)](rng) if num_errands == 1 else run_errands(rng, num_errands)
        tasks.setdefault(task.instruction, task)
    assert len(tasks) == count, f"there are only {len(tasks)} different instructions"
    return list(tasks.values())
