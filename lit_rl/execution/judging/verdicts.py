"""Verdict and outcome of a process, derived from how the process ended."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.execution.judging.supervising.child_files import ChildFiles, read_tail
from lit_rl.execution.judging.supervising.jobs import JobReport, ZygoteClient
from lit_rl.execution.program_side.child import NOT_PYTHON, OUT_OF_MEMORY
from lit_rl.execution.wire.bounded_json import NOT_CARRIED, NotPlain
from lit_rl.execution.wire.printable import printable_name
from lit_rl.execution.wire.program_messages import Description, parse_exception_description
from lit_rl.execution.zygote.zygote import DISK_FULL, MEMORY_IS_FULL

_PARSE_SECONDS = 10.0


def verdict_of_child(client: ZygoteClient, child: ChildFiles, report: JobReport, index: int = 0) -> Verdict | None:
    """Return the verdict that follows from the end of a child alone, or ``None`` if the child ended normally."""
    spent = report.children[index]
    limit = client.settings.output_bytes
    if spent.peak_bytes > client.settings.memory_bytes or report.cause == MEMORY_IS_FULL:
        return Verdict.OUT_OF_MEMORY
    if any(os.fstat(descriptor).st_size >= limit for descriptor in (child.stdout, child.stderr)):
        return Verdict.OUTPUT_LIMIT
    if report.cause == DISK_FULL:
        return Verdict.OUTPUT_LIMIT
    if report.timed_out:
        return Verdict.TIMED_OUT
    return Verdict.EXCEPTION if spent.status and not (index and spent.status == signal.SIGKILL) else None


def describe_exit(status: int) -> Description:
    """Describe the end of a process that left no message: its signal, or a plain exit."""
    number = status & 0x7F
    name = signal.Signals(number).name if number in signal.Signals._value2member_map_ else "SystemExit"
    return {"stage": "run", "types": [name], "message": "", "line": None}


def parse_exception_line(line: bytes) -> Description | None:
    """Return the description of an exception, if the line is one. The program wrote it: it is shown, never trusted."""
    try:
        return parse_exception_description(line) if line.startswith(b"{") else None
    except NotPlain:
        return None


def verdict_of_error(client: ZygoteClient, program: str, error: Description, status: int) -> Verdict:
    """Return the verdict on a program that claims to have ended with an exception.

    The description is the program's own word, so it decides nothing without evidence from outside: a source is no
    Python if a process that only compiles it fails, and memory was short if the exit status says so.
    """
    if error.get("stage") == "compile":
        with ChildFiles({"mode": "parse", "source": program}) as child:  # a process that only compiles it
            parsed = client.run([child], _PARSE_SECONDS).children[0].status
        is_python = not os.WIFEXITED(parsed) or os.WEXITSTATUS(parsed) != NOT_PYTHON
        return Verdict.EXCEPTION if is_python else Verdict.SYNTAX_ERROR
    if NOT_CARRIED in error["types"]:
        return Verdict.WRONG_ANSWER
    exited = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    return Verdict.OUT_OF_MEMORY if "MemoryError" in error["types"] and exited == OUT_OF_MEMORY else Verdict.EXCEPTION


def outcome_of_child(
    verdict: Verdict, cases: list[Verdict], child: ChildFiles, report: JobReport, error: Description | None
) -> Outcome:
    """Return an outcome with the child's output and resource use."""
    cpu_seconds = sum(spent.cpu_seconds for spent in report.children)
    stdout, stderr = read_tail(child.stdout), read_tail(child.stderr)
    outcome = Outcome(verdict, tuple(cases), {}, stdout, stderr, None, None, cpu_seconds, report.wall_seconds)
    return with_error_details(outcome, error)


def with_error_details(outcome: Outcome, error: Description | None) -> Outcome:
    """Return an outcome with the type, text and line of the exception that explains it."""
    if not error or outcome.passed:
        return outcome
    name = printable_name(error["types"][0]) if error["types"] else None
    lines = {"line": error["line"], "module_line": error.get("module_line")}
    return replace(outcome, exception_type=name, exception_message=error.get("message", ""), **lines)
