"""Several errands in one instruction and one program, in worlds that they share.

Every errand is a task of a family of its own, about rooms, things and people that no other errand of the program
names. So their conditions do not touch each other, and what must be true in a world is that all of them are.
Patrolling is left out: it goes to every room, also to those that other errands must avoid.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import chain
from typing import Any

from lit_rl.data.robots.robot_checks import RobotTest
from lit_rl.data.robots.robot_families import (
    PEOPLE,
    ROOMS,
    THINGS,
    Errand,
    Family,
    Names,
    RobotTask,
    count,
    deliver,
    fetch,
    relay,
    search,
    tell,
)
from lit_rl.data.robots.robot_prompts import DEFINITION

FAMILIES: tuple[Family, ...] = (fetch, search, tell, relay, count, deliver)
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
    families = rng.sample(FAMILIES, number)
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
    r"""A program that does what these do, one after the other; where the robot started is asked for once, at the top.

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
