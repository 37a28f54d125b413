"""One group of tests for each row of the robot's table of calls."""

import random
import re
from contextlib import nullcontext

import pytest
from hypothesis import strategies as st
from support.few_examples import given

from lit_rl.data.robots.robot_judge import RobotHost
from lit_rl.data.robots.robot_program import extract_runnable_program, lower_double_quoted, randomise_membership_tests
from lit_rl.data.robots.service_robot import (
    MAX_TEXT_CHARS,
    MAX_TRACE_BYTES,
    RobotError,
    ServiceRobot,
    compile_search_pattern,
)

NAMES = st.text("abc '", min_size=1, max_size=6)
ANY_TEXT = st.text(max_size=12)
NOT_TEXT = st.one_of(st.none(), st.integers(), st.floats(), st.lists(ANY_TEXT), st.booleans(), st.binary())
OPTIONS = st.lists(st.sampled_from(["yes", "No", "maybe", "red", "tea", "not sure"]), min_size=1, max_size=5)


def state(objects=None, agents=None, rooms=("kitchen", "hall", "start_loc"), at="start_loc"):
    people = {
        room: [{"name": name, "answers": list(answers)} for name, answers in found]
        for room, found in (agents or {}).items()
    }
    return {"locations": list(rooms), "objects": objects or {}, "agents": people, "robot_location": at}


def found(stored: str, text: str) -> bool:
    return re.search(stored, text, re.IGNORECASE) is not None


@given(st.lists(NAMES, max_size=4), st.lists(NAMES, max_size=3), ANY_TEXT)
def test_is_in_room_is_true_if_a_stored_object_or_agent_is_found_in_the_text(labels, people, entity):
    robot = ServiceRobot(state({"start_loc": labels}, {"start_loc": [(name, ["yes"]) for name in people]}))
    assert robot.is_in_room(entity) == any(found(name, entity) for name in labels + people)
    assert robot.trace == [["CheckEntity", entity.strip(), None]]
    assert not any(ServiceRobot(state({"kitchen": labels})).is_in_room(label) for label in labels), "elsewhere"


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), ANY_TEXT)
def test_go_to_takes_the_first_matching_room_and_records_the_attempt_as_written(rooms, wanted):
    robot = ServiceRobot(state(rooms=rooms, at=rooms[0]))
    matching = [room for room in rooms if found(room, wanted)]
    with nullcontext() if matching else pytest.raises(RobotError, match=r"^RobotGoToError"):
        robot.go_to(wanted)
    assert robot.get_current_location() == (matching or rooms)[0]
    assert robot.trace == [["GoTo", wanted.strip(), None]]


@given(st.sampled_from(["yes", "no", "red|tea", "hot", "xyz"]), st.sampled_from(["hot out?", "tea"]), OPTIONS)
def test_ask_returns_the_first_option_by_answer_then_by_yes_or_no(answer, question, options):
    robot = ServiceRobot(state(agents={"start_loc": [("ann", [answer])]}))
    fallback = "yes" if found(answer, question) else "no"
    expected = [o for o in options if found(answer, o)] or [o for o in options if found(fallback, o)]
    with nullcontext() if expected else pytest.raises(RobotError, match=r"^RobotAskError"):
        assert robot.ask("Ann", question, options) == expected[0]
    assert robot.trace == [["Ask", question, options]]


@given(st.lists(st.sampled_from(["red", "blue", "green"]), min_size=1, max_size=5), st.integers(1, 8))
def test_answers_are_used_up_and_the_last_one_repeats(answers, asked):
    robot = ServiceRobot(state(agents={"start_loc": [("ann", answers)]}))
    heard = [robot.ask("ann", "which?", ["green", "blue", "red"]) for _ in range(asked)]
    assert heard == [answers[min(i, len(answers) - 1)] for i in range(asked)]


def test_when_an_answer_fits_no_option_the_next_matching_person_is_tried():
    """The person passed over has used up an answer."""
    people = [("ann", ["purple", "red"]), ("bob", ["red"]), (".*", ["blue"])]
    robot = ServiceRobot(state(agents={"start_loc": people}))
    assert [robot.ask("ann", "which?", ["red", "blue"]) for _ in range(2)] == ["blue", "red"]


@pytest.mark.parametrize(
    ("agents", "arguments"),
    [
        ({}, ("ann", "ok?", ["yes"])),
        ({"kitchen": [("ann", ["yes"])]}, ("ann", "ok?", ["yes"])),
        ({"start_loc": [("bob", ["yes"])]}, ("ann", "ok?", ["yes"])),
        ({"start_loc": [("ann", ["yes"])]}, ("ann", "ok?", [])),
        ({"start_loc": [("ann", [])]}, ("ann", "ok?", ["yes"])),
        ({"start_loc": [("ann", []), (".*", ["yes"])]}, ("ann", "ok?", ["yes"])),
    ],
    ids=["nobody", "elsewhere", "another name", "no options", "no answers", "no answers, someone else has"],
)
def test_ask_that_cannot_be_answered_is_a_robot_error_after_the_trace(agents, arguments):
    robot = ServiceRobot(state(agents=agents))
    with pytest.raises(RobotError, match=r"^RobotAskError"):
        robot.ask(*arguments)
    assert robot.trace == [["Ask", "ok?", arguments[2]]]


@given(NOT_TEXT)
def test_something_else_than_text_is_a_robot_error_without_a_trace(wrong):
    everything = state({"start_loc": [".*"]}, {"start_loc": [(".*", ["yes"])]})
    for call, arguments, error in (
        ("is_in_room", (wrong,), "CheckEntity"),
        ("go_to", (wrong,), "GoTo"),
        ("ask", (wrong, "ok?", ["yes"]), "Ask"),
        ("ask", ("ann", wrong, ["yes"]), "Ask"),
        ("say", (wrong,), "Say"),
        ("pick", (wrong,), "Pick"),
        ("place", (wrong,), "Place"),
    ):
        robot = ServiceRobot(everything)
        with pytest.raises(RobotError, match=f"^Robot{error}Error"):
            RobotHost(robot).call(call, arguments, {})
        assert robot.trace == [], call


@given(st.lists(NAMES, max_size=5), ANY_TEXT)
def test_pick_takes_the_first_matching_label_and_records_success_only(labels, wanted):
    robot = ServiceRobot(state({"start_loc": labels}))
    index = next((i for i, label in enumerate(labels) if found(label, wanted)), None)
    with nullcontext() if index is not None else pytest.raises(RobotError, match=r"^RobotPickError"):
        robot.pick(wanted)
    if index is None:
        assert robot.trace == [] and robot.holding is None
    else:
        assert robot.objects["start_loc"] == labels[:index] + labels[index + 1 :]
        assert robot.trace == [["Pick", wanted.strip(), None]] and robot.holding == wanted


def test_one_hand_is_empty_or_full():
    robot = ServiceRobot(state({"start_loc": ["cup", "cup"]}))
    with pytest.raises(RobotError, match=r"^RobotPlaceError"):
        robot.place("cup")
    robot.pick("cup")
    with pytest.raises(RobotError, match=r"^RobotPickError"):
        robot.pick("cup")
    assert robot.objects["start_loc"] == ["cup"]


@given(st.sampled_from(["cup", "a cup", "Cup ", "my cup"]), st.sampled_from(["cup", "a cup", "CUP", "plate"]))
def test_place_wants_exactly_the_text_that_was_picked(picked, placed):
    robot = ServiceRobot(state({"start_loc": ["cup"]}))
    robot.pick(picked)
    robot.go_to("kitchen")
    with nullcontext() if placed == picked else pytest.raises(RobotError, match=r"^RobotPlaceError"):
        robot.place(placed)
    if placed == picked:
        assert robot.objects["kitchen"] == [placed] and robot.holding is None
        assert robot.trace[-1] == ["Place", placed.strip(), None]
    else:
        assert robot.holding == picked and robot.trace[-1][0] == "GoTo"


@pytest.mark.parametrize(
    "text", ["(cup", "cup*", "cup.", "[cup]", "cup|mug", "\\bcup", "^cup$", "cup (red)", "CUP", "c\u00fap cup"]
)
def test_a_placed_text_stands_for_itself_whatever_it_would_mean_as_a_pattern(text):
    robot = ServiceRobot(state({"start_loc": ["cup"]}))
    robot.pick(text)
    robot.place(text)
    assert robot.is_in_room(f"a {text} indeed") and robot.is_in_room(text.upper()) and not robot.is_in_room("mug")
    assert not robot.is_in_room("cup") or text == "CUP"
    robot.pick(text)
    assert robot.holding == text


def test_texts_longer_than_the_limit_are_refused():
    robot = ServiceRobot(state(agents={"start_loc": [(".*", ["yes"])]}))
    host = RobotHost(robot)
    host.call("say", ("x" * MAX_TEXT_CHARS,), {})
    for call, arguments in (
        ("say", ("x" * (MAX_TEXT_CHARS + 1),)),
        ("ask", ("a", "b?", ["x" * MAX_TEXT_CHARS, "yes"])),
    ):
        with pytest.raises(RobotError):
            host.call(call, arguments, {})
    assert len(robot.trace) == 1


def test_a_trace_stops_growing_but_the_run_goes_on():
    robot = ServiceRobot(state())
    calls = MAX_TRACE_BYTES // 1000 + 50
    for _ in range(calls):
        robot.say("x" * 1000)
    assert 900 < len(robot.trace) < calls
    assert sum(len(event[1]) for event in robot.trace) <= MAX_TRACE_BYTES


@given(st.sampled_from(["a", "b|c", "^a", r"\bc", "$", ".*b", "(a)"]), st.text("abc\n", max_size=8))
def test_leaving_out_a_leading_repetition_does_not_change_what_is_found(pattern, text):
    assert bool(compile_search_pattern(".*" + pattern).search(text)) == found(".*" + pattern, text)


BODY = "def task_program():\n    go_to(\"Hall\")\n    say('Hi')"
LOWERED = BODY.replace("Hall", "hall")
# What is written, the program that is made of it, and by how many lines that begins later.
PREPARED = {
    "inside of a fence": (f"Sure, here it is:\n```python\n{BODY}\n```\nIt goes to the hall.", LOWERED + "\n", 2),
    "cut at a later line in column zero": (BODY + "\n\n# Next: go to the kitchen\n", LOWERED + "\n", 0),
    "a closing fence alone": (BODY + "\n```\nmore words", LOWERED, 0),
    "a missing definition": (BODY.partition("\n")[2] + "\n", LOWERED + "\n", -1),
}


def test_the_program_is_what_is_meant():
    found = {name: extract_runnable_program(text) for name, (text, _, _) in PREPARED.items()}
    assert {name: (p.source, p.line_offset) for name, p in found.items()} == {n: row[1:] for n, row in PREPARED.items()}


def test_only_double_quoted_strings_on_one_line_are_lowered():
    assert lower_double_quoted("""say(f"Hi {Name}") # "A"\nsay('B')""") == """say(f"hi {name}") # "a"\nsay('B')"""
    assert lower_double_quoted('"A\nB"') == '"A\nB"'


@given(st.text(alphabet='def task_progr():\n `python"AbC x#', max_size=80), st.booleans())
def test_preparing_twice_changes_nothing_more(text, defined):
    once = extract_runnable_program(BODY + text if defined else text)
    assert extract_runnable_program(once.source).source == once.source


def test_membership_tests_of_strings_become_true_false_or_stay():
    source = 'rooms = get_all_rooms()\nif "a" in rooms and "b" not in get_all_rooms():\n    pass'
    seen = {randomise_membership_tests(source, random.Random(seed)) for seed in range(60)}
    conditions = {line for text in seen for line in text.splitlines() if line.startswith("if")}
    assert "if True and False:" in conditions
    assert any("in rooms" in condition for condition in conditions)
    assert len(conditions) == 3 * 3


ODD_SOURCES = {
    "5000 terms": "x = " + " + ".join(["1"] * 5000),
    "deep lists": "x = " + "[" * 3000 + "]" * 3000,
    "many signs": "x = " + "-" * 50_000 + "1",
    "half a pair of surrogates": "x = '\ud800'",
    "a null": "x = 1\x00",
    "megabytes": "x = [" + "1," * 1_000_000 + "]",
}


@pytest.mark.filterwarnings("error")
def test_no_program_is_too_odd_to_be_read():
    for name, line in ODD_SOURCES.items():
        source = extract_runnable_program(f"rooms = get_all_rooms()\nif 'a' in rooms:\n    pass\n{line}\n").source
        for seed in range(5):
            assert randomise_membership_tests(source, random.Random(seed)).startswith("def task_program"), name


def test_a_world_with_a_broken_pattern_or_an_unknown_room_cannot_be_built():
    fine = {"start_loc": [("ann", ["yes"])]}
    for objects, agents, wrong in (
        ({"start_loc": ["(cup"]}, fine, re.error),
        ({}, {"start_loc": [("ann", ["[a"])]}, re.error),
        ({"cellar": ["cup"]}, fine, ValueError),
        ({}, {"cellar": [("ann", ["yes"])]}, ValueError),
    ):
        ServiceRobot(state({}, fine))
        with pytest.raises(wrong):
            ServiceRobot(state(objects, agents))
