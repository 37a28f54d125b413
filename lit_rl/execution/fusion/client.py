"""Judging on a Sandbox Fusion server instead of on this node."""

from __future__ import annotations

import http.client
import json
import logging
import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from lit_rl.errors import UsageError
from lit_rl.execution.fusion.judges import RemoteRun, remote_judge_of
from lit_rl.execution.interface import Check, FaultyCheck, Outcome, ProgramRunner, Verdict, require_program_and_check
from lit_rl.execution.wire.bounded_json import NotPlain, parse_bounded_json
from lit_rl.execution.worker import SandboxError

_log = logging.getLogger(__name__)

_MAX_STRIKES = 3
_GOOD_SECONDS = 10.0
# Answers are parsed in the trainer's process while its other threads wait. Servers cut output far below this length.
_MAX_ANSWER_LENGTH = 4 << 20
_ANSWER_UNITS = 10_000
# Stands for an answer that was not read: only a program's output makes an answer this long.
_TOO_LONG: dict[str, Any] = {"status": "Failed", "run_result": {"status": "OutputLimitExceeded"}}
_connections = threading.local()


class ServerFailure(Exception):
    """The server or the connection failed, which says nothing about the program."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SandboxFusionClient(ProgramRunner):
    """Runner with the interface of ``Sandbox`` that runs programs on an HTTP server.

    Only the program, its input and the arguments of calls are sent. Expected values stay here, and outputs are compared
    here: a server without isolation between programs cannot leak expected values, and an exit status never counts as a
    pass. A request that fails is sent again. If a known good program fails too, the server is at fault, and
    ``submit``'s future raises ``SandboxError``. If the good program passes each time, the program has failed.

    ``submit`` refuses checks that are not judged here: tests that do more than compare results of literal calls, tests
    with ``in_place`` or ``allow_objects`` (both need an exchange in both directions), programs in C (the server knows
    only C++), robot worlds, builds, and kinds of checks from outside this package. The server measures wall time, not
    CPU time.

    Args:
        url: address of the server; by default the environment variable ``SANDBOX_URL``.
        max_concurrency: most requests at the same time; by default the environment variable
            ``SANDBOX_MAX_CONCURRENCY``, or 32. ``submit`` waits while four times as many requests are pending.
        memory_bytes: most memory of one program, as requested from the server.
        wall_factor: wall seconds per CPU second of a check's limit.
        num_tries: how often a request is sent before it counts as failed.
        request_seconds: seconds that the server may take beyond the program's own limit.
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
            raise UsageError("no server is given: pass url, or set SANDBOX_URL, such as http://127.0.0.1:8080")
        concurrency = max_concurrency or int(os.environ.get("SANDBOX_MAX_CONCURRENCY", "32"))
        self._memory_megabytes = max(1, memory_bytes >> 20)
        self._wall_factor = wall_factor
        self._num_tries = num_tries
        self._request_seconds = request_seconds
        self._concurrency = concurrency
        self._pool = self._make_thread_pool()
        self._pending = threading.BoundedSemaphore(4 * concurrency)
        self._closing = threading.Event()

    def submit(self, program: str, check: Check) -> Future[Outcome]:
        """Queue one program for judging; wait only while too many programs are pending.

        The future raises ``SandboxError`` if the server fails to run a known good program.
        """
        require_program_and_check(program, check)
        judge = partial(remote_judge_of(check), self._run_remotely, program)
        self._pending.acquire()
        try:
            future = self._pool.submit(self._judge_or_report, judge)
        except BaseException:
            self._pending.release()
            raise
        future.add_done_callback(lambda _: self._pending.release())
        return future

    def close(self) -> None:
        """Stop retrying, wait for requests in flight, end the threads."""
        self._closing.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def reopen(self) -> None:
        if self._closing.is_set():
            self._closing.clear()
            self._pool = self._make_thread_pool()

    def _make_thread_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._concurrency, thread_name_prefix="sandbox-fusion")

    def _judge_or_report(self, judge: Callable[[], Outcome]) -> Outcome:
        """Judge a program; if the server fails, blame the program only if a known good program passes."""
        for attempt in range(_MAX_STRIKES):
            try:
                return judge()
            except ServerFailure as error:
                failure = str(error)
            except FaultyCheck as fault:
                return Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr=str(fault))
            except Exception as error:  # in reading what came back
                failure = f"{type(error).__name__}: {error}"
            self._require_working_server(failure)
            _log.warning("a program was lost on the server (%s), tried %d times", failure, attempt + 1)
        message = f"lost {_MAX_STRIKES} times while the server ran a known good program: {failure}"
        return Outcome(Verdict.EXCEPTION, stderr=message)

    def _require_working_server(self, failure: str) -> None:
        try:
            works = self._run_remotely("print('good')", "python", "", _GOOD_SECONDS).stdout == "good\n"
        except ServerFailure as error:
            works, failure = False, str(error)
        if not works:
            raise SandboxError(
                f"the server at {self.url} fails to run a known good program: {failure}; repair the server and resume"
            )

    def _run_remotely(self, code: str, language: str, stdin: str, seconds: float) -> RemoteRun:
        wall = seconds * self._wall_factor
        request = {
            "code": code,
            "language": language,
            "stdin": stdin,
            "run_timeout": wall,
            "compile_timeout": 30.0,
            "memory_limit_MB": self._memory_megabytes,
        }
        attempt = 0
        while True:
            try:
                return parse_run_answer(post_json(f"{self.url}/run_code", request, wall + self._request_seconds))
            except ServerFailure as failure:
                attempt += 1
                if attempt >= self._num_tries or self._closing.is_set():
                    raise
                # Full jitter: clients that failed together do not come back together.
                pause = failure.retry_after or random.uniform(0, min(30.0, 0.25 * 2**attempt))
                self._closing.wait(pause)


def post_json(url: str, content: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Send JSON and return the JSON of the answer, over a connection that this thread keeps."""
    body = json.dumps(content).encode()
    parts = urlsplit(url)
    connection = _connection_of_thread(parts.scheme, parts.netloc, seconds)
    try:
        connection.request("POST", parts.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read(_MAX_ANSWER_LENGTH + 1)
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise ServerFailure(f"{type(error).__name__}: {error}") from None
    if response.status == 200 and len(data) > _MAX_ANSWER_LENGTH:
        connection.close()  # the rest is still on its way
        return _TOO_LONG
    with suppress(NotPlain):
        answer = parse_bounded_json(data, _MAX_ANSWER_LENGTH, _ANSWER_UNITS)
        if response.status == 200 and isinstance(answer, dict):
            return answer
    connection.close()
    fault = f"HTTP {response.status} in place of a JSON object with status 200"
    raise ServerFailure(fault, _parse_retry_after(response.getheader("Retry-After")))


def parse_run_answer(answer: dict[str, Any]) -> RemoteRun:
    """Read the server's answer to ``run_code``."""
    status = answer.get("status")
    compiling, running = answer.get("compile_result"), answer.get("run_result")
    if status in ("Success", "Failed"):
        if isinstance(compiling, dict) and compiling.get("status") != "Finished":
            return _parse_run_result(compiling, Verdict.TIMED_OUT)
        if isinstance(compiling, dict) and compiling.get("return_code"):
            return _parse_run_result(compiling, None)._replace(verdict=Verdict.SYNTAX_ERROR)
        if isinstance(running, dict):
            return _parse_run_result(running, None)
    raise ServerFailure(f"no result, status {status!r}: {str(answer.get('message'))[:300]}")


def _parse_run_result(result: dict[str, Any], late: Verdict | None) -> RemoteRun:
    stdout, stderr = result.get("stdout") or "", result.get("stderr") or ""
    seconds = result.get("execution_time") or 0.0
    status, code = result.get("status"), result.get("return_code")
    are_texts = type(stdout) is type(stderr) is str and type(seconds) in (int, float)
    is_long = result is _TOO_LONG["run_result"]
    if not are_texts or not (is_long or status in ("Finished", "TimeLimitExceeded")):
        raise ServerFailure(f"run status {status!r}, or an output of the wrong type")
    if is_long:
        verdict: Verdict | None = Verdict.OUTPUT_LIMIT
    elif status == "Finished":
        verdict = None if code == 0 else _verdict_of_stderr(stderr)
    else:
        verdict = late or Verdict.TIMED_OUT
    return RemoteRun(verdict, stdout, stderr, float(seconds))


def _verdict_of_stderr(stderr: str) -> Verdict:
    last = stderr.strip().rpartition("\n")[2]
    if last.startswith("MemoryError") or "bad_alloc" in last:
        return Verdict.OUT_OF_MEMORY
    if last.startswith(("SyntaxError", "IndentationError", "TabError")):
        return Verdict.SYNTAX_ERROR
    return Verdict.EXCEPTION


def _connection_of_thread(scheme: str, address: str, seconds: float) -> http.client.HTTPConnection:
    kept: dict[str, http.client.HTTPConnection] = _connections.__dict__.setdefault("kept", {})
    if address not in kept:
        kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        kept[address] = kind(address)
    connection = kept[address]
    connection.timeout = seconds
    if connection.sock is not None:
        connection.sock.settimeout(seconds)
    return connection


def _parse_retry_after(header: str | None) -> float | None:
    try:
        return min(60.0, max(0.0, float(header))) if header else None
    except ValueError:
        return None
