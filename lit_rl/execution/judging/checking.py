"""Checkers: programs that belong to the tests and judge what another program printed, if many outputs are right.

A checker is the third blind process: it runs confined as programs are, in a zygote of its own, and gets the program's
output as a file after the program has ended. Before a program runs, the checker must accept each expected output; a
failure there is the tests' fault. Whatever a checker later does with a program's output is a failed case at worst.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from lit_rl.execution.checks import Checker, StdioTests
from lit_rl.execution.interface import FaultyCheck, Verdict
from lit_rl.execution.judging.compiling import Compiler
from lit_rl.execution.judging.runtimes import make_run_job
from lit_rl.execution.judging.supervising.child_files import ChildFiles, make_executable_memfd, read_head, read_whole
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.judging.verdicts import describe_exit, parse_exception_line, verdict_of_child
from lit_rl.execution.languages import LANGUAGES
from lit_rl.execution.spawning import ZygoteSettings
from lit_rl.execution.wire.program_messages import Description

_RIGHT, _WRONG, _FAILED, _POINTS = 0, (1, 2, 4, 8), 3, 7  # 4, 8: testlib's extra output, end of file
_POINTS_LINE = re.compile(r"points (\d{1,18}(?:\.\d{1,18})?)(?!\S)")
_MAX_FILES_BYTES = 64 << 20  # longest file that a checker reads: a test's input may be longer than any output
_MAX_REHEARSED = 4096


class Ruling(NamedTuple):
    """Ruling of a checker or a comparison on one output: points from 0 to 1, a comment, and how the checker failed."""

    points: float
    comment: str = ""
    fault: str = ""


class CheckerRunner:
    """Runner of checkers. Each worker has one runner, whose zygote starts with the first checker."""

    def __init__(
        self, settings: ZygoteSettings, compiler: Compiler, connect: Callable[[ZygoteSettings], ZygoteClient]
    ) -> None:
        self._settings = settings._replace(
            output_bytes=max(settings.output_bytes, _MAX_FILES_BYTES),
            work_bytes=4 * max(settings.output_bytes, _MAX_FILES_BYTES),
            reuses_folder=True,
        )
        self._compiler, self._start_client = compiler, connect
        self._client: ZygoteClient | None = None
        # For each expected output that was tried: its points, or why the checker does not accept the output.
        self._rehearsed: dict[bytes, float | str] = {}

    def try_expected_outputs(self, check: StdioTests) -> None:
        """Judge each expected output with the checker as if a program had printed it, once per worker.

        A refusal is remembered only if it comes again in the same way.
        """
        for number, (stdin, accepted) in enumerate(check.cases, 1):
            for answer in _accepted_texts(accepted):
                found = self._points_of_expected_output(check, stdin, answer)
                if isinstance(found, str):
                    raise FaultyCheck(f"the checker does not accept the expected output of case {number}: {found}")

    def judge(self, check: StdioTests, stdin: str, printed: bytes, accepted: str | tuple[str, ...]) -> Ruling:
        """Return the ruling on what a program printed; its points are the share of the expected output's points."""
        rulings = []
        for answer in _accepted_texts(accepted):
            full = self._points_of_expected_output(check, stdin, answer)
            ruling = self._run_checker(check, stdin, printed, answer)
            share = min(1.0, ruling.points / full) if isinstance(full, float) else 0.0
            rulings.append(ruling._replace(points=share))
        return max(rulings, key=lambda ruling: ruling.points)

    def _points_of_expected_output(self, check: StdioTests, stdin: str, answer: str) -> float | str:
        key = hashlib.sha256(repr((check.checker, stdin, answer)).encode("utf-8", "surrogatepass")).digest()
        if key not in self._rehearsed:
            found = self._judge_expected_output(check, stdin, answer)
            if isinstance(found, str) and found != self._judge_expected_output(check, stdin, answer):
                return found
            self._rehearsed[key] = found
            if len(self._rehearsed) > _MAX_REHEARSED:
                del self._rehearsed[next(iter(self._rehearsed))]
        return self._rehearsed[key]

    def _judge_expected_output(self, check: StdioTests, stdin: str, answer: str) -> float | str:
        ruling = self._run_checker(check, stdin, answer.encode("utf-8", "surrogateescape"), answer)
        return ruling.fault or ruling.points or f"the checker says {ruling.comment!r}"

    def _run_checker(self, check: StdioTests, stdin: str, printed: bytes, answer: str) -> Ruling:
        checker = check.checker
        assert checker is not None
        binary = self._compiled_checker(checker)
        texts = (*checker.files, *zip(Checker.ARGUMENTS[::2], (stdin, answer), strict=True))
        files = {name: text.encode("utf-8", "surrogateescape") for name, text in texts}
        job = make_run_job(checker.language, arguments=Checker.ARGUMENTS)
        job |= {"mode": "check", "files": {**files, Checker.ARGUMENTS[1]: printed}}
        job |= {"source": checker.source} if binary is None else {}
        client = self._client = self._client or self._start_client(self._settings)
        with ChildFiles(job, channel=None if binary is None else make_executable_memfd(binary)) as child:
            report = client.run([child], checker.timeout_seconds, compiled=binary is not None)
            ended = verdict_of_child(client, child, report)
            error = parse_exception_line(read_whole(child.channel)[:65536]) if binary is None else None
            return _parse_ruling(ended, report.children[0].status, error, read_head(child.stderr))

    def _compiled_checker(self, checker: Checker) -> bytes | None:
        if checker.language == "python":
            return None
        files = {LANGUAGES[checker.language].file: checker.source, **dict(checker.files)}
        compiled = self._compiler.compile(files, checker.language)
        if compiled.verdict is not None:
            raise FaultyCheck(f"the checker does not compile ({compiled.verdict}): {compiled.diagnostics[-1000:]}")
        return compiled.binary


def _accepted_texts(accepted: str | tuple[str, ...]) -> tuple[str, ...]:
    return (accepted,) if isinstance(accepted, str) else accepted


def _parse_ruling(ended: Verdict | None, status: int, error: Description | None, text: str) -> Ruling:
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1
    if ended in (Verdict.TIMED_OUT, Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_LIMIT):
        fault = f"it ended as {ended}"
    elif code < 0:
        fault = f"it ended with {describe_exit(status)['types'][0]}"
    elif error is not None and error["types"] and error["types"][0] != "SystemExit":
        fault = f"it ended with {error['types'][0]}"
    elif code == _POINTS and (found := _POINTS_LINE.match(text)):
        return Ruling(float(found[1]), text)
    elif code == _RIGHT or code in _WRONG:
        return Ruling(float(code == _RIGHT), text)
    elif code == _POINTS:
        fault = "it ended with exit code 7, but its standard error does not begin with 'points NUMBER'"
    else:
        fault = f"it ended with exit code {code}{', a failure of its own' if code == _FAILED else ''}"
    return Ruling(0.0, text, fault)
