"""Tests that need more than literal calls: one process serves the program, another runs the tests."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
from dataclasses import replace
from typing import Any

from lit_rl.execution.checks import AssertTests
from lit_rl.execution.grading.grader import STATUSES
from lit_rl.execution.judging.child_files import Child, read_whole
from lit_rl.execution.judging.failed_statements import failed_statement
from lit_rl.execution.judging.jobs import JobReport, ZygoteClient
from lit_rl.execution.judging.prepared_tests import FaultyTests, PreparedTests, lines_of_the_tests, prepare_tests
from lit_rl.execution.judging.verdicts import ended_early, how_it_ended, outcome_of, verdict_of_error
from lit_rl.execution.outcome import Outcome, Verdict
from lit_rl.execution.wire.bounded_json import NotPlain
from lit_rl.execution.wire.program_messages import Description, read_result

_SECRET_BYTES = 16


def judge_graded(client: ZygoteClient, program: str, check: AssertTests) -> Outcome:
    """Two processes: the program serves its functions, a grader runs the tests over them."""
    try:
        prepared = prepare_tests(check.test, check.entry_point)
    except FaultyTests as fault:
        return _failure(str(fault))
    secret = os.urandom(_SECRET_BYTES).hex()
    outcome, broken = _run(client, program, check, prepared, secret)
    if broken is None:
        return outcome
    # Program or tests may be at fault, so the tests run once more, up to their first use of an empty program.
    alone, also_broken = _run(client, "", check, prepared, secret)
    theirs = also_broken is not None or alone.verdict is Verdict.INFRASTRUCTURE_FAILURE
    return _failure(f"{broken}, and does so with an empty program") if theirs else outcome


def _run(
    client: ZygoteClient, program: str, check: AssertTests, prepared: PreparedTests, secret: str
) -> tuple[Outcome, str | None]:
    """The outcome of a program, and how the grader ended if it did so without a result."""
    options = {"in_place": check.in_place, "allow_objects": check.allow_objects}
    # The seed is the same for the same test, and derived from what the program's process never sees.
    digest = hashlib.sha256(f"{check.entry_point}\0{check.test}".encode("utf-8", "surrogatepass")).digest()
    tests = {
        "mode": "grade",
        "entry_point": check.entry_point,
        "secret": secret,
        "seed": int.from_bytes(digest),
        **prepared._asdict(),
        **options,
    }
    theirs, ours = socket.socketpair()
    with (
        Child(tests, channel=ours.detach()) as grader,
        Child({"mode": "serve", "source": program, **options}, channel=theirs.detach()) as served,
    ):
        client.start([grader, served], check.timeout_seconds)
        # Otherwise neither process would notice that the other is gone.
        grader.close_channel()
        served.close_channel()
        report = client.finish()
        assert report is not None
        ended = how_it_ended(client, served, report, 1)
        result = result_of(read_whole(grader.stdout), report.children[0].status, secret)
        grading = _Grading(client, check, served, report, ended)
        return grading.outcome(result), grading.broken


def result_of(content: bytes, status: int, secret: str) -> dict[str, Any] | None:
    """The grader's result: one whole line with the job's secret, from a process that ended as that line says.

    Args:
        content: what the grader wrote.
        status: exit status of the grader's process, as ``waitpid`` gives it.
        secret: the job's; the program never sees it.
    """
    if content.count(b"\n") != 1 or not content.endswith(b"\n"):
        return None
    try:
        result = read_result(content)
    except NotPlain:
        return None
    exited = os.WIFEXITED(status) and os.WEXITSTATUS(status) == STATUSES.get(result["kind"])
    return result if exited and result["secret"] == secret else None


class _Grading:
    """Turns the end of both processes into an outcome."""

    def __init__(
        self, client: ZygoteClient, check: AssertTests, served: Child, report: JobReport, ended: Verdict | None
    ) -> None:
        self._client = client
        self._check = check
        self._served = served
        self._report = report
        self._ended = ended
        self.broken: str | None = None

    def outcome(self, result: dict[str, Any] | None) -> Outcome:
        """The outcome of a limit that was reached, else of what the grader reported."""
        if self._report.timed_out or self._ended in (Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_LIMIT):
            return self._made(self._ended or Verdict.TIMED_OUT, None, result)
        if result is None:
            return self._without_result()
        kind, error = result["kind"], result.get("error")
        if kind == "passed":
            return self._made(Verdict.PASSED, None, result) if result["num_passed"] > 0 else _failure("nothing ran")
        if kind == "fault":
            return _failure(str(result["message"]))
        if kind == "error":
            return self._of_error(result)
        if kind == "failed":
            return self._made(Verdict.WRONG_ANSWER, _error_of(result), result)
        if error is not None:
            outcome = self._made(verdict_of_error(error), error, result)
            return replace(outcome, stderr=outcome.stderr + str(result["message"]))
        verdict = self._ended or Verdict.EXCEPTION
        return self._made(verdict, ended_early(self._report.children[1].status), result)

    def _of_error(self, result: dict[str, Any]) -> Outcome:
        """An exception in test code that the program did not raise: of a wrong value, or of the tests."""
        error, line = _error_of(result), result["line"]
        own = line in lines_of_the_tests(self._check.test, self._check.entry_point)
        if error["types"] == ["MemoryError"]:
            # ``range(10**12)`` takes few bytes to send, but ``list(f(1))`` of it takes all there are. Without a line,
            # it was the program's list of its names that took them.
            if (result["grown"] and (result["asked"] or line is None)) or (
                result["asked"] and (result["using"] or not own)
            ):
                return self._made(Verdict.OUT_OF_MEMORY, error, result)
            return _failure(f"the tests ran out of memory in line {line}")
        if own or line is None or not result["asked"]:
            where = f" in line {line} of the tests" if line else " in the tests"
            return _failure(f"{result['message']}{where}")
        return self._made(Verdict.WRONG_ANSWER, error, result)

    def _without_result(self) -> Outcome:
        """The grader ended without a result, for example killed because its group ran out of memory."""
        status = self._report.children[0].status
        if status & 0x7F == signal.SIGXCPU:
            return self._made(Verdict.TIMED_OUT, None, None)
        how = f"signal {status & 0x7F}" if status & 0x7F else f"status {status >> 8}"
        self.broken = f"the tests' process ends with {how}"
        verdict = Verdict.OUT_OF_MEMORY if status & 0x7F == signal.SIGKILL else Verdict.EXCEPTION
        return self._made(verdict, None, None)

    def _made(self, verdict: Verdict, error: dict[str, Any] | None, result: dict[str, Any] | None) -> Outcome:
        num_passed = int(result["num_passed"]) if result else 0
        cases = [Verdict.PASSED] * num_passed + ([] if verdict is Verdict.PASSED else [verdict])
        outcome = outcome_of(verdict, cases, self._served, self._report, error)
        if verdict is Verdict.PASSED or result is None or result["line"] is None:
            return outcome
        failed = failed_statement(self._check, num_passed + 1, result["line"], result["actual"])
        return replace(outcome, failed_case=failed)


def _error_of(result: dict[str, Any]) -> Description:
    """The exception of the tests that a result names."""
    name, _, text = str(result["message"]).partition(": ")
    return {"types": [name], "message": text, "line": None}


def _failure(message: str) -> Outcome:
    return Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr=message)
