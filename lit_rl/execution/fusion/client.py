"""Judging on a Sandbox Fusion server instead of on this node."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from lit_rl.execution.checks import AssertTests, CallTests, Check, StdioTests
from lit_rl.execution.fusion.protocol import ServerFailure, post, read_run
from lit_rl.execution.fusion.shim import LONGEST_ANSWER, shim, shim_input
from lit_rl.execution.judging.answers import Answers, last_calls
from lit_rl.execution.judging.assert_plan import Call, plan_asserts
from lit_rl.execution.judging.stdio import same_output
from lit_rl.execution.outcome import Outcome, Verdict

_TAIL = 4096
_LANGUAGES = {"python": "python", "cpp": "cpp"}


class SandboxFusionClient:
    """Same interface as ``Sandbox``; programs run on an HTTP server.

    Only the program, its input and the arguments of calls are sent; expected values stay here and outputs
    are compared here, so that a server without isolation between programs cannot leak them, and an exit
    status is never taken for a pass. Whatever goes wrong on the way or on the server is an infrastructure
    failure.

    Not judged here: tests that do more than compare results of literal calls (they need an exchange in both
    directions), C (the server knows C++ only), and CPU time: the server's clock is the wall.

    Args:
        url: address of the server; by default the environment variable ``SANDBOX_URL``.
        max_concurrency: requests at the same time; by default ``SANDBOX_MAX_CONCURRENCY``, else 32.
            ``submit`` waits while four times as many are pending.
        memory_bytes: most memory of one program, as asked of the server.
        wall_factor: wall seconds for a CPU second of a check's limit.
        num_tries: how often a request is sent before it counts as failed.
        request_seconds: seconds that the server may take beyond the program's own limit.

    Raises:
        ValueError: if there is no address.
    """

    def __init__(
        self,
        url: str | None = None,
        max_concurrency: int | None = None,
        memory_bytes: int = 512 << 20,
        wall_factor: float = 2.0,
        num_tries: int = 4,
        request_seconds: float = 30.0,
    ) -> None:
        self.url = (url or os.environ.get("SANDBOX_URL", "")).rstrip("/")
        if not self.url:
            raise ValueError("no server: pass url or set SANDBOX_URL, such as http://127.0.0.1:8080")
        concurrency = max_concurrency or int(os.environ.get("SANDBOX_MAX_CONCURRENCY", "32"))
        if concurrency < 1:
            raise ValueError(f"max_concurrency must be at least 1, got {concurrency}")
        self._memory_megabytes = max(1, memory_bytes >> 20)
        self._wall_factor = wall_factor
        self._num_tries = num_tries
        self._request_seconds = request_seconds
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="sandbox-fusion")
        self._pending = threading.BoundedSemaphore(4 * concurrency)
        self._closing = threading.Event()
        self._shim = shim()

    def submit(self, program: str, check: Check) -> Future[Outcome]:
        """Have one program judged; waits only while too many are pending.

        Raises:
            ValueError: for a check that cannot be judged by a server.
        """
        judge = self._judge_for(program, check)
        self._pending.acquire()
        try:
            future = self._pool.submit(self._guarded, judge)
        except BaseException:
            self._pending.release()
            raise
        future.add_done_callback(lambda _: self._pending.release())
        return future

    def judge_many(self, programs: Iterable[tuple[str, Check]], deadline_seconds: float | None = None) -> list[Outcome]:
        """Have all judged; one outcome each, in order. After the deadline: infrastructure failures."""
        deadline = None if deadline_seconds is None else time.monotonic() + deadline_seconds
        futures = [self.submit(program, check) for program, check in programs]
        outcomes = []
        for future in futures:
            try:
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                outcomes.append(future.result(left))
            except TimeoutError:
                future.cancel()
                outcomes.append(_failure(f"not judged within the batch's {deadline_seconds} seconds"))
        return outcomes

    def close(self) -> None:
        """Give up retries, wait for requests on their way, end the threads."""
        self._closing.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> SandboxFusionClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _judge_for(self, program: str, check: Check) -> Callable[[], Outcome]:
        if not program.strip():
            return lambda: Outcome(Verdict.NO_PROGRAM)
        if isinstance(check, StdioTests):
            if check.language not in _LANGUAGES:
                raise ValueError(f"the server runs no {check.language}; use the local Sandbox for it")
            return lambda: self._judge_stdio(program, check)
        if isinstance(check, CallTests):
            calls = [Call(check.entry_point, args, {}) for args, _ in check.cases]
            return lambda: self._judge_calls(program, check, calls)
        if isinstance(check, AssertTests):
            plan = plan_asserts(check.test, check.entry_point)
            if plan is None:
                raise ValueError("these tests do more than compare results of literal calls: use the local Sandbox")
            return lambda: self._judge_asserts(program, check)
        raise ValueError(f"{type(check).__name__} cannot be judged by a server; use the local Sandbox")

    def _guarded(self, judge: Callable[[], Outcome]) -> Outcome:
        try:
            return judge()
        except Exception as error:  # ours or the server's, never the program's
            return _failure(f"{type(error).__name__}: {error}")

    def _judge_stdio(self, program: str, check: StdioTests) -> Outcome:
        longest = max((len(expected.encode("utf-8", "surrogateescape")) for _, expected in check.cases), default=0)
        if longest > LONGEST_ANSWER:
            # The right answer would come back as a time-out.
            return _failure(f"the server cannot return the expected {longest} bytes of output: use the local Sandbox")
        cases: list[Verdict] = []
        first_bad = last = Outcome(Verdict.PASSED)
        for stdin, expected in check.cases or (("", ""),):
            run = self._run(program, _LANGUAGES[check.language], stdin, check.timeout_seconds)
            verdict = run.verdict
            if verdict is None:
                same = same_output(run.stdout.encode("utf-8", "surrogatepass"), expected)
                verdict = Verdict.PASSED if same else Verdict.WRONG_ANSWER
            last = Outcome(
                verdict,
                stdout=run.stdout[-_TAIL:],
                stderr=run.stderr[-_TAIL:],
                wall_seconds=run.wall_seconds,
            )
            cases.append(verdict)
            if verdict is not Verdict.PASSED and first_bad.passed:
                first_bad = last
            if verdict in (Verdict.SYNTAX_ERROR, Verdict.TIMED_OUT):
                break
        shown = last if first_bad.passed else first_bad
        return Outcome(shown.verdict, tuple(cases), {}, shown.stdout, shown.stderr, wall_seconds=shown.wall_seconds)

    def _judge_calls(self, program: str, check: CallTests, calls: list[Call]) -> Outcome:
        answers, run = self._answers(program, calls, check.timeout_seconds * max(1, len(calls)), check.in_place)
        return _outcome(answers, answers.of_calls(check), list(range(len(calls))), run)

    def _judge_asserts(self, program: str, check: AssertTests) -> Outcome:
        plan = plan_asserts(check.test, check.entry_point)
        assert plan is not None
        answers, run = self._answers(program, list(plan.calls), check.timeout_seconds, False)
        return _outcome(answers, answers.of_plan(plan), last_calls(plan), run)

    def _answers(self, program: str, calls: list[Call], seconds: float, in_place: bool) -> tuple[Answers, Any]:
        run = self._run(self._shim, "python", shim_input(program, calls, in_place), seconds)
        lines = run.stdout.encode("utf-8", "surrogatepass").split(b"\n")[:-1]
        ended = run.verdict
        if any(b'"OutputLimit"' in line for line in lines[-1:]) or len(run.stdout) > LONGEST_ANSWER + 1000:
            ended = Verdict.OUTPUT_LIMIT
        return Answers(lines, ended), run

    def _run(self, code: str, language: str, stdin: str, seconds: float) -> Any:
        """One run on the server, tried again while it is the server that fails."""
        wall = seconds * self._wall_factor
        request = {
            "code": code,
            "language": language,
            "stdin": stdin,
            "run_timeout": wall,
            "compile_timeout": 30.0,
            "memory_limit_MB": self._memory_megabytes,
        }
        for attempt in range(self._num_tries):
            try:
                return read_run(post(f"{self.url}/run_code", request, wall + self._request_seconds))
            except ServerFailure as failure:
                if attempt + 1 == self._num_tries or self._closing.is_set():
                    raise
                # Full jitter: clients that failed together do not come back together.
                pause = failure.retry_after or random.uniform(0, min(30.0, 0.5 * 2**attempt))
                self._closing.wait(pause)
        raise AssertionError("unreachable")


def _outcome(answers: Answers, cases: list[Verdict], last: list[int], run: Any) -> Outcome:
    verdict, error = answers.overall(cases, last)
    name = line = None
    if error and verdict is not Verdict.PASSED:
        name = str(error["types"][0])[:100] if error["types"] else None
        line = error.get("line") if type(error.get("line")) is int else None
    return Outcome(verdict, tuple(cases), {}, "", run.stderr[-_TAIL:], name, line, wall_seconds=run.wall_seconds)


def _failure(message: str) -> Outcome:
    return Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr=message)
