"""Tests that need more than literal calls: one process serves the program, another runs the tests."""

from __future__ import annotations

import ast
import builtins
import hashlib
import os
import socket
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lit_rl.execution.checks import AssertTests
from lit_rl.execution.grading.grader import FAILED_TEST, HELD_TEST, RAISED_TEST, STATUSES
from lit_rl.execution.grading.names import REHEARSED
from lit_rl.execution.interface import FailedCase, FaultyCheck, Outcome, Verdict
from lit_rl.execution.judging.asserts.evidence import walk_statements
from lit_rl.execution.judging.asserts.prepared_tests import PreparedTests, prepare_tests
from lit_rl.execution.judging.supervising.child_files import ChildFiles, read_whole
from lit_rl.execution.judging.supervising.jobs import JobReport, ZygoteClient
from lit_rl.execution.judging.verdicts import describe_exit, outcome_of_child, verdict_of_child, verdict_of_error
from lit_rl.execution.wire.bounded_json import NotPlain
from lit_rl.execution.wire.program_messages import parse_grader_result
from lit_rl.execution.wire.value_text import shorten_text, source_excerpt

_Result = dict[str, Any] | None
_CASES = {HELD_TEST: Verdict.PASSED, FAILED_TEST: Verdict.WRONG_ANSWER, RAISED_TEST: Verdict.EXCEPTION}
_LETTERS = b"".join(_CASES)
_GOING_ON = ("failed", "raised", "error")  # after these the grader runs the other tests
_SECRET_BYTES = 16
_MAX_REHEARSED = 1024
_MAX_PARSED_LENGTH = 200_000
_SKIPPING = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# By the tests' digest: why the tests fail without a program, or ``None`` if they do not.
_rehearsed: dict[bytes, str | None] = {}


def judge_with_grader(client: ZygoteClient, program: str, check: AssertTests) -> Outcome:
    """Judge by two processes: the program's process serves its functions, and a grader runs the tests on them."""
    prepared = prepare_tests(check.test, check.entry_point)
    require_tests_rehearsed(client, check, prepared)
    tests = _grading_job("grade", check, prepared)
    theirs, ours = socket.socketpair()
    with (
        ChildFiles(tests, channel=ours.detach()) as grader,
        ChildFiles({"mode": "serve", "source": program, "in_place": check.in_place}, channel=theirs.detach()) as served,
    ):
        client.start([grader, served], check.timeout_seconds)
        # Otherwise neither process would notice that the other is gone.
        grader.close_channel()
        served.close_channel()
        report = client.wait_for_report()
        assert report is not None
        content, status = read_whole(grader.stdout), report.children[0].status
        result = grader_result_or_none(content, status, tests["secret"])
        before, *rest = content.split(b"\n")  # a letter for each test that ended, before the result and after it
        letters = before + (rest[1] if len(rest) == 2 else b"")
        return _outcome_of_tests(client, program, check, served, report, result, letters)


def require_tests_rehearsed(client: ZygoteClient, check: AssertTests, prepared: PreparedTests) -> None:
    """Run tests once without a program, up to the first use of the program; each worker caches the result.

    What fails there fails for every program, so it is the tests' fault. A failure is remembered if it comes again in
    the same way, unless a shortage of time, memory or disk explains it.
    """
    key = _tests_digest(check.test, check.entry_point)
    if key in _rehearsed:
        fault = _rehearsed[key]
    else:
        fault, lasts = _fault_in_rehearsal(client, check, prepared)
        if fault is None or (lasts and _fault_in_rehearsal(client, check, prepared) == (fault, lasts)):
            _rehearsed[key] = fault
        if len(_rehearsed) > _MAX_REHEARSED:
            del _rehearsed[next(iter(_rehearsed))]
    if fault is not None:
        raise FaultyCheck(fault)


def _fault_in_rehearsal(client: ZygoteClient, check: AssertTests, prepared: PreparedTests) -> tuple[str | None, bool]:
    """Return the fault of tests that fail without a program, and whether the fault will last."""
    job = _grading_job("rehearse", check, prepared)
    with ChildFiles(job) as grader:
        report = client.run([grader], check.timeout_seconds)
        status = report.children[0].status
        result = grader_result_or_none(read_whole(grader.stdout), status, job["secret"])
        limit = verdict_of_child(client, grader, report)
    if result is not None:
        return str(result["message"]), not result["passes"]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == REHEARSED and limit is Verdict.EXCEPTION:
        return None, True
    if limit in (Verdict.TIMED_OUT, Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_LIMIT):
        return f"the tests end as {limit} before they use the program", False
    how = f"signal {status & 0x7F}" if status & 0x7F else f"status {status >> 8}"
    return f"the tests end with {how} before they use the program", True


def _grading_job(mode: str, check: AssertTests, prepared: PreparedTests) -> dict[str, Any]:
    """Return the grader's job; its random seed depends on the tests alone, and the program's process never sees it."""
    return {
        "mode": mode,
        "entry_point": check.entry_point,
        "secret": os.urandom(_SECRET_BYTES).hex(),
        "seed": int.from_bytes(_tests_digest(check.test, check.entry_point)),
        "in_place": check.in_place,
        "allow_objects": check.allow_objects,
        **prepared._asdict(),
    }


@lru_cache(maxsize=512)
def _tests_digest(test: str, entry_point: str | None) -> bytes:
    return hashlib.sha256(f"{entry_point}\0{test}".encode("utf-8", "surrogatepass")).digest()


def grader_result_or_none(content: bytes, status: int, secret: str) -> _Result:
    """Return the grader's result: one whole line with the job's secret, from a process that ended as that line says.

    After a test that failed, a limit may have ended the process instead.
    """
    before, *rest = content.split(b"\n")
    if len(rest) != 2 or before.strip(_LETTERS) or rest[1].strip(_LETTERS):
        return None
    try:
        result = parse_grader_result(rest[0])
    except NotPlain:
        return None
    expected = STATUSES.get(result["kind"])
    exited = os.WIFEXITED(status) and os.WEXITSTATUS(status) == expected
    killed = os.WIFSIGNALED(status) and result["kind"] in _GOING_ON
    return result if (exited or killed) and result["secret"] == secret else None


def _outcome_of_tests(
    client: ZygoteClient,
    program: str,
    check: AssertTests,
    served: ChildFiles,
    report: JobReport,
    result: _Result,
    letters: bytes,
) -> Outcome:
    """Return the outcome that a limit decides if one was reached, and otherwise the grader's report."""
    ended, status = verdict_of_child(client, served, report, 1), report.children[1].status
    error, added = None, ""
    if (report.timed_out and result is None) or ended in (Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_LIMIT):
        verdict = ended or Verdict.TIMED_OUT
    elif result is None:  # the tests' process ended in the middle, whatever the tests did with the program's values
        verdict, error = Verdict.EXCEPTION, describe_exit(report.children[0].status)
    elif result["kind"] == "passed":
        verdict = Verdict.PASSED
    elif result["kind"] in ("failed", "error"):  # raised in the tests
        name, _, text = str(result["message"]).partition(": ")
        error = {"types": [name], "message": text, "line": None}
        short = result["kind"] == "error" and name == "MemoryError"
        verdict = Verdict.OUT_OF_MEMORY if short else Verdict.WRONG_ANSWER
    elif result["error"] is None:
        verdict, error = ended or Verdict.EXCEPTION, describe_exit(status)
    else:
        error, added = result["error"], str(result["message"])
        verdict = verdict_of_error(client, program, error, status)
    outcome = outcome_of_child(verdict, _verdicts_of_letters(letters, verdict), served, report, error)
    if verdict is not Verdict.PASSED and result is not None and result["line"] is not None:
        source, asks_once = _statement_at_line(check.test, check.entry_point, result["line"])
        actual = shorten_text(result["actual"]) if asks_once else ""
        outcome = replace(outcome, failed_case=FailedCase(result["number"], source, actual=actual, kind="assert"))
    return replace(outcome, stderr=outcome.stderr + added)


def _verdicts_of_letters(letters: bytes, verdict: Verdict) -> list[Verdict]:
    """Return a verdict for each test that ended; the first test that did not pass has the program's verdict."""
    cases = [_CASES[bytes((letter,))] for letter in letters]
    if verdict is not Verdict.PASSED:
        first = next((index for index, case in enumerate(cases) if case is not Verdict.PASSED), len(cases))
        cases[first : first + 1] = [verdict]
    return cases


@lru_cache(maxsize=512)
def _statement_at_line(test: str, entry_point: str | None, line: int) -> tuple[str, bool]:
    """Return the source of the innermost statement at a line, and whether the statement calls the program just once."""
    if len(test) > _MAX_PARSED_LENGTH:
        return source_excerpt(test, line, line), False
    around = [
        node for node in walk_statements(ast.parse(test)) if node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    found = min(around, key=lambda node: (node.end_lineno or node.lineno) - node.lineno, default=None)
    if found is None or hasattr(found, "body"):  # of a block, show only the line of its condition
        return source_excerpt(test, line, line), False
    source = source_excerpt(test, found.lineno, found.end_lineno or found.lineno)
    return source, _asks_program_once(found, {*prepare_tests(test, entry_point).names, "candidate"})


def _asks_program_once(statement: ast.stmt, names: set[str]) -> bool:
    """Return whether the statement compares the program's last answer and asks for no other."""
    if isinstance(statement, ast.Assert):
        parts = [statement.test]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        parts = statement.value.args
    else:
        return False
    nodes = [node for part in parts for node in ast.walk(part)]
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    calls = [name for name in calls if not (isinstance(name, ast.Name) and hasattr(builtins, name.id))]
    return (
        len(calls) == 1
        and isinstance(calls[0], ast.Name)
        and calls[0].id in names
        and not any(isinstance(node, _SKIPPING) for node in nodes)
    )
