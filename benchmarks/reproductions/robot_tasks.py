"""Service-robot tasks of rooms, things and people that RoboEval does not have, one or several in a program.

Each family writes an instruction, the worlds to test a program in, what must be true of the trace, and a program that
does it. The check language is in ``trace_checks.py``, the world in ``service_robot.py``. Several errands may be put in
one instruction and one program, in worlds that they share: every errand is of a family of its own, about rooms, things
and people that no other errand of the program names. So their conditions do not touch each other, and what must be true
in a world is that all of them are.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Unpack

from lit_rl.data.robots.robot_checks import RobotTest, RobotWorlds
from lit_rl.data.robots.robot_program import DEFINITION
from lit_rl.data.robots.robot_tasks import robot_problem
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.types import Problem

ROOMS = ["greenhouse", "workshop", "library", "music room", "laundry", "garage"]
ROOMS += ["pantry", "studio", "gallery", "archive", "nursery", "boiler room"]
THINGS = ["hammer", "lantern", "blanket", "violin", "globe", "kettle", "umbrella", "ladder", "helmet", "camera"]
PEOPLE = ["Nadia", "Omar", "Petra", "Quentin", "Rosa", "Sven", "Tariq", "Uma", "Viktor", "Wanda"]
CHOICES = (("soup", "salad"), ("pears", "plums"), ("waltz", "tango"), ("chess", "cards"), ("rye", "wheat"))
MESSAGES = (
    ("the parcel has arrived", ("parcel",)),
    ("the concert begins at noon", ("concert", "noon")),
    ("the heating is broken", ("heating", "broken")),
    ("the bus leaves early", ("bus", "early")),
)
START = "start_loc"

Formula = list[Any]
START_LINE = "    start = get_current_location()\n"
MOST = 4
"""Most errands of a task: each needs three rooms of its own."""


@dataclass(frozen=True)
class Names:
    """Names for a task's rooms, things and people. Tasks that share a world have different names."""

    rooms: Sequence[str] = tuple(ROOMS)
    things: Sequence[str] = tuple(THINGS)
    people: Sequence[str] = tuple(PEOPLE)


ALL = Names()


@dataclass(frozen=True)
class RobotTask:
    """An instruction, worlds with what must be true of the trace in each, a program that does it, and its errands."""

    instruction: str
    tests: tuple[RobotTest, ...]
    reference: str
    errands: tuple[RobotTask, ...] = ()


# -- families ----------------------------------------------------------------------------------------------------------


def fetch(rng: random.Random, names: Names = ALL) -> RobotTask:
    """Bring a thing from one room to another."""
    source, target, other = rng.sample(names.rooms, 3)
    thing, decoy = rng.sample(names.things, 2)
    wordings = [
        f"Bring the {thing} from the {source} to the {target}.",
        f"There is a {thing} in the {source}. Please take it to the {target}.",
        f"The {target} needs the {thing} that is in the {source}; carry it there.",
    ]
    check = _all(_at(source, ["Pick", thing]), _at(target, ["Place", thing]), _never(["Pick", decoy]), _avoids(other))
    worlds = [
        _world([source, target, other], things={source: [thing, decoy]}),
        _world([other, target, source], things={source: [decoy, thing], target: [decoy]}),
    ]
    return _task(
        rng,
        wordings,
        [_test(world, check) for world in worlds],
        f'go_to("{source}")',
        f'pick("{thing}")',
        f'go_to("{target}")',
        f'place("{thing}")',
    )


def search(rng: random.Random, names: Names = ALL) -> RobotTask:
    """Find out in which of three rooms a thing is, and report."""
    rooms, other = rng.sample(names.rooms, 3), "cellar"
    thing = rng.choice(names.things)
    listed = _listed(rooms)
    wordings = [
        f"Look for the {thing} in the {listed}. Return and tell me where it is, or that it is missing.",
        f"The {thing} should be in one of these rooms: {listed}. Find it, return and say which room it is"
        " in; say that it is missing if it is in none.",
    ]
    tests = []
    for place in (*rooms, None):
        world = _world([*rooms, other], things={place: [thing]} if place else {other: [thing]})
        told = _reports([place] if place else ["missing"])
        looked = [_at(room, ["CheckEntity", thing]) for room in (rooms if place is None else [place])]
        others = [_not(_reports([room])) for room in rooms if room != place]
        tests.append(_test(world, _all(told, *looked, *others, _avoids(other))))
    return _task(
        rng,
        wordings,
        tests,
        "start = get_current_location()",
        'found = "missing"',
        f"for room in {rooms!r}:",
        "    go_to(room)",
        f'    if is_in_room("{thing}"):',
        "        found = room",
        "        break",
        "go_to(start)",
        f'say("{thing}: " + found)',
    )


def tell(rng: random.Random, names: Names = ALL) -> RobotTask:
    """Give a message to someone who may not be there."""
    room, other = rng.sample(names.rooms, 2)
    person = rng.choice(names.people)
    message, words = rng.choice(MESSAGES)
    wordings = [
        f"If {person} is in the {room}, tell them that {message}. If not, come back and say that {person} is away.",
        f"Go to the {room} and let {person} know that {message}. Should {person} not be there, return and"
        f" tell me that {person} is away.",
    ]
    name = person.lower()
    looked = _at(room, ["CheckEntity", name])
    heard = _at(room, ["Say", contains_all(words)])
    said = ["exists", "trace", ["Say", contains_all(words)]]
    there = _world([room, other], people={room: [(name, ["yes"])]})
    away = _world([room, other], people={other: [(name, ["yes"])]})
    tests = [
        _test(there, _all(looked, heard, _not(_reports(["away"])), _avoids(other))),
        _test(away, _all(looked, _not(said), _reports([name, "away"]), _avoids(other))),
    ]
    return _task(
        rng,
        wordings,
        tests,
        "start = get_current_location()",
        f'go_to("{room}")',
        f'if is_in_room("{person}"):',
        f'    say("{message}")',
        "else:",
        "    go_to(start)",
        f'    say("{person} is away")',
    )


def relay(rng: random.Random, names: Names = ALL) -> RobotTask:
    """Ask someone to choose, and report the choice."""
    room, other = rng.sample(names.rooms, 2)
    person = rng.choice(names.people)
    first, second = rng.sample(rng.choice(CHOICES), 2)
    wordings = [
        f"Ask {person} in the {room} whether they prefer {first} or {second}, and come back and tell me.",
        f"I want to know if {person} would like {first} or {second}. You find {person} in the {room}; ask"
        " and report to me here.",
    ]
    name = person.lower()
    tests = []
    for chosen, refused in ((first, second), (second, first)):
        world = _world([other, room], people={room: [(name, [chosen])], other: [(".*", [refused])]})
        asked = _at(room, ["Ask", ".*", contains_all([chosen])])
        told = _reports([chosen])
        tests.append(_test(world, _all(asked, told, _not(_reports([refused])), _avoids(other))))
    return _task(
        rng,
        wordings,
        tests,
        "start = get_current_location()",
        f'go_to("{room}")',
        f'answer = ask("{person}", "What would you like?", ["{first}", "{second}"])',
        "go_to(start)",
        f'say("{person} prefers " + answer)',
    )


def patrol(rng: random.Random, names: Names = ALL) -> RobotTask:
    """Say something in every room but one."""
    rooms = rng.sample(names.rooms, 4)
    skipped = rng.choice(rooms)
    wordings = [
        f'Go to every room except the {skipped} and say "all clear" in each of them.',
        f'Visit all rooms but not the {skipped}; announce "all clear" in each room you visit.',
    ]
    tests = []
    for count in (4, 3):
        here = rooms[:count] if skipped in rooms[:count] else [skipped, *rooms[: count - 1]]
        visits = [_at(room, ["Say", "all clear"]) for room in here if room != skipped]
        tests.append(_test(_world(here), _all(*visits, _avoids(skipped))))
    return _task(
        rng,
        wordings,
        tests,
        "for room in get_all_rooms():",
        f'    if room != "{skipped}":',
        "        go_to(room)",
        '        say("all clear")',
    )


def count(rng: random.Random, names: Names = ALL) -> RobotTask:
    """Count the rooms that hold a thing."""
    rooms = rng.sample(names.rooms, 3)
    thing = rng.choice(names.things)
    listed = _listed(rooms)
    instruction = rng.choice(
        [
            f"In how many of these rooms is a {thing}: {listed}? Look, come back and tell me the number.",
            f"Check the {listed} for a {thing} each. Return and say how many of the rooms have one.",
        ]
    )
    spelt = (("0", "zero", "none", "no"), ("1", "one"), ("2", "two"), ("3", "three"))
    words = ["|.*".join(rf"\b{word}\b" for word in spelling) for spelling in spelt]
    tests = []
    for number in range(4):
        having = rng.sample(rooms, number)
        world = _world(rooms, things={room: [thing] for room in having})
        looked = [_at(room, ["CheckEntity", thing]) for room in rooms]
        # "2 of 3 rooms" is a good answer, so a 3 is never held against a program.
        wrong = [_not(_reports([words[other]])) for other in range(3) if other != number]
        tests.append(_test(world, _all(*looked, _reports([words[number]]), *wrong)))
    return RobotTask(
        instruction,
        tests,
        _program(
            "start = get_current_location()",
            "number = 0",
            f"for room in {rooms!r}:",
            "    go_to(room)",
            f'    if is_in_room("{thing}"):',
            "        number += 1",
            "go_to(start)",
            "say(str(number))",
        ),
    )


def deliver(rng: random.Random, names: Names = ALL) -> RobotTask:
    """Ask whether someone needs a thing, and bring it only then."""
    room, store = rng.sample(names.rooms, 2)
    person, thing = rng.choice(names.people), rng.choice(names.things)
    wordings = [
        f"Ask {person} in the {room} if they need the {thing}. If so, bring it to them from the {store};"
        " otherwise come back and tell me that it is not needed.",
        f"Go to the {room} and ask {person} whether they need the {thing}, which is in the {store}. On a"
        " yes, fetch it for them; on a no, return and say that it is not needed.",
    ]
    name = person.lower()
    asked = _at(room, ["Ask", contains_all([thing]), ".*"])
    carried = _all(_at(store, ["Pick", thing]), _at(room, ["Place", thing]))
    tests = []
    for answer in ("yes", "no"):
        world = _world([store, room], things={store: [thing]}, people={room: [(name, [answer])]})
        after = carried if answer == "yes" else _all(_never(["Pick", thing]), _reports(["not needed"]))
        tests.append(_test(world, _all(asked, after)))
    return _task(
        rng,
        wordings,
        tests,
        "start = get_current_location()",
        f'go_to("{room}")',
        f'if ask("{person}", "Do you need the {thing}?", ["yes", "no"]) == "yes":',
        f'    go_to("{store}")',
        f'    pick("{thing}")',
        f'    go_to("{room}")',
        f'    place("{thing}")',
        "else:",
        "    go_to(start)",
        f'    say("The {thing} is not needed")',
    )


Family = Callable[..., RobotTask]
"""From a random generator, and names that default to all, to a task of one kind."""

ERRANDS: tuple[Family, ...] = (fetch, search, tell, relay, count, deliver)
"""Those that can be part of a longer task. Patrolling goes to every room, also to those that others must avoid."""

FAMILIES: tuple[Family, ...] = (fetch, search, tell, relay, patrol, count, deliver)


# -- worlds and formulas -----------------------------------------------------------------------------------------------


def contains_all(words: Sequence[str]) -> str:
    """Pattern of a text that contains every word, in any order; a word may be an alternation."""
    return "^" + "".join(f"(?=.*{word})" for word in words) + ".*$"


def contains_all_and_none(words: Sequence[str], excluded: Sequence[str]) -> str:
    """As :func:`contains_all`, and none of the excluded words, taken literally and as whole words."""
    barrier = "|".join(rf"\b{re.escape(word)}\b" for word in excluded)
    return f"^(?!.*{barrier})" + "".join(f"(?=.*{word})" for word in words) + ".*$"


def _world(
    rooms: Sequence[str],
    *,
    things: dict[str, list[str]] | None = None,
    people: dict[str, list[tuple[str, list[str]]]] | None = None,
) -> dict[str, Any]:
    agents = {
        room: [{"name": name, "answers": answers} for name, answers in found] for room, found in (people or {}).items()
    }
    return {"locations": [*rooms, START], "objects": things or {}, "agents": agents, "robot_location": START}


def _program(*lines: str) -> str:
    return DEFINITION + "".join(f"    {line}\n" for line in lines)


def _task(rng: random.Random, wordings: Sequence[str], tests: Sequence[RobotTest], *lines: str) -> RobotTask:
    return RobotTask(rng.choice(wordings), tuple(tests), _program(*lines))


def _listed(rooms: Sequence[str]) -> str:
    return f"{', the '.join(rooms[:-1])} and the {rooms[-1]}"


def _test(world: dict[str, Any], check: Formula) -> RobotTest:
    return RobotTest(state=world, should_timeout=False, check=check)


def _all(*parts: Formula) -> Formula:
    return ["and", *parts]


def _not(part: Formula) -> Formula:
    return ["not", part]


def _at(room: str, event: list[str]) -> Formula:
    return ["act_at_any_visit", "trace", room, event]


def _never(event: list[str]) -> Formula:
    return _not(["exists", "trace", event])


def _avoids(room: str) -> Formula:
    return _never(["GoTo", room])


def _reports(words: Sequence[str]) -> Formula:
    """Formula: the robot says something with these words at the start after it has been elsewhere."""
    left = ["GoTo", contains_all_and_none([], [START])]
    return ["act_at_any_visit", ["after_first", "trace", left], START, ["Say", contains_all(words)]]


# -- several errands ---------------------------------------------------------------------------------------------------


def run_errands(rng: random.Random, number: int) -> RobotTask:
    """A task of 2 to 4 errands, each of another family.

    The worlds are as many as those of the errand that has most; an errand with fewer meets its own several times.
    The condition of a world is ``["and", ...]`` with one formula for each errand, in their order.
    """
    families = rng.sample(ERRANDS, number)
    dealt = [rng.sample(names, len(names)) for names in (ROOMS, THINGS, PEOPLE)]
    tasks = [family(rng, Names(*(names[i::MOST] for names in dealt))) for i, family in enumerate(families)]
    instructions = " ".join(f"({place}) {task.instruction}" for place, task in enumerate(tasks, start=1))
    return RobotTask(
        instruction=f"{('Two', 'Three', 'Four')[number - 2]} errands, in any order: {instructions}",
        tests=tuple(_joint(tasks, world) for world in range(max(len(task.tests) for task in tasks))),
        reference=one_program([task.reference for task in tasks]),
        errands=tuple(tasks),
    )


def one_program(programs: Sequence[str]) -> str:
    r"""One program that runs these one after the other; the start location is queried once, at the top.

    Example:
        >>> one_program(["def task_program():\n    go_to(start)\n", 'def task_program():\n    say("hi")\n'])
        'def task_program():\n    go_to(start)\n    say("hi")\n'
    """
    bodies = [program.removeprefix(DEFINITION) for program in programs]
    asked = START_LINE if any(START_LINE in body for body in bodies) else ""
    return DEFINITION + asked + "".join(body.replace(START_LINE, "") for body in bodies)


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


def generate(count: int, num_errands: int = 1) -> list[RobotTask]:
    """Tasks with different instructions; a longer list begins with a shorter one.

    One errand: the families take turns. Several: they are drawn for each task.
    """
    rng = random.Random(0)
    tasks: dict[str, RobotTask] = {}
    for attempt in range(20 * count):
        if len(tasks) == count:
            break
        task = FAMILIES[attempt % len(FAMILIES)](rng) if num_errands == 1 else run_errands(rng, num_errands)
        tasks.setdefault(task.instruction, task)
    assert len(tasks) == count, f"there are only {len(tasks)} different instructions"
    return list(tasks.values())


class RobotTasks(TaskDataModule):
    """Generated service-robot tasks, with demonstrations of which some carry a mistake.

    A prompt is the instruction as a comment and the head of the function. Validation instructions do not occur in
    training. With several errands an instruction asks for several tasks (all but patrol) and a program is 10 to 32
    lines long; the problem's field ``errands`` then lists the reference of each.

    Args:
        demonstration: the program to imitate for a problem, of this number.
        num_train, num_validation: problems.
        num_errands: errands that one program runs, 1 to 4.
    """

    name = "robot_tasks"

    def __init__(
        self,
        demonstration: Callable[[RobotTask, int], str],
        num_train: int,
        num_validation: int,
        num_errands: int = 1,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.demonstration = demonstration
        self.num_train, self.num_validation, self.num_errands = num_train, num_validation, num_errands

    def load_problems(self, split: Split) -> list[Problem]:
        """Problems of all families in turn; with several errands, families are drawn."""
        tasks = list(enumerate(generate(self.num_train + self.num_validation, self.num_errands)))
        # Validation comes first, so that more training problems leave it as it is.
        chosen = tasks[self.num_validation :] if split == "train" else tasks[: self.num_validation]
        return [
            replace(
                robot_problem(
                    f"robot_tasks/0/{number}",
                    task.instruction,
                    RobotWorlds(task.tests, 1.0),
                    form="completion",
                    reference=task.reference,
                    fields={
                        "errands": [errand.reference for errand in task.errands],
                        "demonstration": self.demonstration(task, index).removeprefix(DEFINITION),
                    },
                ),
                prompt=f"# {task.instruction}\n{DEFINITION}",
            )
            for index, (number, task) in enumerate(chosen)
        ]
