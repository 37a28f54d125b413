"""Service-robot programs that try to earn a verdict otherwise, or write what no honest program writes."""

from __future__ import annotations

import contextlib
import socket

from support.named_jobs import judge_named
from support.robot_worlds import SAID_HI, STATE, judge, program, worlds

from lit_rl.data.robots import robot_judge
from lit_rl.data.robots.robot_checks import InventedWorlds, RobotTest, RobotWorlds
from lit_rl.execution import Verdict
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.spawning import ZygoteSettings

# --- programs that try to earn a verdict otherwise ---------------------------------------------------------


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


# --- programs that write what no honest program writes -----------------------------------------------------

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


# --- programs that take the judge's time -------------------------------------------------------------------

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
