"""Tests that need more than literal calls: one process serves the program, another runs the tests."""

from __future__ import annotations

import json
import socket

from lit_rl.execution.checks import AssertTests
from lit_rl.execution.judging.jobs import Child, JobReport, ZygoteClient, read_whole
from lit_rl.execution.judging.prepared_tests import prepare_tests
from lit_rl.execution.judging.verdicts import ended_early, how_it_ended, outcome_of, verdict_of_error
from lit_rl.execution.outcome import Outcome, Verdict


def judge_graded(client: ZygoteClient, program: str, check: AssertTests) -> Outcome:
    """Two processes: the program serves its functions, a grader runs the tests over them."""
    options = {"in_place": check.in_place, "allow_objects": check.allow_objects}
    theirs, ours = socket.socketpair()
    prepared = prepare_tests(check.test, check.entry_point)
    tests = {"mode": "grade", "entry_point": check.entry_point, **prepared._asdict(), **options}
    with (
        Child(tests, channel=ours.detach()) as grader,
        Child({"mode": "serve", "source": program, **options}, channel=theirs.detach()) as served,
    ):
        client.start([grader, served], check.timeout_seconds)
        # Else neither process would notice that the other is gone.
        grader.close_channel()
        served.close_channel()
        report = client.finish()
        assert report is not None
        ended = how_it_ended(client, served, report, 1)
        return _graded_outcome(read_whole(grader.stdout), grader, served, report, ended)


def _graded_outcome(line: bytes, grader: Child, served: Child, report: JobReport, ended: Verdict | None) -> Outcome:
    try:
        kind, message, error, num_passed = json.loads(line)
    except ValueError:
        kind, message, error, num_passed = "ended", None, None, 0
        if not report.timed_out and ended is None:
            ended = Verdict.EXCEPTION
    if report.timed_out or ended in (Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_LIMIT):
        verdict = ended or Verdict.TIMED_OUT
    elif kind == "passed":
        verdict = Verdict.PASSED
    elif kind == "failed":
        verdict = Verdict.WRONG_ANSWER
        error = {"types": [str(message).partition(":")[0]], "line": None} if message else None
    else:
        verdict = verdict_of_error(error) if error else (ended or Verdict.EXCEPTION)
        error = error or ended_early(report.children[1].status)
    cases = [Verdict.PASSED] * int(num_passed) + ([] if verdict is Verdict.PASSED else [verdict])
    return outcome_of(verdict, cases, served, report, error)
