"""The reader of RoboEval task files, on files made up here and, where there is one, on a real checkout."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from lit_rl.data.robots.robo_instruct import RoboInstruct
from lit_rl.data.robots.roboeval import RoboEval
from lit_rl.data.robots.roboeval_files import TaskFileError, read_task, read_tasks
from lit_rl.data.robots.robot_checks import InventedWorlds
from lit_rl.data.robots.trace_checks import holds

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


def write(tmp_path: Path, source: str) -> Path:
    folder = tmp_path / "benchmark" / "tasks"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "WaterPlants.py").write_text(source)
    return folder / "WaterPlants.py"


@pytest.fixture
def plain_task() -> str:
    """A task without the expressions the reader refuses."""
    lines = [line for line in TASK.splitlines() if "early =" not in line and "patterns =" not in line]
    return "\n".join(lines)


def test_a_task_file_becomes_prompts_worlds_and_formulas(tmp_path, plain_task):
    task = read_task(write(tmp_path, plain_task))
    assert task.name == "WaterPlants" and task.prompts == ("Water the plants.", "Give water to the plants.")
    (test,) = task.tests
    assert test.state == {
        "locations": ["attic", "porch", "start_loc"],
        "objects": {"porch": ["fern"]},
        "agents": {"attic": [{"name": "zoe", "answers": ["yes", "^(?=.*a)(?=.*b).*$"]}]},
        "robot_location": "start_loc",
    }
    assert not test.should_timeout
    assert test.check == [
        "and",
        ["and", ["exists", "trace", ["GoTo", "porch"]], ["not", ["exists", "trace", ["GoTo", "cellar"]]]],
        ["act_at_any_visit", "trace", "porch", ["Say", "water"]],
        ["precedes", "trace", ["GoTo", "porch"], ["GoTo", r"^(?!.*\bstart_loc\b).*$"]],
    ]


def test_the_formula_means_what_the_function_says(tmp_path, plain_task):
    check = read_task(write(tmp_path, plain_task)).tests[0].check
    water, elsewhere = ["Say", "water now", None], ["GoTo", "attic", None]
    porch, start = ["GoTo", "porch", None], ["GoTo", "start_loc", None]
    assert holds(check, [porch, water, elsewhere])
    assert holds(check, [porch, start, porch, water, elsewhere])
    assert not holds(check, [porch, start, water])
    assert not holds(check, [porch, water, elsewhere, ["GoTo", "cellar", None]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("return trace.Exists", "return open"), "'open'"),
        (('return trace.Exists(GoTo(f"{room}"))', "return __import__('os').system('true')"), "__import__"),
        (('return trace.Exists(GoTo(f"{room}"))', "return trace.__class__"), "Attribute"),
        (("if VERBOSE:", "if trace.Exists(GoTo('a')):"), "depends on the trace"),
        (("act = act or new", "act = act and new"), "not one over visits"),
        (("done = True\n", "done = True\n    x = lambda: 1\n"), "Lambda"),
        (("return done", "pass"), "Pass"),
        (('"timeout": False', '"timeout": missing'), "'missing'"),
        (('tests = [{"state": state0, "test": test0, "timeout": False}]', "tests = []"), "the list of tests is empty"),
    ],
)
def test_what_the_rules_do_not_cover_is_an_error_with_file_and_line(tmp_path, plain_task, change, message):
    assert change[0] in plain_task
    with pytest.raises(TaskFileError, match=message) as caught:
        read_task(write(tmp_path, plain_task.replace(*change, 1)))
    assert "WaterPlants.py:" in str(caught.value) or "formula" in str(caught.value)


def test_reading_runs_nothing(tmp_path, plain_task):
    marker = tmp_path / "was_run"
    source = f"import pathlib\npathlib.Path({str(marker)!r}).write_text('x')\n" + plain_task
    read_task(write(tmp_path, source))
    assert not marker.exists()


def test_an_endless_loop_in_a_task_file_ends_with_an_error(tmp_path, plain_task, monkeypatch):
    monkeypatch.setattr("lit_rl.data.robots.roboeval_files._MAX_STEPS", 1000)
    source = plain_task.replace("for room in rooms:", "for room in range(10000000):", 1)
    with pytest.raises(TaskFileError, match="too many steps"):
        read_task(write(tmp_path, source))


def test_the_data_module_gives_one_problem_a_wording_and_none_to_train_on(tmp_path, plain_task):
    write(tmp_path, plain_task)
    data = RoboEval(checkout=str(tmp_path), timeout_seconds=2.0)
    assert data.problems("train") == []
    first, second = data.problems("validation")
    assert first.task_id == "roboeval/WaterPlants/0" and second.task_id == "roboeval/WaterPlants/1"
    assert first.check == second.check and first.check.timeout_seconds == 2.0
    assert first.prompt[-1]["content"] == "Water the plants."
    assert first.reference is None


@pytest.fixture(scope="module")
def checkout() -> Path:
    folder = os.environ.get("LIT_RL_CODEBOTLER")
    if not folder:
        pytest.skip("no RoboEval checkout: set LIT_RL_CODEBOTLER to its root")
    return Path(folder)


def test_the_benchmark_has_16_tasks_with_5_wordings_and_52_tests(checkout):
    tasks = read_tasks(checkout)
    counts = {task.name: len(task.tests) for task in tasks}
    assert (len(counts), sum(counts.values()), {len(task.prompts) for task in tasks}) == (16, 52, {5})
    waiting = {(task.name, i) for task in tasks for i, test in enumerate(task.tests) if test.should_timeout}
    assert waiting == {("ElevatorTour", 1), ("ElevatorTour", 2), ("WeatherPoll", 4)}
    json.dumps([[test.state, test.check] for task in tasks for test in task.tests])
    assert len(RoboEval(checkout=str(checkout)).problems("test")) == 80


GOOD = 'def task_program():\n    go_to("Attic")\n    say("hello")'
ROWS = [
    {"prompt": "Greet the attic.", "program": GOOD, "gen_count": "1", "revision": "Go to the attic and say hello."},
    {"prompt": "Say bye.", "program": 'def task_program():\n    say("bye")', "gen_count": "2", "revision": ""},
    {"prompt": "", "program": 'def task_program():\n    say("no prompt")', "gen_count": "1", "revision": ""},
    {"prompt": "No program.", "program": "", "gen_count": "1", "revision": ""},
    {"prompt": "No call.", "program": "def task_program():\n    pass", "gen_count": "1", "revision": ""},
    {"prompt": "Left out.", "program": "def task_program():\n    say('x')\n    ...", "gen_count": "1", "revision": ""},
    {"prompt": "Say bye.", "program": 'def task_program():\n    say("other")', "gen_count": "1", "revision": ""},
    {"prompt": "Bye again.", "program": 'def task_program():\n    say("bye")', "gen_count": "1", "revision": ""},
]


@pytest.fixture(params=["csv", "jsonl"])
def path(request, tmp_path):
    file = tmp_path / f"rows.{request.param}"
    with file.open("w", newline="", encoding="utf-8") as out:
        if request.param == "csv":
            writer = csv.DictWriter(out, ROWS[0].keys())
            writer.writeheader()
            writer.writerows(ROWS)
        else:
            out.writelines(json.dumps(row) + "\n" for row in ROWS)
    return str(file)


def test_usable_rows_become_problems_with_runnable_references(path):
    first, second = RoboInstruct(path, validation_share=0).problems("train")
    assert first.fields["instruction"] == "Go to the attic and say hello."
    assert first.reference == 'def task_program():\n    go_to("attic")\n    say("hello")\n'
    assert second.fields["instruction"] == "Say bye."
    assert first.check == InventedWorlds(num_worlds=20, timeout_seconds=2.0)
    assert first.prompt[-1]["content"] == first.fields["instruction"]


def test_validation_is_a_part_of_its_own(path):
    data = RoboInstruct(path, validation_share=0.5)
    train, validation = data.problems("train"), data.problems("validation")
    assert len(train) == len(validation) == 1
    assert train[0].task_id != validation[0].task_id
    assert data.problems("test") == validation


def test_references_are_sound_in_invented_worlds(path, sandbox):
    problems = RoboInstruct(path, validation_share=0).problems("train")
    outcomes = sandbox.judge_many([(problem.reference, problem.check) for problem in problems])
    assert [outcome.robot_verdict for outcome in outcomes] == ["success", "success"]


def test_a_file_without_usable_rows_says_so(tmp_path):
    (tmp_path / "rows.csv").write_text("prompt,program\nhello,pass\n")
    with pytest.raises(ValueError, match=r"rows\.csv has no row"):
        RoboInstruct(str(tmp_path / "rows.csv")).problems("train")
    with pytest.raises(FileNotFoundError, match="no data file"):
        RoboInstruct(str(tmp_path / "none.csv")).problems("train")
    with pytest.raises(ValueError, match="validation_share"):
        RoboInstruct("rows.csv", validation_share=1.0)
