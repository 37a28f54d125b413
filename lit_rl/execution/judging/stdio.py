"""Whole programs: what they print is compared by the supervisor, all of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from lit_rl.execution.checks import StdioTests
from lit_rl.execution.judging.child_files import Child, memfd, read_whole
from lit_rl.execution.judging.comparing import Expected, same_output
from lit_rl.execution.judging.failed_cases import failed_output
from lit_rl.execution.judging.jobs import ZygoteClient
from lit_rl.execution.judging.verdicts import (
    description_of,
    ended_early,
    how_it_ended,
    outcome_of,
    verdict_of_error,
)
from lit_rl.execution.outcome import Outcome, Verdict


def judge_stdio(client: ZygoteClient, program: str, check: StdioTests) -> Outcome:
    """Run each case in a fresh process; the first case that does not pass decides."""
    if not program.strip():
        return Outcome(Verdict.NO_PROGRAM)
    binary = None
    if check.language != "python":
        if client.compile is None:
            raise RuntimeError("this worker has no compiler")
        compiled = client.compile(program, check.language)
        if compiled.verdict is not None:
            return Outcome(compiled.verdict, (), stderr=compiled.diagnostics, line=compiled.line)
        binary = compiled.binary
    return over_cases(check, partial(_case, client, program, binary, check))


def over_cases(check: StdioTests, run_case: Callable[[str, Expected], Outcome]) -> Outcome:
    """One outcome for all cases; ``run_case`` judges one, given its input and expected output."""
    cases: list[Verdict] = []
    first_bad: Outcome | None = None
    last = Outcome(Verdict.PASSED)
    cpu = wall = 0.0
    for stdin, expected in check.cases:
        last = run_case(stdin, expected)
        cases.append(last.verdict)
        cpu, wall = cpu + last.cpu_seconds, wall + last.wall_seconds
        if last.verdict is not Verdict.PASSED and first_bad is None:
            case = last.failed_case
            first_bad = last if case is None else replace(last, failed_case=replace(case, number=len(cases)))
        if last.verdict in (Verdict.SYNTAX_ERROR, Verdict.TIMED_OUT):
            break  # holds for all cases, or each further one would cost the whole limit again
    return replace(first_bad or last, cases=tuple(cases), cpu_seconds=cpu, wall_seconds=wall)


def _case(
    client: ZygoteClient, program: str, binary: bytes | None, check: StdioTests, stdin: str, expected: Expected
) -> Outcome:
    job: dict[str, Any] = {"mode": "stdio", "source": program}
    channel = None
    if binary is not None:
        job = {"mode": "compiled", "stack_bytes": client.settings.memory_bytes}
        channel = memfd(binary)
        # A process that executes an unreadable file stays closed to others of this user, as ``confine`` wants it.
        os.fchmod(channel, 0o111)
    with Child(job, stdin.encode("utf-8", "surrogateescape"), channel) as child:
        report = client.run([child], check.timeout_seconds, compiled=binary is not None)
        ended = how_it_ended(client, child, report)
        error = None
        if ended is Verdict.EXCEPTION:
            status = report.children[0].status
            told = None if binary is not None else description_of(read_whole(child.channel)[:65536])
            error = told or ended_early(status)
            ended = verdict_of_error(client, program, error, status)
        if ended is None:
            same = same_output(read_whole(child.stdout), expected, check)
            ended = Verdict.PASSED if same else Verdict.WRONG_ANSWER
        outcome = outcome_of(ended, [], child, report, error)
        if ended in (Verdict.PASSED, Verdict.SYNTAX_ERROR):
            return outcome
        return replace(outcome, failed_case=failed_output(stdin, expected, child.stdout))
