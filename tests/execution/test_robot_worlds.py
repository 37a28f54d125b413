"""Service-robot programs in the sandbox: verdicts, traces, invented worlds, recorded runs."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from support.named_jobs import judge_named
from support.robot_worlds import SAID_HI, judge, program, worlds
from support.slow_cases import slow_but

from lit_rl.data.robots.robot_checks import InventedWorlds, RobotTest, RobotWorlds
from lit_rl.data.robots.robot_judge import MAX_CALLS
from lit_rl.execution import Verdict

# --- verdicts ---------------------------------------------------------------------------------------------


def test_a_program_that_does_the_task_succeeds_and_its_trace_is_told(sandbox):
    source = program(
        'go_to("hall")',
        'answer = ask("Ann", "Some Tea?", ["Yes", "No"])',
        'go_to("Kitchen")',
        'if is_in_room("cup"): pick("cup")',
        "go_to(get_all_rooms()[-1])",
        'place("cup")',
        "say(' Hi, ' + answer + ' ')",
    )
    outcome = judge(sandbox, source, worlds(SAID_HI))
    assert (outcome.robot_verdict, outcome.verdict, outcome.cases) == ("success", Verdict.PASSED, (Verdict.PASSED,))
    assert outcome.traces == (
        [
            ["GoTo", "hall", None],
            ["Ask", "some tea?", ["yes", "no"]],
            ["GoTo", "kitchen", None],
            ["CheckEntity", "cup", None],
            ["Pick", "cup", None],
            ["GoTo", "start_loc", None],
            ["Place", "cup", None],
            ["Say", "Hi, yes", None],
        ],
    )
    by_name = program('go_to(location="hall")', 'say(message=ask(person="ann", question="?", options=["yes"]))')
    assert judge(sandbox, by_name).robot_verdict == "success"


def test_a_false_check_is_a_completion_error_and_the_other_tests_still_run(sandbox):
    never = ["exists", "trace", ["Say", "never"]]
    outcome = judge(sandbox, program('say("hi")'), worlds(never, SAID_HI, ["and", SAID_HI, never]))
    assert outcome.robot_verdict == "completion_error" and outcome.verdict is Verdict.WRONG_ANSWER
    assert outcome.cases == (Verdict.WRONG_ANSWER, Verdict.PASSED, Verdict.WRONG_ANSWER)
    assert len(outcome.traces) == 3


def test_a_refused_call_is_a_robot_error_at_its_line_and_ends_the_tests(sandbox):
    outcome = judge(sandbox, program('say("hi")', "", 'go_to("moon")'), worlds(SAID_HI, SAID_HI))
    assert outcome.robot_verdict == "robot_execution_error" and outcome.verdict is Verdict.EXCEPTION
    assert outcome.line == 4 and "RobotGoToError" in outcome.stderr
    assert outcome.traces == ([["Say", "hi", None], ["GoTo", "moon", None]],)
    # The line is that of the text that was given.
    assert judge(sandbox, '    say("hi")\n    go_to("moon")').line == 2
    fenced = "Here:\n\n```python\n" + program('go_to("moon")') + "```\nDone."
    assert judge(sandbox, fenced).line == 5
    later = program('if is_in_room("cup"): pick("cup")', 'pick("spoon")')
    assert judge(sandbox, later, worlds(["not", True], True)).robot_verdict == "robot_execution_error"


PYTHON_ERRORS = {
    "x = 1 / 0": Verdict.EXCEPTION,
    "x = = 1": Verdict.SYNTAX_ERROR,
    'go_to("hall", "kitchen")': Verdict.EXCEPTION,
    "while True: pass": Verdict.TIMED_OUT,
    "x = [0] * 10**9": Verdict.OUT_OF_MEMORY,
}


def test_everything_else_is_a_python_error(sandbox):
    check = worlds(SAID_HI, timeout_seconds=0.3)
    jobs = {line: (program("import sys", 'say("hi")', line), check) for line in PYTHON_ERRORS}
    found = {line: (end.robot_verdict, end.verdict) for line, end in judge_named(sandbox, jobs).items()}
    assert found == {line: ("python_error", verdict) for line, verdict in PYTHON_ERRORS.items()}
    nothing = judge(sandbox, " \n")
    assert (nothing.verdict, nothing.robot_verdict) == (Verdict.NO_PROGRAM, "python_error")


def test_an_error_is_the_robots_only_if_the_world_refused_a_call(sandbox):
    """An exception's text is the program's own word; a program may catch what the world refuses."""
    source = program("try:", '    go_to("moon")', "except Exception as error:", '    say("hi " + str(error)[:15])')
    outcome = judge(sandbox, source, worlds(SAID_HI))
    assert (outcome.robot_verdict, outcome.traces[0][-1]) == ("success", ["Say", "hi RobotGoToError:", None])
    assert judge(sandbox, program("raise ValueError('Robot lost')")).robot_verdict == "python_error"
    refused = ("try: go_to('moon')", "except Exception as e: raise {}")
    wanted = {
        "": "robot_execution_error",
        "e": "robot_execution_error",
        "ValueError(e)": "robot_execution_error",
        "ValueError('Robot lost') from e": "robot_execution_error",
        "ValueError('Robot\\nlost')": "python_error",
        "ValueError": "python_error",
        "SystemExit(1)": "python_error",
    }
    jobs = {raised: (program(refused[0], refused[1].format(raised)), worlds()) for raised in wanted}
    assert {raised: end.robot_verdict for raised, end in judge_named(sandbox, jobs).items()} == wanted


# How a program leaves, and what that makes of a task it has done.
LEFT = {
    "exit()": "success",
    "sys.exit(None)": "success",
    "sys.exit(3)": "python_error",
    "sys.exit(True)": "python_error",
    "os._exit(0)": "python_error",
    "raise type('SystemExit', (Exception,), {})('0')": "python_error",
    'os.write(4, b\'["end",{"types":["SystemExit"],"message":"0"}]\\n\'); os._exit(0)': "python_error",
    "os.write(4, b'[\"end\",null]\\n'); os._exit(3)": "python_error",
    "signal.raise_signal(15)": "python_error",
}


def test_a_program_has_returned_only_if_its_process_ended_with_status_zero(sandbox):
    jobs = {}
    for left in LEFT:
        source = program("import os, signal", 'say("hi")', left)
        jobs |= {(left, "given"): (source, worlds(SAID_HI)), (left, "invented"): (source, InventedWorlds(3))}
    found = {how: outcome.robot_verdict for how, outcome in judge_named(sandbox, jobs).items()}
    assert {how: verdict for how, verdict in found.items() if verdict != LEFT[how[0]]} == {}


def test_each_test_has_a_fresh_world_and_a_fresh_process_in_which_sleeping_takes_no_time(sandbox):
    fresh = "import sys", "time.sleep(3600)", 'assert not hasattr(sys, "seen")', "sys.seen = 1"
    source = program(*fresh, 'go_to("kitchen")', 'pick("cup")')
    outcome = judge(sandbox, source, worlds(True, True))
    assert outcome.robot_verdict == "success"
    assert outcome.traces[0] == outcome.traces[1]


# --- time -------------------------------------------------------------------------------------------------


WAITING = program('go_to("kitchen")', 'while not is_in_room("person"): pass', 'say("hi")')
WAITED = ["and", ["exists", "trace", ["CheckEntity", "person"]], ["not", SAID_HI]]


@pytest.mark.parametrize("seconds", slow_but((0.5,), (0.5, 20.0)))
def test_waiting_for_ever_is_fine_where_it_is_expected_and_a_python_error_elsewhere(sandbox, seconds):
    outcome = judge(sandbox, WAITING, worlds(WAITED, should_timeout=True, timeout_seconds=seconds))
    assert outcome.robot_verdict == "success" and outcome.verdict is Verdict.PASSED
    assert len(outcome.traces[0]) <= MAX_CALLS
    assert judge(sandbox, WAITING, worlds(WAITED, timeout_seconds=0.5)).robot_verdict == "python_error"
    # Where a time-out is expected, none is no error, and an error stays one.
    assert judge(sandbox, program('say("hi")'), worlds(SAID_HI, should_timeout=True)).robot_verdict == "success"
    assert judge(sandbox, program("1 / 0"), worlds(True, should_timeout=True)).robot_verdict == "python_error"


# --- invented worlds --------------------------------------------------------------------------------------


def invented(sandbox, *lines, num_worlds=20, **options):
    check = InventedWorlds(num_worlds=num_worlds, **{"timeout_seconds": 0.3, **options})
    return judge(sandbox, program(*lines), check)


def test_a_program_that_looks_before_it_picks_is_accepted_in_every_world_and_no_other(sandbox):
    looks = "    go_to(room)", '    if is_in_room("cup"):', '        pick("cup")', "        break"
    outcome = invented(sandbox, "for room in get_all_rooms():", *looks, 'go_to("start_loc")', 'say("done")')
    assert outcome.robot_verdict == "success" and len(outcome.cases) == 20
    outcome = invented(sandbox, 'is_in_room("cup")', 'pick("cup")')
    assert outcome.robot_verdict == "robot_execution_error" and "RobotPickError" in outcome.stderr
    assert outcome.line == 3


CAUGHT = {
    "passed over": "pass",
    "then left otherwise": "__import__('os')._exit(0)",
    "then another error": "1 / 0",
    "then waits for ever": "any(iter(int, 1))",
    "then an end that is forged": "__import__('os').write(4, b'[\"end\",null]\\n')",
}


def test_a_contradiction_counts_also_if_the_program_catches_it(sandbox):
    """``place`` contradicts an empty hand; a cup that was asked for is a person, and cannot be picked up."""
    jobs = {}
    for call in ("pick('cup')", "ask('cup', 'ok?', ['yes'])", "place('plate')"):
        for name, then in CAUGHT.items():
            lines = ("try:", "    is_in_room('cup')", f"    {call}", "    pick('cup')", f"except BaseException: {then}")
            jobs[call, name] = program(*lines), InventedWorlds(num_worlds=20, timeout_seconds=0.3)
    found = {how: (end.verdict, end.robot_verdict) for how, end in judge_named(sandbox, jobs).items()}
    assert set(found.values()) == {(Verdict.EXCEPTION, "robot_execution_error")}, found
    told = invented(sandbox, "try: place('cup')", "except Exception: pass", "say('done')")
    assert told.exception_type == "RobotError" and "RobotPlaceError: not holding 'cup'" in told.stderr
    assert told.cases == (Verdict.EXCEPTION,)


def test_a_contradiction_in_a_thread_or_in_a_hook_counts(sandbox):
    for lines in (
        ["import threading", "t = threading.Thread(target=place, args=('cup',))", "t.start()", "t.join()"],
        ["class A:", "    def __del__(self): place('cup')", "A()"],
    ):
        assert invented(sandbox, *lines).robot_verdict == "robot_execution_error"


def test_waiting_ends_in_an_invented_world_and_the_second_time_out_refuses(sandbox):
    waits = invented(sandbox, 'while not is_in_room("person"): time.sleep(1)')
    assert waits.robot_verdict == "success"
    spins = invented(sandbox, "while True: pass")
    assert (spins.robot_verdict, spins.verdict, len(spins.cases)) == ("python_error", Verdict.TIMED_OUT, 2)


def test_the_same_seed_gives_the_same_runs_in_which_an_error_behind_a_rooms_name_is_found(sandbox):
    rooms = invented(sandbox, "rooms = get_all_rooms()", 'if "library" in rooms:', "    x = undefined")
    assert rooms.robot_verdict == "python_error"
    lines = ['say("a")', 'if is_in_room("x") and is_in_room("y"):', "    1 / 0"]
    first, second = invented(sandbox, *lines), invented(sandbox, *lines)
    assert (first.cases, first.traces) == (second.cases, second.traces)
    assert any(invented(sandbox, *lines, seed=seed).cases != first.cases for seed in range(1, 6))


# --- recorded runs of a real checkout ---------------------------------------------------------------------


def recorded_runs(file):
    """``(name, program, record)`` of one file of recorded runs, read as literals."""
    records, programs = {}, {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, ast.literal_eval(node.value)
            if name.startswith("program_"):
                programs[name.removeprefix("program_")] = value
            elif isinstance(value, dict):
                records[name] = value
    return [(name, programs[name], record) for name, record in records.items()]


def recorded_event(line):
    kind, value1, value2 = (part.strip() for part in line.split("/$@!/"))
    return [kind, value1, ast.literal_eval(value2)]


@pytest.mark.slow
def test_recorded_runs_of_the_benchmark_end_the_same_way(sandbox, monkeypatch):
    """Worlds are those of the tasks, checks those of the variants without world knowledge, as upstream ran them."""
    checkout = os.environ.get("LIT_RL_CODEBOTLER")
    if not checkout:
        pytest.skip("no RoboEval checkout: set LIT_RL_CODEBOTLER to its root")
    benchmark = Path(checkout) / "benchmark"
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from roboeval_rows import read_task, read_tasks

    variants = [read_task(file) for file in (benchmark / "tasks" / "open_world_knowledge").glob("*.py")]
    states = {task["name"]: [test["state"] for test in task["tests"]] for task in read_tasks(Path(checkout))}
    checks = {task["name"]: [test["check"] for test in task["tests"]] for task in variants}
    files = sorted((benchmark / "evaluations" / "open_world_knowledge").glob("*.py"))
    runs = [run for file in files for run in recorded_runs(file)]
    jobs = []
    for name, source, _ in runs:
        task, _, _, index = name.rsplit("_", 3)
        test = RobotTest(states[task][int(index)], False, checks[task][int(index)])
        jobs.append((source, RobotWorlds((test,))))
    for (name, _, record), outcome in zip(runs, sandbox.judge_many(jobs), strict=True):
        if record["error_message"]:
            refused = "Robot" in record["error_message"]
            assert outcome.robot_verdict == ("robot_execution_error" if refused else "python_error"), name
        else:
            true = record["is_sat"] == "True"
            assert outcome.robot_verdict == ("success" if true else "completion_error"), name
            assert outcome.traces[0] == [recorded_event(line) for line in record["trace_elements_str"]], name
    assert len(runs) > 1000
