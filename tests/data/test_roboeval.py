"""RoboEval and Robo-Instruct, on files made up here and, where there is one, on a real checkout."""

import csv
from pathlib import Path

import pytest
from support.json_rows import write_rows

from lit_rl.data import RoboEval, RoboInstruct
from lit_rl.data.robots.robot_checks import InventedWorlds
from lit_rl.data.robots.trace_checks import check_holds

TASK = """
import sys
from typing import List

name = "WaterPlants"
prompts = ["Water the plants.", "Give water to the plants."]

state0 = State().addLocation("attic").addLocation("porch").addLocation("start_loc") \\
        .addObject("fern", "porch").addAgent("zoe", "attic", [r"yes", contain_words(["a", "b"])]) \\
        .addRobotLocation("start_loc")

def visited(trace, room: str, VERBOSE: bool = False) -> bool:
    '''Whether a room was visited.'''
    if VERBOSE:
        print_debug("visited", trace)
    return trace.Exists(GoTo(f"{room}"))

def watered(trace, rooms: List[str], VERBOSE=False):
    done = True
    for room in rooms:
        new_trace = trace
        act = new_trace.ActAtFirst(room, Say("water"))
        while new_trace.AfterFirst(GoTo(room)).Exists(GoTo(room)):
            new_trace = new_trace.AfterFirst(GoTo(room))
            act = act or new_trace.ActAtFirst(room, Say("water"))
        done = done and act
    return done

def test0(elements, VERBOSE: bool = False):
    trace = Trace(elements)
    seen = visited(trace, "porch", VERBOSE=VERBOSE) and not visited(trace, "cellar")
    patterns = [r"a{n}".format(n=i) for i in range(2)] + ["|.*".join(["x", "y"])]
    early = trace.BeforeLast(Ask(patterns[0], ".*")) if False else trace
    return seen and watered(trace, ["porch"]) and trace.Precedes(GoTo("porch"), GoTo(none_of))

none_of = contain_words_and_exlude_words([], ["start_loc"])
tests = [{"state": state0, "test": test0, "timeout": False}]
"""


@pytest.fixture
def task(tmp_path, monkeypatch):
    """The row of a checkout with one task file."""
    folder = tmp_path / "benchmark" / "tasks"
    folder.mkdir(parents=True)
    (folder / "WaterPlants.py").write_text(TASK)
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from roboeval_rows import read_tasks

    (row,) = read_tasks(tmp_path)
    return row


def test_a_task_file_becomes_prompts_worlds_and_formulas(task):
    assert task["name"] == "WaterPlants" and task["prompts"] == ["Water the plants.", "Give water to the plants."]
    (test,) = task["tests"]
    assert test["state"] == {
        "locations": ["attic", "porch", "start_loc"],
        "objects": {"porch": ["fern"]},
        "agents": {"attic": [{"name": "zoe", "answers": ["yes", "^(?=.*a)(?=.*b).*$"]}]},
        "robot_location": "start_loc",
    }
    assert test["should_timeout"] is False
    assert test["check"] == [
        "and",
        ["and", ["exists", "trace", ["GoTo", "porch"]], ["not", ["exists", "trace", ["GoTo", "cellar"]]]],
        ["act_at_any_visit", "trace", "porch", ["Say", "water"]],
        ["precedes", "trace", ["GoTo", "porch"], ["GoTo", r"^(?!.*\bstart_loc\b).*$"]],
    ]


def test_the_formula_means_what_the_function_says(task):
    check = task["tests"][0]["check"]
    water, elsewhere = ["Say", "water now", None], ["GoTo", "attic", None]
    porch, start = ["GoTo", "porch", None], ["GoTo", "start_loc", None]
    assert check_holds(check, [porch, water, elsewhere])
    assert check_holds(check, [porch, start, porch, water, elsewhere])
    assert not check_holds(check, [porch, start, water])
    assert not check_holds(check, [porch, water, elsewhere, ["GoTo", "cellar", None]])


def test_the_data_module_gives_one_problem_a_wording_and_none_to_train_on(tmp_path, task):
    data = RoboEval(write_rows(tmp_path, task), timeout_seconds=2.0)
    assert data.problems("train") == []
    first, second = data.problems("validation")
    assert first.task_id == "roboeval/WaterPlants/0" and second.task_id == "roboeval/WaterPlants/1"
    assert first.check == second.check and first.check.timeout_seconds == 2.0 and first.check.num_tests == 1
    assert first.prompt[-1]["content"] == "Water the plants."
    assert first.reference is None


GOOD = 'def task_program():\n    go_to("Attic")\n    say("hello")'
ROWS = [
    {"prompt": "Greet the attic.", "program": GOOD, "gen_count": "1", "revision": "Go to the attic and say hello."},
    {"prompt": "Say bye.", "program": 'def task_program():\n    say("bye")', "gen_count": "2", "revision": ""},
    {"prompt": "", "program": 'def task_program():\n    say("no prompt")', "gen_count": "1", "revision": ""},
    {"prompt": "Left out.", "program": "def task_program():\n    say('x')\n    ...", "gen_count": "1", "revision": ""},
    {"prompt": "Say bye.", "program": 'def task_program():\n    say("other")', "gen_count": "1", "revision": ""},
]


@pytest.fixture(params=["csv", "jsonl"])
def path(request, tmp_path):
    if request.param == "jsonl":
        return write_rows(tmp_path, *ROWS)
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ROWS[0].keys())
        writer.writeheader()
        writer.writerows(ROWS)
    return file.name


def test_usable_rows_become_problems_with_runnable_references(path):
    first, second = RoboInstruct(path, validation_share=0).problems("train")
    assert first.fields["instruction"] == "Go to the attic and say hello."
    assert first.reference == 'def task_program():\n    go_to("attic")\n    say("hello")\n'
    assert second.fields["instruction"] == "Say bye."
    assert first.check == InventedWorlds(num_worlds=20, timeout_seconds=2.0)
    assert first.prompt[-1]["content"] == first.fields["instruction"]


def test_references_are_sound_in_invented_worlds(path, sandbox):
    problems = RoboInstruct(path, validation_share=0).problems("train")
    outcomes = sandbox.judge_many([(problem.reference, problem.check) for problem in problems])
    assert [outcome.robot_verdict for outcome in outcomes] == ["success", "success"]
