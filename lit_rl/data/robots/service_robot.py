"""A service robot in a given world: eight functions, a trace, and the errors of calls.

The world is plain data: rooms, things in rooms, people in rooms with their answers. Stored names are
regular expressions, searched (ignoring case) in the text the program passed, never the other way round: a
stored ``bin`` is found by ``"mail bin"``, a stored ``.*`` by anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from typing import Any, NoReturn

EVENTS = {"is_in_room": "CheckEntity", "go_to": "GoTo", "ask": "Ask", "say": "Say", "pick": "Pick", "place": "Place"}
"""The names of the functions with arguments, and of their events in the trace."""

FUNCTIONS = ("get_current_location", "get_all_rooms", *EVENTS)
"""The names that a robot program may call."""

MAX_TEXT_CHARS = 4096
"""Longest text that a call takes. No order or message is longer, and matching time grows with the length."""

MAX_TRACE_BYTES = 1_000_000
"""A trace stops growing at this size, since a program that waits forever would otherwise fill the memory."""

Event = list[Any]
"""``[kind, value1, value2]``; ``value2`` is the list of options of an Ask, else ``None``."""

_NOBODY_START = re.compile(r"(?:\.\*(?![?+*{]))+")


class RobotError(Exception):
    """The simulator refused a call; the message begins with ``Robot<Call>Error``."""


class RobotArgumentError(RobotError, TypeError):
    """An argument has the wrong type; this is a robot error, too."""


def refuse_robot_call(call: str, reason: str) -> NoReturn:
    """Refuse a call, which then has no effect."""
    raise RobotError(f"Robot{call}Error: {reason}")


class PlacedObject(str):
    """The label of a thing that a program placed: the program's text, taken literally.

    As a regular expression, this text could keep the simulator busy without limit.
    """


class RobotBase:
    """Parts that are the same in every world: place, hand and trace."""

    def __init__(self, location: str) -> None:
        self.location = location
        self.holding: str | None = None
        self.trace: list[Event] = []
        self._trace_bytes = 0

    def get_current_location(self) -> str:
        """Return the room that the robot is in."""
        return self.location

    def say(self, message: str) -> None:
        """Say a message, wherever the robot is."""
        self._append_to_trace("Say", message)

    def _append_to_trace(self, kind: str, value1: str, value2: list[Any] | None = None) -> None:
        # Each event counts its text and a little for the frame.
        text = len(kind) + len(value1) + sum(len(str(option)) + 4 for option in value2 or ())
        self._trace_bytes += text + 20
        # Past the limit the run continues, so that it ends as it would have, but nothing more is kept.
        if self._trace_bytes <= MAX_TRACE_BYTES:
            self.trace.append([kind, value1.strip(), None if value2 is None else list(value2)])


class ServiceRobot(RobotBase):
    """One world and the robot in it, made anew for every run.

    Args:
        state: ``locations`` (list of rooms in order), ``objects`` ({room: [label]}), ``agents``
            ({room: [{"name", "answers"}]}), ``robot_location``. The state is not changed.

    Source:
        RoboEval: Hu et al. 2024, "Deploying and Evaluating LLMs to Program Service Mobile Robots",
        https://arxiv.org/abs/2311.11183

    Example:
        >>> robot = ServiceRobot(
        ...     {
        ...         "locations": ["kitchen", "start_loc"],
        ...         "objects": {"kitchen": ["cup"]},
        ...         "agents": {},
        ...         "robot_location": "start_loc",
        ...     }
        ... )
        >>> robot.go_to("the kitchen")
        >>> robot.is_in_room("cup")
        True
        >>> robot.trace
        [['GoTo', 'the kitchen', None], ['CheckEntity', 'cup', None]]
    """

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__(state["robot_location"])
        self.locations: list[str] = list(state["locations"])
        if strange := {self.location, *state["objects"], *state["agents"]} - {*self.locations}:
            raise ValueError(f"the robot, things or people are in rooms that do not exist: {strange}")
        self.objects = {room: list(labels) for room, labels in state["objects"].items()}
        self.agents = {
            room: [(agent["name"], list(agent["answers"])) for agent in agents]
            for room, agents in state["agents"].items()
        }
        people = [one for agents in self.agents.values() for one in agents]
        for pattern in chain(self.locations, *self.objects.values(), *([name, *said] for name, said in people)):
            compile_search_pattern(pattern)

    def get_all_rooms(self) -> list[str]:
        """Return all rooms, in the world's order."""
        return list(self.locations)

    def is_in_room(self, entity: str) -> bool:
        """Return whether a thing or person of that name is in the robot's room."""
        self._append_to_trace("CheckEntity", entity)
        names = [*self.objects.get(self.location, ()), *(name for name, _ in self._people_in_room())]
        return any(matches_stored_pattern(name, entity) for name in names)

    def go_to(self, location: str) -> None:
        """Go to the first room whose name is found in ``location``; the attempt is recorded."""
        self._append_to_trace("GoTo", location)
        for room in self.locations:
            if matches_stored_pattern(room, location):
                self.location = room
                return
        refuse_robot_call("GoTo", f"no room matches {location!r}")

    def ask(self, person: str, question: str, options: list[Any]) -> Any:
        """Return the option of the first person of that name whose answer fits an option.

        An answer is a regular expression. It picks the first option in which it is found. If there is none, it picks
        the first option that contains "yes" if the question matches the answer, or otherwise "no".
        """
        self._append_to_trace("Ask", question, options)
        for name, answers in self._people_in_room():
            if not matches_stored_pattern(name, person):
                continue
            if not answers:
                refuse_robot_call("Ask", f"{person!r} has no answers")
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            for chosen in _option_picked_by_answer(answer, question, options):
                return chosen  # plain data, a string in all but odd programs
        refuse_robot_call("Ask", f"nobody at {self.location!r} called {person!r} answers with an option")

    def pick(self, obj: str) -> None:
        """Take the first thing here whose label is found in ``obj``."""
        if self.holding is not None:
            refuse_robot_call("Pick", f"already holding {self.holding!r}")
        labels = self.objects.get(self.location, [])
        index = next((i for i, label in enumerate(labels) if matches_stored_pattern(label, obj)), None)
        if index is None:
            refuse_robot_call("Pick", f"no {obj!r} at {self.location!r}")
        del labels[index]
        self.holding = obj
        self._append_to_trace("Pick", obj)

    def place(self, obj: str) -> None:
        """Put down the held thing; it then has the label that the program used."""
        if obj != self.holding:
            refuse_robot_call("Place", f"not holding {obj!r}")
        self.objects.setdefault(self.location, []).append(PlacedObject(obj))
        self.holding = None
        self._append_to_trace("Place", obj)

    def _people_in_room(self) -> list[tuple[str, list[str]]]:
        return self.agents.get(self.location, [])


def matches_stored_pattern(stored: str, text: object) -> bool:
    """Return whether the text matches the stored regular expression, or contains the text of a placed thing."""
    if isinstance(stored, PlacedObject):
        return stored.lower() in str(text).lower()
    return compile_search_pattern(stored).search(str(text)) is not None


def refuse_unusable_arguments(function: str, arguments: Mapping[str, Any]) -> None:
    """Raise an error for an argument that is no string (``options``: no list) or is too long."""
    for name, value in arguments.items():
        kind = list if name == "options" else str
        if type(value) is not kind:
            error = f"Robot{EVENTS[function]}Error: {name} must be a {kind.__name__}, got {type(value).__name__}"
            raise RobotArgumentError(error)
        if (len(value) if kind is str else sum(len(str(option)) + 1 for option in value)) > MAX_TEXT_CHARS:
            refuse_robot_call(EVENTS[function], f"{name} has more than {MAX_TEXT_CHARS} characters")


def _option_picked_by_answer(answer: str, question: str, options: list[Any]) -> list[Any]:
    """Return a list of the one option that an answer picks, or an empty list."""
    direct = [option for option in options if matches_stored_pattern(answer, option)]
    if direct:
        return direct[:1]
    word = "yes" if matches_stored_pattern(answer, question) else "no"
    return [option for option in options if matches_stored_pattern(word, option)][:1]


@lru_cache(maxsize=4096)
def compile_search_pattern(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern for ``search``, ignoring case.

    A leading ``.*`` says nothing in a search, but makes the time quadratic in the length of a text that a
    program chose; so that part is left out.
    """
    compiled = re.compile(pattern, re.IGNORECASE)
    idle = _NOBODY_START.match(pattern)
    return compiled if idle is None else re.compile(pattern[idle.end() :], re.IGNORECASE)
