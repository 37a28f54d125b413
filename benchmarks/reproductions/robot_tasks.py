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
from typing import Any, NamedTuple, Unpack

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


class Names(NamedTuple):
    """Names for a task's rooms, things and people. Tasks that share a world have different names."""

    rooms: Sequence[str]
    things: Sequence[str]
    people: Sequence[str]


ALL = Names(ROOMS, THINGS, PEOPLE)


@dataclass(frozen=True)
class RobotTask:
    """An instruction, worlds with what must be true of the trace in each, and a program that does it.

    ``mistaken`` is the program with the mistake of its family: counting is not Python and searching has a name that is
    not there (Python errors), fetching and relaying do not go where they should (simulation errors), the others say
    nothing or do not come back (completion errors).
    """

    instruction: str
    tests: tuple[RobotTest, ...]
    reference: str
    mistaken: str = ""
    errands: tuple[RobotTask, ...] = ()


# -- families ----------------------------------------------------------------------------------------------------------


def fetch(rng: random.Random, names: Names) -> RobotTask:
    """Bring a thing from one room to another."""
    source, target, other = rng.sample(names.rooms, 3)
    thing, decoy = rng.sample(names.things, 2)
    wordings = [
        f"Bring the {thing} from the {source} to the {target}.",
        f"There is a {thing} in the {source}. Please take it to the {target}.",
        f"The {target} needs the {thing} that is in the {source}; carry it there.",
    ]
    moved = [_at(source, ["Pick", thing]), _at(target, ["Place", thing])]
    check = ["and", *moved, _never(["Pick", decoy]), _avoids(other)]
    tests = [
        (_world([source, target, other], things={source: [thing, decoy]}), check),
        (_world([other, target, source], things={source: [decoy, thing], target: [decoy]}), check),
    ]
    program = f"""
    go_to("{source}")
    pick("{thing}")
    go_to("{target}")
    place("{thing}")
"""
    return _task(rng.choice(wordings), tests, program, f'    go_to("{source}")\n', "")


def search(rng: random.Random, names: Names) -> RobotTask:
    """Find out in which of three rooms a thing is, and report."""
    rooms, other = rng.sample(names.rooms, 3), "cellar"
    thing = rng.choice(names.things)
    wordings = [
        f"Look for the {thing} in the {_listed(rooms)}. Return and tell me where it is, or that it is missing.",
        f"The {thing} should be in one of these rooms: {_listed(rooms)}. Find it, return and say which room it is"
        " in; say that it is missing if it is in none.",
    ]
    tests = []
    for place in (*rooms, None):
        world = _world([*rooms, other], things={place or other: [thing]})
        told = _reports([place or "missing"])
        looked = [_at(room, ["CheckEntity", thing]) for room in ([place] if place else rooms)]
        others = [["not", _reports([room])] for room in rooms if room != place]
        tests.append((world, ["and", told, *looked, *others, _avoids(other)]))
    program = f"""
    start = get_current_location()
    found = "missing"
    for room in {rooms!r}:
        go_to(room)
        if is_in_room("{thing}"):
            found = room
            break
    go_to(start)
    say("{thing}: " + found)
"""
    return _task(rng.choice(wordings), tests, program, START_LINE, "")


def tell(rng: random.Random, names: Names) -> RobotTask:
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
    message_said = ["Say", contains_all(words)]
    there = [_at(room, message_said), ["not", _reports(["away"])]]
    away = [_never(message_said), _reports([name, "away"])]
    tests = [
        (_world([room, other], people={place: (name, "yes")}), ["and", looked, *then, _avoids(other)])
        for place, then in ((room, there), (other, away))
    ]
    program = f"""
    start = get_current_location()
    go_to("{room}")
    if is_in_room("{person}"):
        say("{message}")
    else:
        go_to(start)
        say("{person} is away")
"""
    return _task(rng.choice(wordings), tests, program, "        go_to(start)\n", "")


def relay(rng: random.Random, names: Names) -> RobotTask:
    """Ask someone to choose, and report the choice."""
    room, other = rng.sample(names.rooms, 2)
    person = rng.choice(names.people)
    first, second = rng.sample(rng.choice(CHOICES), 2)
    wordings = [
        f"Ask {person} in the {room} whether they prefer {first} or {second}, and come back and tell me.",
        f"I want to know if {person} would like {first} or {second}. You find {person} in the {room}; ask"
        " and report to me here.",
    ]
    tests = []
    for chosen, refused in ((first, second), (second, first)):
        world = _world([other, room], people={room: (person.lower(), chosen), other: (".*", refused)})
        asked = _at(room, ["Ask", ".*", contains_all([chosen])])
        tests.append((world, ["and", asked, _reports([chosen]), ["not", _reports([refused])], _avoids(other)]))
    program = f"""
    start = get_current_location()
    go_to("{room}")
    answer = ask("{person}", "What would you like?", ["{first}", "{second}"])
    go_to(start)
    say("{person} prefers " + answer)
"""
    return _task(rng.choice(wordings), tests, program, f'    go_to("{room}")\n', "")


def patrol(rng: random.Random, names: Names) -> RobotTask:
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
        tests.append((_world(here), ["and", *visits, _avoids(skipped)]))
    program = f"""
    for room in get_all_rooms():
        if room != "{skipped}":
            go_to(room)
            say("all clear")
"""
    return _task(rng.choice(wordings), tests, program, "say(", "go_to(room)  # say(")


def count(rng: random.Random, names: Names) -> RobotTask:
    """Count the rooms that hold a thing."""
    rooms = rng.sample(names.rooms, 3)
    thing = rng.choice(names.things)
    wordings = [
        f"In how many of these rooms is a {thing}: {_listed(rooms)}? Look, come back and tell me the number.",
        f"Check the {_listed(rooms)} for a {thing} each. Return and say how many of the rooms have one.",
    ]
    instruction = rng.choice(wordings)
    spelt = (("0", "zero", "none", "no"), ("1", "one"), ("2", "two"), ("3", "three"))
    words = ["|.*".join(rf"\b{word}\b" for word in spelling) for spelling in spelt]
    tests = []
    for number in range(4):
        world = _world(rooms, things={room: [thing] for room in rng.sample(rooms, number)})
        looked = [_at(room, ["CheckEntity", thing]) for room in rooms]
        # "2 of 3 rooms" is a good answer, so a 3 is never held against a program.
        wrong = [["not", _reports([words[other]])] for other in range(3) if other != number]
        tests.append((world, ["and", *looked, _reports([words[number]]), *wrong]))
    program = f"""
    start = get_current_location()
    number = 0
    for room in {rooms!r}:
        go_to(room)
        if is_in_room("{thing}"):
            number += 1
    go_to(start)
    say(str(number))
"""
    return _task(instruction, tests, program, "number += 1", "number++")


def deliver(rng: random.Random, names: Names) -> RobotTask:
    """Ask whether someone needs a thing, and bring it only then."""
    room, store = rng.sample(names.rooms, 2)
    person, thing = rng.choice(names.people), rng.choice(names.things)
    wordings = [
        f"Ask {person} in the {room} if they need the {thing}. If so, bring it to them from the {store};"
        " otherwise come back and tell me that it is not needed.",
        f"Go to the {room} and ask {person} whether they need the {thing}, which is in the {store}. On a"
        " yes, fetch it for them; on a no, return and say that it is not needed.",
    ]
    asked = _at(room, ["Ask", contains_all([thing]), ".*"])
    carried = ["and", _at(store, ["Pick", thing]), _at(room, ["Place", thing])]
    left = ["and", _never(["Pick", thing]), _reports(["not needed"])]
    tests = []
    for answer, after in (("yes", carried), ("no", left)):
        world = _world([store, room], things={store: [thing]}, people={room: (person.lower(), answer)})
        tests.append((world, ["and", asked, after]))
    program = f"""
    start = get_current_location()
    go_to("{room}")
    if ask("{person}", "Do you need the {thing}?", ["yes", "no"]) == "yes":
        go_to("{store}")
        pick("{thing}")
        go_to("{room}")
        place("{thing}")
    else:
        go_to(start)
        say("The {thing} is not needed")
"""
    return _task(rng.choice(wordings), tests, program, "        go_to(start)\n", "")


FAMILIES = (fetch, search, tell, relay, patrol, count, deliver)
ERRANDS = tuple(family for family in FAMILIES if family is not patrol)
"""Those that can be part of a longer task. Patrolling goes to every room, also to those that others must avoid."""


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
    things: dict[str, list[str]] | None = None,
    people: dict[str, tuple[str, str]] | None = None,
) -> dict[str, Any]:
    """A world of these rooms and the start; a room may have a person, who gives one answer."""
    agents = {room: [{"name": name, "answers": [answer]}] for room, (name, answer) in (people or {}).items()}
    return {"locations": [*rooms, START], "objects": things or {}, "agents": agents, "robot_location": START}


def _task(
    instruction: str, tests: Sequence[tuple[dict[str, Any], Formula]], program: str, right: str, wrong: str
) -> RobotTask:
    """A task of some worlds; its mistake is something ``wrong`` in place of something ``right``."""
    worlds = tuple(RobotTest(state=world, should_timeout=False, check=check) for world, check in tests)
    reference = DEFINITION + program.removeprefix("\n")
    return RobotTask(instruction, worlds, reference, reference.replace(right, wrong))


def _listed(rooms: Sequence[str]) -> str:
    return f"{', the '.join(rooms[:-1])} and the {rooms[-1]}"


def _at(room: str, event: list[str]) -> Formula:
    return ["act_at_any_visit", "trace", room, event]


def _never(event: list[str]) -> Formula:
    return ["not", ["exists", "trace", event]]


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
    dealt = [rng.sample(names, len(names)) for names in ALL]
    tasks = [family(rng, Names(*(names[i::MOST] for names in dealt))) for i, family in enumerate(families)]
    instructions = " ".join(f"({place}) {task.instruction}" for place, task in enumerate(tasks, start=1))
    return RobotTask(
        instruction=f"{('Two', 'Three', 'Four')[number - 2]} errands, in any order: {instructions}",
        tests=tuple(_joint(tasks, world) for world in range(max(len(task.tests) for task in tasks))),
        reference=one_program([task.reference for task in tasks]),
        errands=tuple(tasks),
    )


def one_program(programs: Sequence[str]) -> str:
    """One program that runs these one after the other; the start location is queried once, at the top."""
    bodies = [program.removeprefix(DEFINITION) for program in programs]
    asked = START_LINE if any(START_LINE in body for body in bodies) else ""
    return DEFINITION + asked + "".join(body.replace(START_LINE, "") for body in bodies)


def _joint(tasks: Sequence[RobotTask], world: int) -> RobotTest:
    """One world that holds a world of every errand."""
    tests = [task.tests[world % len(task.tests)] for task in tasks]
    states = [test.state for test in tests]
    state = {
        "locations": [room for state in states for room in state["locations"] if room != START] + [START],
        "objects": dict(chain.from_iterable(state["objects"].items() for state in states)),
        "agents": dict(chain.from_iterable(state["agents"].items() for state in states)),
        "robot_location": START,
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
        task = FAMILIES[attempt % len(FAMILIES)](rng, ALL) if num_errands == 1 else run_errands(rng, num_errands)
        tasks.setdefault(task.instruction, task)
    assert len(tasks) == count, f"there are only {len(tasks)} different instructions"
    return list(tasks.values())


class RobotTasks(TaskDataModule):
    """Generated service-robot tasks, with demonstrations of which some carry a mistake.

    A prompt is the instruction as a comment and the head of the function. Validation instructions do not occur in
    training. The problem's field ``errands`` lists the reference of each errand.

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
        problems = []
        for index, (number, task) in enumerate(chosen):
            demonstration = self.demonstration(task, index).removeprefix(DEFINITION)
            fields = {"errands": [errand.reference for errand in task.errands], "demonstration": demonstration}
            given = {"form": "completion", "reference": task.reference, "fields": fields}
            problem = robot_problem(f"robot_tasks/0/{number}", task.instruction, RobotWorlds(task.tests), **given)
            problems.append(replace(problem, prompt=f"# {task.instruction}\n{DEFINITION}"))
        return problems
