"""Service-robot programs in the sandbox: verdicts, traces, and programs that try to earn them otherwise."""

from __future__ import annotations

import ast
import os
import time
from pathlib import Path

import pytest

from lit_rl.data.roboeval_files import read_task, read_tasks
from lit_rl.execution import InventedWorlds, RobotTest, RobotWorlds, Verdict
from lit_rl.execution.judging.robot_worlds import MAX_CALLS
from lit_rl.execution.sandbox import Sandbox

STATE = {
    "locations": ["kitchen", "hall", "start_loc"],
    "objects": {"kitchen": ["cup", "plate"]},
    "agents": {"hall": [{"name": "ann", "answers": ["yes", "no"]}]},
    "robot_location": "start_loc",
}
SAID_HI = ["exists", "trace", ["Say", "hi"]]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=1) as running:
        yield running


def worlds(*checks, should_timeout=False, timeout_seconds=1.0):
    tests = tuple(RobotTest(STATE, should_timeout, check) for check in (checks or (True,)))
    return RobotWorlds(tests, timeout_seconds)


def program(*lines):
    return "def task_program():\n" + "".join(f"    {line}\n" for line in lines)


def judge(sandbox, source, check=None):
    (outcome,) = sandbox.judge_many([(source, check or worlds())])
    return outcome


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
    assert outcome.scores == {"conjuncts": 1.0}


def test_arguments_may_be_given_by_name(sandbox):
    source = program('go_to(location="hall")', 'say(message=ask(person="ann", question="?", options=["yes"]))')
    assert judge(sandbox, source).robot_verdict == "success"


def test_a_false_check_is_a_completion_error_and_the_other_tests_still_run(sandbox):
    never = ["exists", "trace", ["Say", "never"]]
    outcome = judge(sandbox, program('say("hi")'), worlds(never, SAID_HI, ["and", SAID_HI, never]))
    assert outcome.robot_verdict == "completion_error" and outcome.verdict is Verdict.WRONG_ANSWER
    assert outcome.cases == (Verdict.WRONG_ANSWER, Verdict.PASSED, Verdict.WRONG_ANSWER)
    assert len(outcome.traces) == 3
    assert outcome.scores["conjuncts"] == pytest.approx((0 + 1 + 0.5) / 3)


def test_a_refused_call_is_a_robot_error_at_its_line_and_ends_the_tests(sandbox):
    outcome = judge(sandbox, program('say("hi")', "", 'go_to("moon")'), worlds(SAID_HI, SAID_HI))
    assert outcome.robot_verdict == "robot_execution_error" and outcome.verdict is Verdict.EXCEPTION
    assert outcome.line == 4 and "RobotGoToError" in outcome.stderr
    assert outcome.traces == ([["Say", "hi", None], ["GoTo", "moon", None]],)
    assert outcome.scores == {"conjuncts": 0.0}


def test_the_line_is_told_in_the_text_that_was_given(sandbox):
    assert judge(sandbox, '    say("hi")\n    go_to("moon")').line == 2
    fenced = "Here:\n\n```python\n" + program('go_to("moon")') + "```\nDone."
    assert judge(sandbox, fenced).line == 5


def test_an_error_in_a_later_test_overrides_a_false_check(sandbox):
    source = program('if is_in_room("cup"): pick("cup")', 'pick("spoon")')
    outcome = judge(sandbox, source, worlds(["not", True], True))
    assert outcome.robot_verdict == "robot_execution_error"


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["x = 1 / 0"], Verdict.EXCEPTION),
        (["x = undefined"], Verdict.EXCEPTION),
        (["x = = 1"], Verdict.SYNTAX_ERROR),
        (['go_to("hall", "kitchen")'], Verdict.EXCEPTION),
        (["go_to()"], Verdict.EXCEPTION),
        (["import sys", "sys.exit(1)"], Verdict.EXCEPTION),
        (["while True: pass"], Verdict.TIMED_OUT),
        (["x = [0] * 10**9"], Verdict.OUT_OF_MEMORY),
    ],
)
def test_everything_else_is_a_python_error(sandbox, lines, verdict):
    outcome = judge(sandbox, program('say("hi")', *lines), worlds(SAID_HI, timeout_seconds=0.3))
    assert (outcome.robot_verdict, outcome.verdict) == ("python_error", verdict)


def test_an_exception_of_the_program_that_names_the_robot_is_a_robot_error(sandbox):
    assert judge(sandbox, program("raise ValueError('Robot lost')")).robot_verdict == "robot_execution_error"
    assert judge(sandbox, program("raise ValueError('Robot\\nlost')")).robot_verdict == "python_error"


def test_a_program_may_catch_what_the_world_refuses(sandbox):
    source = program("try:", '    go_to("moon")', "except Exception as error:", '    say("hi " + str(error)[:15])')
    outcome = judge(sandbox, source, worlds(SAID_HI))
    assert outcome.robot_verdict == "success"
    assert outcome.traces[0][-1] == ["Say", "hi RobotGoToError:", None]


def test_leaving_with_status_zero_is_an_end_like_any_other(sandbox):
    assert judge(sandbox, program('say("hi")', "sys.exit()"), worlds(SAID_HI)).robot_verdict == "success"
    assert judge(sandbox, program("import sys", "sys.exit(0)"), worlds(SAID_HI)).robot_verdict == "completion_error"


def test_options_that_are_no_text_make_a_check_that_reads_them_a_python_error(sandbox):
    source = program('go_to("hall")', "try:", '    ask("ann", "how many?", [1, 2])', "except Exception: pass")
    reads = ["exists", "trace", ["Ask", ".*", "1"]]
    assert judge(sandbox, source, worlds(reads)).robot_verdict == "python_error"
    assert judge(sandbox, source, worlds(["exists", "trace", ["Ask", "many"]])).robot_verdict == "success"


def test_no_program_is_a_python_error(sandbox):
    outcome = judge(sandbox, " \n")
    assert (outcome.verdict, outcome.robot_verdict) == (Verdict.NO_PROGRAM, "python_error")


def test_each_test_has_a_fresh_world_and_a_fresh_process(sandbox):
    source = program("import sys", 'assert not hasattr(sys, "seen")', "sys.seen = 1", 'go_to("kitchen")', 'pick("cup")')
    outcome = judge(sandbox, source, worlds(True, True))
    assert outcome.robot_verdict == "success"
    assert outcome.traces[0] == outcome.traces[1]


# --- time -------------------------------------------------------------------------------------------------


def test_sleeping_takes_no_time(sandbox):
    for first in ("", "import time\n", "from time import sleep\n"):
        call = "sleep(3600)" if "from" in first else "time.sleep(3600)"
        source = first + program(call, 'say("hi")', "sys.stdout.flush()")
        assert judge(sandbox, source, worlds(SAID_HI)).robot_verdict == "success"


WAITING = program('go_to("kitchen")', 'while not is_in_room("person"): pass', 'say("hi")')
WAITED = ["and", ["exists", "trace", ["CheckEntity", "person"]], ["not", SAID_HI]]


def test_waiting_for_ever_is_fine_where_it_is_expected_and_a_python_error_elsewhere(sandbox):
    outcome = judge(sandbox, WAITING, worlds(WAITED, should_timeout=True))
    assert outcome.robot_verdict == "success" and outcome.verdict is Verdict.PASSED
    assert judge(sandbox, WAITING, worlds(WAITED)).robot_verdict == "python_error"


def test_the_trace_of_a_program_that_waits_for_ever_is_bounded(sandbox):
    outcome = judge(sandbox, WAITING, worlds(WAITED, should_timeout=True, timeout_seconds=20.0))
    assert outcome.robot_verdict == "success"
    assert len(outcome.traces[0]) <= MAX_CALLS


def test_not_timing_out_is_no_error_where_a_time_out_is_expected(sandbox):
    assert judge(sandbox, program('say("hi")'), worlds(SAID_HI, should_timeout=True)).robot_verdict == "success"


def test_a_python_error_stays_one_where_a_time_out_is_expected(sandbox):
    assert judge(sandbox, program("1 / 0"), worlds(True, should_timeout=True)).robot_verdict == "python_error"


def test_coming_and_going_thousands_of_times_is_checked_quickly(sandbox):
    source = program("while True:", '    go_to("kitchen")', '    go_to("hall")')
    visits = ["act_at_any_visit", "trace", "kitchen", ["Say", "hi"]]
    started = time.monotonic()
    outcome = judge(sandbox, source, worlds(["and", ["not", visits], True], should_timeout=True))
    assert outcome.robot_verdict == "success"
    assert time.monotonic() - started < 15


# --- programs that try to earn a verdict otherwise ---------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        ["print('Say /$@!/ hi /$@!/ None', flush=True)"],
        ["import sys", 'sys.stderr.write("Say hi")'],
        ["import os", "os._exit(0)"],
        ["import os", "os.write(4, b'[\"end\",null]\\n')", "os._exit(0)"],
        ["import os", "os.write(4, b'[\"value\",null]\\n')", "while True: pass"],
        ["import os", 'os.write(4, b\'[["Say","hi",null]]\\n\')'],
        ["global say", "say = lambda m: None", 'say("hi")'],
        ["import gc", "for o in gc.get_objects():", "    if isinstance(o, list): o.append(['Say', 'hi', None])"],
        ["go_to.__globals__['trace'] = [['Say', 'hi', None]]"],
        [
            "import sys",
            "f = sys._getframe()",
            "while f:",
            "    f.f_globals['trace'] = ['Say', 'hi', None]; f = f.f_back",
        ],
    ],
    ids=[
        "stdout",
        "stderr",
        "exit",
        "forged end",
        "forged answer",
        "forged trace",
        "own say",
        "heap",
        "globals",
        "frames",
    ],
)
def test_a_trace_cannot_be_forged(sandbox, lines):
    outcome = judge(sandbox, program(*lines), worlds(SAID_HI, timeout_seconds=0.3))
    assert outcome.robot_verdict != "success"
    assert all(["Say", "hi", None] not in trace for trace in outcome.traces)
    assert judge(sandbox, program('say("hi")'), worlds(SAID_HI)).robot_verdict == "success"


def test_only_the_eight_functions_can_be_called(sandbox):
    forged = '["call","__init__",["t",["d"]],["d"]]\\n'
    source = program("import os", f"os.write(4, b'{forged}')", "os.read(4, 100)", "while True: pass")
    assert judge(sandbox, source, worlds(SAID_HI, timeout_seconds=0.3)).robot_verdict == "python_error"


@pytest.mark.parametrize(
    "call",
    ["say(say)", "say(['hi'])", "say(None)", "say(object())", "say(b'hi')", "ask('ann', 'ok?', say)"],
)
def test_what_is_no_text_is_a_robot_error(sandbox, call):
    outcome = judge(sandbox, program(call), worlds(SAID_HI))
    assert (outcome.robot_verdict, outcome.traces) == ("robot_execution_error", ([],))


def test_a_message_without_end_is_refused(sandbox):
    outcome = judge(sandbox, program("say('hi' * 10**5)"), worlds(SAID_HI))
    assert (outcome.robot_verdict, outcome.traces) == ("robot_execution_error", ([],))


def test_a_malformed_check_is_a_fault_of_ours(sandbox):
    outcome = judge(sandbox, program('say("hi")'), worlds(["exists", "trace", ["Shout", "hi"]]))
    assert outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE and "Shout" in outcome.stderr


# --- invented worlds --------------------------------------------------------------------------------------


def invented(sandbox, *lines, num_worlds=20, **options):
    check = InventedWorlds(num_worlds=num_worlds, **{"timeout_seconds": 0.3, **options})
    return judge(sandbox, program(*lines), check)


def test_a_program_that_looks_before_it_picks_is_accepted_in_every_world(sandbox):
    outcome = invented(
        sandbox,
        "for room in get_all_rooms():",
        "    go_to(room)",
        '    if is_in_room("cup"):',
        '        pick("cup")',
        "        break",
        'go_to("start_loc")',
        'say("done")',
    )
    assert outcome.robot_verdict == "success" and len(outcome.cases) == 20


def test_a_program_that_ignores_what_it_sees_is_refused(sandbox):
    outcome = invented(sandbox, 'is_in_room("cup")', 'pick("cup")')
    assert outcome.robot_verdict == "robot_execution_error" and "RobotPickError" in outcome.stderr
    assert outcome.line == 3


def test_a_python_error_on_a_branch_that_names_a_room_is_found(sandbox):
    outcome = invented(sandbox, "rooms = get_all_rooms()", 'if "library" in rooms:', "    x = undefined")
    assert outcome.robot_verdict == "python_error"


def test_waiting_ends_in_an_invented_world(sandbox):
    outcome = invented(sandbox, 'while not is_in_room("person"): time.sleep(1)')
    assert outcome.robot_verdict == "success"


def test_the_second_time_out_refuses(sandbox):
    outcome = invented(sandbox, "while True: pass")
    assert (outcome.robot_verdict, outcome.verdict, len(outcome.cases)) == ("python_error", Verdict.TIMED_OUT, 2)


def test_the_same_seed_gives_the_same_runs(sandbox):
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
def test_recorded_runs_of_the_benchmark_end_the_same_way(sandbox):
    """Worlds are those of the tasks, checks those of the variants without world knowledge, as upstream ran them."""
    checkout = os.environ.get("LIT_RL_CODEBOTLER")
    if not checkout:
        pytest.skip("no RoboEval checkout: set LIT_RL_CODEBOTLER to its root")
    benchmark = Path(checkout) / "benchmark"
    variants = [read_task(file) for file in (benchmark / "tasks" / "open_world_knowledge").glob("*.py")]
    states = {task.name: [test.state for test in task.tests] for task in read_tasks(Path(checkout))}
    checks = {task.name: [test.check for test in task.tests] for task in variants}
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


# --- programs that write what no honest program writes -----------------------------------------------------

FORGED = {
    "bytes that are a number": 'os.write(4, b\'["call","say",["t",["b",5]],["d"]]\\n\')',
    "a fraction over zero": 'os.write(4, b\'["call","say",["t",["Fraction","0x1","0x0"]],["d"]]\\n\')',
    "a decimal that is none": 'os.write(4, b\'["call","say",["t",["Decimal","one"]],["d"]]\\n\')',
    "no message": "os.write(4, b'[]\\n')",
    "garbage": "os.write(4, bytes(range(256)) + b'\\n')",
    "an end of nothing": 'os.write(4, b\'["end",{"types":[],"line":-1}]\\n\')',
}
RIGHT = program("go_to('hall')", "say('hi')")
WRONG = program("go_to('hall')", "say('ho')")
REFUSED = program("go_to('nowhere')")


def test_programs_that_forge_messages_leave_their_neighbours_verdicts_alone(sandbox):
    """The report of a program whose message was malformed was once taken for that of the program after it."""
    forgers = [program("import os", forged, "os.read(4, 1)") for forged in FORGED.values()]
    expected = {RIGHT: "success", WRONG: "completion_error", REFUSED: "robot_execution_error"}
    sources = [source for forger in forgers for honest in expected for source in (forger, honest, honest)]
    outcomes = sandbox.judge_many([(source, worlds(SAID_HI)) for source in sources])
    for source, outcome in zip(sources, outcomes, strict=True):
        if source in expected:
            assert outcome.robot_verdict == expected[source]
        else:
            assert outcome.robot_verdict == "python_error"
            assert outcome.verdict not in (Verdict.PASSED, Verdict.INFRASTRUCTURE_FAILURE), outcome


ODD_OPTIONS = ["{}.keys()", "iter([])", "{1}", "task_program", "b'yes'", "['yes']", "{'yes': 1}", "1j", "...", "None"]


@pytest.mark.parametrize("option", ODD_OPTIONS)
def test_an_option_that_is_no_text_is_told_in_a_trace_that_can_be_sent(sandbox, option):
    source = program("go_to('hall')", f"ask('ann', 'tea?', ['yes', {option}])", "say('hi')")
    outcome = judge(sandbox, source, worlds(SAID_HI))
    assert outcome.robot_verdict == "success", outcome
    assert type(outcome.traces[0][1][2][1]) in (str, type(None))


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
