"""The grader's process: runs test code; every use of the program is a request to the program's process.

The program sends plain data only, so nothing of it ever runs here: no ``__eq__``, no patched builtin, no
frame to search. One line with a secret of this job reaches the supervisor after the last test ran, and the exit
status says the same; if the program's process ended before, in any way, the tests have not passed.
"""

from __future__ import annotations

import errno
import json
import marshal
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from lit_rl.execution.grading.memory import has_grown, peak_bytes
from lit_rl.execution.grading.names import FaultOfTests, namespace_of
from lit_rl.execution.grading.test_functions import run_test
from lit_rl.execution.grading.tests_side import ProgramEnded, TestsSide, text_of
from lit_rl.execution.wire.channel import Channel
from lit_rl.execution.wire.program_messages import bounded_description
from lit_rl.execution.wire.value_text import value_text
from lit_rl.execution.zygote.randomness import draw_anew

PASSED = "__lit_rl_passed__"  # the tests call it after every assert that held
RESULT = 1  # stdout of the grader: nothing else writes there, tests print to stderr
STATUSES = {"passed": 41, "failed": 42, "raised": 43, "ended": 44, "fault": 45, "error": 46}
"""Exit status of the grader for each kind of result."""


def grade(job: dict[str, Any], channel: Channel) -> int:
    """Run the tests of ``job``; the result goes to the supervisor as one line of JSON.

    Returns:
        The exit status that belongs to the result.
    """
    result = os.dup(RESULT)
    os.dup2(2, RESULT)
    program = TestsSide(channel, job["in_place"], job["allow_objects"])
    counts: dict[int, int] = {}
    draw_anew(job["seed"])  # the program's own stream would tell it what the tests draw
    found = result_of_tests(job, program, counts)
    if program.ended:  # whatever the tests made of it
        found = {"kind": "ended", "error": program.last_error, "line": found.get("line")}
    elif program.fault is not None:
        found = {"kind": "fault", "message": program.fault}
    if "error" in found:
        found["error"] = bounded_description(found["error"])
    _write(result, json.dumps(found | {"num_passed": sum(counts.values()), "secret": job["secret"]}).encode() + b"\n")
    return STATUSES[found["kind"]]


def _write(descriptor: int, line: bytes) -> None:
    view = memoryview(line)
    while view:
        view = view[os.write(descriptor, view) :]


def result_of_tests(job: dict[str, Any], program: TestsSide, counts: dict[int, int]) -> dict[str, Any]:
    """Run the tests and describe the result. Fills ``counts`` with how often each assert held, by its number."""

    def passed(number: int) -> None:
        counts[number] = counts.get(number, 0) + 1

    wanted = frozenset((*job["names"], *job["modules"]))
    peak = peak_bytes()
    kinds: dict[str, Any] = {}
    line = None  # of the definition that is run
    try:
        kinds = program.hello(wanted)
        namespace = namespace_of(job, kinds, program)
        namespace[PASSED] = passed
        exec(marshal.loads(job["code"]), namespace)
        check = namespace.get("check")
        if job["entry_point"] is not None and callable(check) and not job["calls_check"]:
            line = job["check_line"]
            check(namespace["candidate"])
        for kind, name, defined_at in job["runs"]:
            line = defined_at
            run_test(kind, name, namespace)
    except ProgramEnded as error:
        return {"kind": "ended", "error": program.last_error, "line": _line(error)}
    except FaultOfTests as fault:
        return {"kind": "fault", "message": str(fault)}
    except BaseException as error:
        found = _of_error(error, job, program, kinds, line)
        if isinstance(error, MemoryError):  # here, because the traceback keeps what the tests held
            found["grown"] = has_grown(peak)
        return found
    return _of_counts(job, program, counts)


def _of_counts(job: dict[str, Any], program: TestsSide, counts: dict[int, int]) -> dict[str, Any]:
    """Result of tests that ran to the end: a pass if every required assert ran."""
    if not set(job["required"]) <= counts.keys():
        return {"kind": "failed", "message": "AssertionError: an assert of the tests did not run"}
    if counts:
        return {"kind": "passed"}
    if program.is_used:
        return {"kind": "failed", "message": "AssertionError: no assert of the tests ran"}
    return {"kind": "fault", "message": "the tests neither used the program nor asserted anything"}


def _of_error(
    error: BaseException, job: dict[str, Any], program: TestsSide, kinds: dict[str, Any], line: int | None
) -> dict[str, Any]:
    """Whose error it is: the program's, a test's that failed, or perhaps of the tests themselves.

    Args:
        error: what ended the tests.
        job: the grader's.
        program: the connection.
        kinds: what the program said about the names that the tests use.
        line: of the definition that was run; errors outside the tests' lines are reported there.
    """
    for cause in _behind(error):
        if any(cause is raised for raised in program.errors):
            return {"kind": "raised", "error": program.description_of(cause), "line": _line(error)}
    message = f"{type(error).__name__}: {text_of(error)}"[:500]
    if isinstance(error, AssertionError):
        actual = value_text(program.last_result)
        return {"kind": "failed", "message": message, "line": _line(error), "actual": actual}
    if isinstance(error, NameError) and error.name in job["names"] and error.name not in kinds:
        # Whether the tests forgot to define it cannot be known: a name that is missing is the program's to define.
        message = f"NameError: the tests use {error.name}, which neither they nor the program define"
        missing = {"types": ["NameError"], "message": "", "line": None}
        return {"kind": "raised", "message": message, "error": missing, "line": _line(error)}
    asked = program.is_used or _is_of_the_folder(error)
    line = _line(error) or line
    return {"kind": "error", "message": message, "line": line, "asked": asked, "using": program.is_using}


def _is_of_the_folder(error: BaseException) -> bool:
    """Whether the error may come from what the program left in the working folder before the tests began."""
    if not isinstance(error, OSError) or error.errno == errno.ENOENT:
        return False
    if error.filename is None:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    path = os.path.abspath(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else ""
    return path.startswith(os.getcwd())


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, those that it was raised for, and those that a group holds."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if error is None or any(error is other for other in seen):
            continue
        seen.append(error)
        yield error
        waiting += [error.__context__, error.__cause__]
        waiting += error.exceptions[::-1] if isinstance(error, BaseExceptionGroup) else ()


def _line(error: BaseException) -> int | None:
    """The innermost line of the tests that an exception passed through."""
    line, trace = None, error.__traceback__
    while isinstance(trace, TracebackType):
        if trace.tb_frame.f_code.co_filename == "<test>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
