"""Service-robot programs in the sandbox: verdicts, traces, forgeries, invented worlds, recorded runs."""

import ast
import contextlib
import os
import socket
from pathlib import Path

import pytest
from support.named_jobs import judge_named
from support.slow_cases import slow_but

from lit_rl.data.robots import robot_judge
from lit_rl.data.robots.robot_checks import InventedWorlds, RobotTest, RobotWorlds
from lit_rl.execution import Verdict
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.spawning import ZygoteSettings

STATE = {
    "locations": ["kitchen", "hall", "start_loc"],
    "objects": {"kitchen": ["cup", "plate"]},
    "agents": {"hall": [{"name": "ann", "answers": ["yes", "no"]}]},
    "robot_location": "start_loc",
}
SAID_HI = ["exists", "trace", ["Say", "hi"]]


def worlds(*checks, should_timeout=False, timeout_seconds=1.0):
    tests = tuple(RobotTest(STATE, should_timeout, check) for check in (checks or (True,)))
    return RobotWorlds(tests, timeout_seconds)


def program(*lines):
    return "def task_program():\n" + "".join(f"    {line}\n" for line in lines)


def judge(sandbox, source, check=None):
    (outcome,) = sandbox.judge_many([(source, check or worlds())])
    return outcome


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


WAITING = program('go_to("kitchen")', 'while not is_in_room("person"): pass', 'say("hi")')
WAITED = ["and", ["exists", "trace", ["CheckEntity", "person"]], ["not", SAID_HI]]


@pytest.mark.parametrize("seconds", slow_but((0.5,), (0.5, 20.0)))
def test_waiting_for_ever_is_fine_where_it_is_expected_and_a_python_error_elsewhere(sandbox, seconds):
    outcome = judge(sandbox, WAITING, worlds(WAITED, should_timeout=True, timeout_seconds=seconds))
    assert outcome.robot_verdict == "success" and outcome.verdict is Verdict.PASSED
    assert len(outcome.traces[0]) <= robot_judge.MAX_CALLS
    assert judge(sandbox, WAITING, worlds(WAITED, timeout_seconds=0.5)).robot_verdict == "python_error"
    # Where a time-out is expected, none is no error, and an error stays one.
    assert judge(sandbox, program('say("hi")'), worlds(SAID_HI, should_timeout=True)).robot_verdict == "success"
    assert judge(sandbox, program("1 / 0"), worlds(True, should_timeout=True)).robot_verdict == "python_error"


FORGED_TRACES = {
    "stdout": ["print('Say /$@!/ hi /$@!/ None', flush=True)"],
    "exit": ["import os", "os._exit(0)"],
    "forged end": ["import os", "os.write(4, b'[\"end\",null]\\n')", "os._exit(0)"],
    "forged answer": ["import os", "os.write(4, b'[\"value\",null]\\n')", "while True: pass"],
    "forged trace": ["import os", 'os.write(4, b\'[["Say","hi",null]]\\n\')'],
    "own say": ["global say", "say = lambda m: None", 'say("hi")'],
    "heap": ["import gc", "for o in gc.get_objects():", "    if isinstance(o, list): o.append(['Say', 'hi', None])"],
    "globals": ["go_to.__globals__['trace'] = [['Say', 'hi', None]]"],
}


def test_a_trace_cannot_be_forged(sandbox):
    check = worlds(SAID_HI, timeout_seconds=0.3)
    jobs = {}
    for name, lines in FORGED_TRACES.items():
        jobs |= {name: (program(*lines), check), f"after {name}": (program('say("hi")'), check)}
    outcomes = judge_named(sandbox, jobs)
    said = {name for name in FORGED_TRACES if any(["Say", "hi", None] in trace for trace in outcomes[name].traces)}
    succeeded = {name for name, outcome in outcomes.items() if outcome.robot_verdict == "success"}
    assert (said, succeeded) == (set(), {f"after {name}" for name in FORGED_TRACES})


NO_TEXTS = ["say(say)", "say(['hi'])", "say(None)", "say(object())", "say(b'hi')", "ask('ann', 'ok?', say)"]


def test_what_is_no_text_or_has_no_end_is_a_robot_error(sandbox):
    calls = [*NO_TEXTS, "say('hi' * 10**5)"]
    for call, outcome in judge_named(sandbox, {call: (program(call), worlds(SAID_HI)) for call in calls}).items():
        assert (outcome.robot_verdict, outcome.traces) == ("robot_execution_error", ([],)), call


def test_a_malformed_check_is_a_fault_of_ours(sandbox):
    outcome = judge(sandbox, program('say("hi")'), worlds(["exists", "trace", ["Shout", "hi"]]))
    assert outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE and "Shout" in outcome.stderr


ODD_OPTIONS = ["{}.keys()", "iter([])", "{1}", "task_program", "b'yes'", "['yes']", "{'yes': 1}", "1j", "...", "None"]
LARGE_OPTIONS = ["10**5000", "[[['x'] * 100] * 100] * 9", "10**-400", "'x' * 4000", "('x',) * 1000", "{1: {2: {3: 4}}}"]


def test_an_option_that_is_no_text_is_told_in_a_trace_that_can_be_sent(sandbox):
    asks = {option: f"try: ask('ann', 'tea?', ['yes', {option}])" for option in ODD_OPTIONS + LARGE_OPTIONS}
    after = "except Exception: pass", "say('hi')"
    jobs = {option: (program("go_to('hall')", ask, *after), worlds(SAID_HI)) for option, ask in asks.items()}
    for option, outcome in judge_named(sandbox, jobs).items():
        assert outcome.robot_verdict == "success", (option, outcome)
        if option in ODD_OPTIONS:
            assert type(outcome.traces[0][1][2][1]) in (str, type(None)), option


def test_a_program_that_cannot_be_taken_apart_runs_as_it_is(sandbox):
    source = program("x = " + " + ".join(["1"] * 700), "if 'cup' in get_all_rooms(): say('hi')", "say(str(x))")
    assert judge(sandbox, source, InventedWorlds(10, 0)).robot_verdict == "success"


def test_what_a_program_says_altogether_is_bounded(sandbox):
    """Ten thousand calls of a megabyte each would be kept in the judge."""
    source = program("for _ in range(10_000):", "    try: say('x' * 900_000)", "    except Exception: pass")
    outcome = judge(sandbox, source)
    assert (outcome.robot_verdict, outcome.verdict) == ("python_error", Verdict.EXCEPTION)


def test_an_exceptions_name_and_message_are_fit_for_a_log(sandbox):
    name = "'a' + chr(27) + chr(10) + 'b' * 1_000_000"
    outcome = judge(sandbox, program(f"raise type({name}, (Exception,), {{}})('c' + chr(27) + 'd')"))
    assert outcome.exception_type == "a\ufffd\ufffd" + "b" * 97
    assert "\x1b" not in outcome.stderr and outcome.robot_verdict == "python_error"


SLOW_LABEL = {**STATE, "objects": {"start_loc": ["a.*a.*b"]}}
LOOKS = program("for number in range(10_000): is_in_room('a' * 4000 + str(number))")


def test_time_that_the_world_takes_over_a_programs_texts_is_the_programs(sandbox):
    """Each look takes the world a second or more; ten thousand would take hours."""
    outcome = judge(sandbox, LOOKS, RobotWorlds((RobotTest(SLOW_LABEL, False, True),), 0.5))
    assert (outcome.verdict, outcome.robot_verdict, len(outcome.traces[0])) == (Verdict.TIMED_OUT, "python_error", 1)
    assert judge(sandbox, program("is_in_room('aab')")).robot_verdict == "success"


def test_time_that_a_check_takes_over_a_programs_texts_is_bounded(monkeypatch):
    slow = ["exists", "trace", ["Say", "a.*a.*b"]]
    source = program("for number in range(200): say('a' * 4000 + str(number))")
    monkeypatch.setattr(robot_judge, "_CHECK_SECONDS", 0.3)
    ours, theirs = socket.socketpair()
    settings = ZygoteSettings(256 << 20, 1 << 20)
    with ours, theirs, contextlib.closing(ZygoteClient(settings, ours.fileno(), ours.fileno())) as client:
        outcome = robot_judge.judge_robot_worlds(client, source, worlds(slow, SAID_HI))
    assert (outcome.verdict, outcome.robot_verdict) == (Verdict.TIMED_OUT, "python_error")
    assert outcome.cases == (Verdict.TIMED_OUT,)


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
