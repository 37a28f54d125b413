"""Judging service-robot programs. The world and its trace live here, in the supervisor, not with the program.

The tests run in order; the verdicts of a program are:

1. the world refused a call, and an exception whose last line contains ``Robot`` ended the program:
   ``robot_execution_error``, and no further test;
2. any other exception, a time-out where none is expected, or a check that cannot be evaluated on the trace:
   ``python_error``, and no further test;
3. a check that is false is remembered, and the next test is run;
4. in the end ``success`` if every check was true, else ``completion_error``.
"""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lit_rl.data.robots.robosim import InventedWorld
from lit_rl.data.robots.robot_checks import InventedWorlds, RobotTest, RobotWorlds
from lit_rl.data.robots.robot_program import RobotProgram, extract_runnable_program, randomise_membership_tests
from lit_rl.data.robots.service_robot import FUNCTIONS, Event, RobotError, ServiceRobot, refuse_unusable_arguments
from lit_rl.data.robots.trace_checks import check_holds, compile_formula
from lit_rl.execution.interface import FaultyCheck, Outcome, Verdict
from lit_rl.execution.judging.hosting import HostedResult, host_error_message, run_hosted
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.judging.supervising.own_limits import SupervisorTooSlow, limit_cpu_seconds
from lit_rl.execution.wire.printable import make_printable

RobotVerdict = Literal["success", "completion_error", "robot_execution_error", "python_error"]

ENTRY_POINT = "task_program"

MAX_CALLS = 10_000
"""A program that calls the robot more often than this is taken to wait forever."""

_CHECK_SECONDS = 5.0  # for evaluating a check on a trace, whatever texts the program put there
_PREAMBLE = "import sys, time\n"
_SCALARS = frozenset((bool, float, int, str, type(None)))
_BREAK_OFF = ("robot_execution_error", "python_error")
_NO_PROGRAM = Outcome(Verdict.NO_PROGRAM, robot_verdict="python_error")


class RobotHost:
    """Host that answers a program's calls with the eight functions of a world, and gives nothing else of the world.

    ``refused`` is the first error of a call, whether or not the program caught it.
    """

    functions: tuple[str, ...] = FUNCTIONS

    def __init__(self, world: ServiceRobot | InventedWorld) -> None:
        self._calls = {name: getattr(world, name) for name in FUNCTIONS}
        self.refused: RobotError | None = None
        self._signatures = {name: inspect.signature(call) for name, call in self._calls.items()}

    def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Answer one call. A wrong number of arguments is an error of Python, not of the robot."""
        bound = self._signatures[name].bind(*args, **kwargs)
        try:
            refuse_unusable_arguments(name, bound.arguments)
            return self._calls[name](*bound.args, **bound.kwargs)
        except RobotError as error:
            self.refused = self.refused or error
            raise


@dataclass(frozen=True)
class _TestResult:
    verdict: Verdict
    robot_verdict: RobotVerdict
    run: HostedResult
    trace: list[Event]


def judge_robot_worlds(client: ZygoteClient, program: str, check: RobotWorlds) -> Outcome:
    """Run the program in each world and check what the robot did there.

    The outcome has a ``robot_verdict`` and one trace per test that was started.
    """
    if not program.strip():
        return _NO_PROGRAM
    # Worlds are built and formulas read before the program runs, so that no program can affect this.
    for test in check.tests:
        try:
            ServiceRobot(test.state)
            compile_formula(test.check)
        except (LookupError, TypeError, ValueError, re.error) as error:
            raise FaultyCheck(f"the world, or {test.check!r:.300}: {type(error).__name__}: {error}") from error
    prepared = extract_runnable_program(program)
    tested: list[_TestResult] = []
    for test in check.tests:
        tested.append(_run_test(client, prepared.source, test, check.timeout_seconds))
        if tested[-1].robot_verdict in _BREAK_OFF:
            break
    return _combine_outcomes(tested, prepared)


def judge_invented_worlds(client: ZygoteClient, program: str, check: InventedWorlds) -> Outcome:
    """Run the program in worlds invented during the run; the first contradiction fails the program, even if caught.

    One time-out is forgiven, since a loop may wait for something that chance withholds; a second one fails the program.
    """
    if not program.strip():
        return _NO_PROGRAM
    prepared = extract_runnable_program(program)
    tested: list[_TestResult] = []
    num_timed_out = 0
    for index in range(check.num_worlds):
        rng = random.Random(f"{check.seed}/{index}")
        source = randomise_membership_tests(prepared.source, rng)
        world = InventedWorld(rng.randrange(2**32))
        run, refused = _run_in_world(client, source, world, check.timeout_seconds)
        num_timed_out += run.verdict is Verdict.TIMED_OUT
        if refused is not None:  # the refusal counts as the end, whatever the program did afterwards
            message = host_error_message(refused)
            line = run.outcome.line if run.message == message else None
            outcome = replace(run.outcome, exception_type=type(refused).__name__, line=line)
            run = run._replace(verdict=Verdict.EXCEPTION, outcome=outcome, message=message)
        elif run.verdict is Verdict.PASSED or (run.verdict is Verdict.TIMED_OUT and num_timed_out < 2):
            tested.append(_TestResult(Verdict.PASSED, "success", run, []))
            continue
        tested.append(_TestResult(run.verdict, _robot_verdict_of_error(run, refused), run, world.trace))
        # The lines of a rewritten program are not those of the given program.
        return _combine_outcomes(tested, prepared if source == prepared.source else None)
    return _combine_outcomes(tested, prepared)


def _run_in_world(
    client: ZygoteClient, source: str, world: ServiceRobot | InventedWorld, seconds: float
) -> tuple[HostedResult, RobotError | None]:
    """Return a run, and the error of the first call that the world refused."""
    host = RobotHost(world)
    program = _PREAMBLE + source
    run = run_hosted(client, program, host, entry_point=ENTRY_POINT, timeout_seconds=seconds, max_calls=MAX_CALLS)
    return run, host.refused


def _run_test(client: ZygoteClient, source: str, test: RobotTest, seconds: float) -> _TestResult:
    world = ServiceRobot(test.state)
    run, refused = _run_in_world(client, source, world, seconds)
    expected_timeout = run.verdict is Verdict.TIMED_OUT and test.should_timeout
    if not (run.verdict is Verdict.PASSED or expected_timeout):
        return _TestResult(run.verdict, _robot_verdict_of_error(run, refused), run, world.trace)
    try:
        with limit_cpu_seconds(_CHECK_SECONDS):
            true = check_holds(test.check, world.trace)
    except SupervisorTooSlow:
        return _TestResult(Verdict.TIMED_OUT, "python_error", run, world.trace)
    except TypeError:  # the program offered options that are not text, and the check reads options
        return _TestResult(Verdict.WRONG_ANSWER, "python_error", run, world.trace)
    if true:
        return _TestResult(Verdict.PASSED, "success", run, world.trace)
    return _TestResult(Verdict.WRONG_ANSWER, "completion_error", run, world.trace)


def _robot_verdict_of_error(run: HostedResult, refused: RobotError | None) -> RobotVerdict:
    """Return the kind of error, by the last line that the interpreter would print: ``<type>: <message>``.

    A program can write that line itself, so the line counts only if the world did refuse a call.
    """
    if run.verdict is not Verdict.EXCEPTION or refused is None:
        return "python_error"
    lines = f"{run.outcome.exception_type}: {run.message}".strip().splitlines()
    return "robot_execution_error" if "Robot" in lines[-1] else "python_error"


def _combine_outcomes(tested: Sequence[_TestResult], program: RobotProgram | None) -> Outcome:
    """Return all tests in one outcome: an error decides, or otherwise the first test that did not pass."""
    if not tested:
        return Outcome(Verdict.PASSED, robot_verdict="success")
    failed = [one for one in tested if one.robot_verdict != "success"]
    decisive = next((one for one in failed if one.robot_verdict in _BREAK_OFF), (*failed, *tested)[0])
    shown = decisive.run.outcome
    if decisive.robot_verdict in _BREAK_OFF:
        # As the interpreter would have printed it; the traceback itself stays in the program's process.
        message = f"{shown.stderr}{shown.exception_type or ''}: {decisive.run.message}".strip(": ")
        # From a line of the source that was run to the line of the text that was judged.
        line = 0 if shown.line is None or program is None else shown.line + program.line_offset
        line -= _PREAMBLE.count("\n")
        shown = replace(shown, line=line if line > 0 else None, module_line=None, stderr=message)
    else:
        shown = replace(shown, line=None, exception_type=None)
    traces: tuple[Any, ...] = tuple(list(map(_plain_event, one.trace)) for one in tested)
    return replace(
        shown,
        verdict=decisive.verdict,
        cases=tuple(one.verdict for one in tested),
        cpu_seconds=sum(one.run.outcome.cpu_seconds for one in tested),
        wall_seconds=sum(one.run.outcome.wall_seconds for one in tested),
        robot_verdict=decisive.robot_verdict,
        traces=traces,
    )


def _plain_event(event: Event) -> Event:
    """Return an event for the outcome; options that are not plain scalars (a program may offer any) become text."""
    kind, value1, value2 = event
    if value2 is not None:
        value2 = [option if type(option) in _SCALARS else make_printable(str(option)) for option in value2]
    return [kind, value1, value2]
