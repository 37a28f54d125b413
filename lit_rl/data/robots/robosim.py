"""A world invented while the program runs, to check programs for which no world was given.

Each fact that a program asks about is decided at random when it first matters, and then remembered. Every name keeps
the type of its first use: a thing that was picked up cannot be asked a question. A program that contradicts itself is
refused; a program that survives many invented worlds is taken to be sound.

Source:
    RoboSim: Hu et al. 2024, "Robo-Instruct", https://arxiv.org/abs/2405.20179
"""

from __future__ import annotations

import random
from enum import StrEnum

from lit_rl.data.robots.service_robot import RobotBase, refuse_robot_call

ROOMS = ("loc_a", "loc_b", "loc_c", "start_loc")
PATIENCE = 15
"""After this many looks around in one room, each answer is forgotten once it is given, so that waiting ends."""


class EntityType(StrEnum):
    """Kind of thing that a name refers to."""

    OBJECT = "object"
    PERSON = "person"
    LOCATION = "location"
    OBJECT_OR_PERSON = "object_or_person"


# For each use of a name, the known types that it accepts. A location may also name a person.
_ACCEPTS = {
    EntityType.OBJECT: {EntityType.OBJECT},
    EntityType.PERSON: {EntityType.PERSON, EntityType.LOCATION},
    EntityType.LOCATION: {EntityType.PERSON, EntityType.LOCATION},
    EntityType.OBJECT_OR_PERSON: {EntityType.OBJECT, EntityType.PERSON, EntityType.OBJECT_OR_PERSON},
}


class InventedWorld(RobotBase):
    """The robot in a world invented during the run, with the same eight functions as in a given world.

    Args:
        seed: seed of the world; the same seed and program give the same run.
    """

    def __init__(self, seed: int) -> None:
        super().__init__("start_loc")
        self.rng = random.Random(seed)
        self.types: dict[str, EntityType] = {}
        self.present: dict[tuple[str, str], bool] = {}
        self._looks_at: str | None = None
        self._looks = 0

    def get_all_rooms(self) -> list[str]:
        """Return the same four rooms in every world."""
        return list(ROOMS)

    def is_in_room(self, entity: str) -> bool:
        """Return whether a thing or person is in the room: as decided before, or otherwise by a fair coin."""
        name = _stripped_name("CheckEntity", entity)
        self._append_to_trace("CheckEntity", name)
        self._note_entity_type(name, EntityType.OBJECT_OR_PERSON)
        self._looks = self._looks + 1 if self._looks_at == self.location else 1
        self._looks_at = self.location
        here = (self.location, name)
        if here not in self.present:
            self.present[here] = self.rng.random() < 0.5
            return self.present[here]
        if self._looks >= PATIENCE:
            return self.present.pop(here)
        return self.present[here]

    def go_to(self, location: str) -> None:
        """Go to a place, known or not."""
        name = _stripped_name("GoTo", location)
        self.location = name
        self._note_entity_type(name, EntityType.LOCATION)
        self._append_to_trace("GoTo", name)

    def ask(self, person: str, question: str, options: list[str]) -> str:
        """Return one of the options at random; the person is then known to be here."""
        name, asked = person.strip(), _stripped_name("Ask", question)
        if not options or not all(isinstance(option, str) and option for option in options):
            refuse_robot_call("Ask", "the options must be texts that are not empty, at least one")
        self._note_entity_type(name, EntityType.PERSON)
        if not self.present.setdefault((self.location, name), True):
            refuse_robot_call("Ask", f"{name!r} is not at {self.location!r}")
        self._append_to_trace("Ask", asked, options)
        return self.rng.choice(options)

    def pick(self, obj: str) -> None:
        """Take a thing unless it is known not to be here; whether another such thing is left is then unknown."""
        name = _stripped_name("Pick", obj)
        if self.holding is not None:
            refuse_robot_call("Pick", f"already holding {self.holding!r}")
        self.holding = name
        self._note_entity_type(name, EntityType.OBJECT)
        if not self.present.get((self.location, name), True):
            refuse_robot_call("Pick", f"no {name!r} at {self.location!r}")
        self.present.pop((self.location, name), None)
        self._append_to_trace("Pick", name)

    def place(self, obj: str) -> None:
        name = _stripped_name("Place", obj)
        if self.holding != name:
            refuse_robot_call("Place", f"not holding {name!r} but {self.holding!r}")
        self.holding = None
        self._note_entity_type(name, EntityType.OBJECT)
        self.present[self.location, name] = True
        self._append_to_trace("Place", name)

    def _note_entity_type(self, name: str, used_as: EntityType) -> None:
        """Note the type at first use; refuse a use that contradicts it."""
        known = self.types.get(name, EntityType.OBJECT_OR_PERSON)
        if known is EntityType.OBJECT_OR_PERSON:
            known = self.types[name] = used_as
        if known not in _ACCEPTS[used_as]:
            refuse_robot_call("Type", f"{name!r} is used as {used_as}, but it is {known}")


def _stripped_name(call: str, name: str) -> str:
    if not name.strip():
        refuse_robot_call(call, "an empty text")
    return name.strip()
