from contextlib import nullcontext

import pytest
from hypothesis import strategies as st
from support.few_examples import given

from lit_rl.data.robots.robosim import PATIENCE, InventedWorld
from lit_rl.data.robots.robot_judge import RobotHost
from lit_rl.data.robots.service_robot import RobotError

SEEDS = st.integers(0, 10_000)


def test_from_the_fifteenth_look_on_a_fact_is_dropped_after_it_was_returned():
    changed = 0
    for seed in range(200):
        world = InventedWorld(seed)
        looks = [world.is_in_room("cup") for _ in range(PATIENCE + 1)]
        assert len(set(looks[:PATIENCE])) == 1
        changed += looks[PATIENCE] != looks[0]
    assert 60 < changed < 140


def test_a_thing_seen_to_be_absent_cannot_be_picked_and_a_present_one_can():
    for seed in range(20):
        world = InventedWorld(seed)
        with nullcontext() if world.is_in_room("cup") else pytest.raises(RobotError, match=r"^RobotPickError"):
            world.pick("cup")


def test_an_unknown_thing_may_be_picked_and_is_present_where_it_is_placed():
    world = InventedWorld(0)
    world.pick(" cup ")
    world.go_to("hall")
    world.place("cup")
    assert world.is_in_room("cup")
    assert [event[0] for event in world.trace] == ["Pick", "GoTo", "Place", "CheckEntity"]


def test_one_hand_and_the_exact_name():
    world = InventedWorld(0)
    with pytest.raises(RobotError, match=r"^RobotPlaceError"):
        world.place("cup")
    world.pick("cup")
    with pytest.raises(RobotError, match=r"^RobotPlaceError"):
        world.place("the cup")
    with pytest.raises(RobotError, match=r"^RobotPickError"):
        world.pick("plate")


@given(SEEDS)
def test_someone_asked_is_there_and_answers_with_an_option(seed):
    world = InventedWorld(seed)
    assert world.ask("ann", "tea?", ["yes", "no"]) in ("yes", "no")
    assert world.is_in_room("ann")
    assert world.ask("", "tea?", ["yes"]) == "yes", "nobody in particular"
    absent = next(w for w in map(InventedWorld, range(seed, seed + 100)) if not w.is_in_room("ann"))
    with pytest.raises(RobotError, match=r"^RobotAskError"):
        absent.ask("ann", "tea?", ["yes", "no"])


def test_a_name_keeps_its_type_but_a_person_may_be_named_as_a_place():
    for use in (
        lambda world: (world.pick("ann"), world.ask("ann", "?", ["x"])),
        lambda world: (world.pick("hall"), world.go_to("hall")),
        lambda world: (world.go_to("hall"), world.pick("hall")),
        lambda world: (world.go_to("hall"), world.is_in_room("hall")),
        lambda world: (world.ask("ann", "?", ["x"]), world.pick("ann")),
    ):
        with pytest.raises(RobotError, match=r"^RobotTypeError"):
            use(InventedWorld(0))
    world = InventedWorld(0)
    world.go_to("hall")
    assert world.ask("hall", "anyone?", ["yes"]) == "yes"
    world.ask("ann", "?", ["x"])
    world.go_to("ann")


WRONG_ARGUMENTS = (
    ("is_in_room", (3,), "RobotCheckEntityError"),
    ("go_to", ("",), "RobotGoToError"),
    ("ask", ("ann", "?", []), "RobotAskError"),
    ("ask", ("ann", "?", [1]), "RobotAskError"),
    ("ask", (None, "?", ["x"]), "RobotAskError"),
    ("say", (4,), "RobotSayError"),
    ("pick", ("",), "RobotPickError"),
)


def test_empty_or_wrong_arguments_are_robot_errors():
    for call, arguments, error in WRONG_ARGUMENTS:
        with pytest.raises(RobotError, match=f"^{error}"):
            RobotHost(InventedWorld(0)).call(call, arguments, {})
