"""Requests to a Sandbox Fusion server, and the reading of its answers."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lit_rl.execution.interface import Verdict
from lit_rl.execution.wire.bounded_json import NotPlain, parse

# Parsed in the trainer's process while its other threads wait. Servers cut output far below this.
_LONGEST_ANSWER = 4 << 20
_ANSWER_UNITS = 10_000
# Stands for an answer that was not read: only a program's output makes one this long.
_TOO_LONG: dict[str, Any] = {"status": "Failed", "run_result": {"status": "OutputLimitExceeded"}}
_connections = threading.local()


class ServerFailure(Exception):
    """The server or the connection failed, which says nothing about the program."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RemoteRun(NamedTuple):
    """One run on the server."""

    verdict: Verdict | None
    stdout: str
    stderr: str
    wall_seconds: float


def post(url: str, content: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Send JSON, get JSON, over a connection that this thread keeps."""
    body = json.dumps(content).encode()
    parts = urlsplit(url)
    connection = _connection(parts.scheme, parts.netloc, seconds)
    try:
        connection.request("POST", parts.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read(_LONGEST_ANSWER + 1)
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise ServerFailure(f"{type(error).__name__}: {error}") from None
    if response.status != 200:
        connection.close()
        raise ServerFailure(f"HTTP {response.status}", _seconds(response.getheader("Retry-After")))
    if len(data) > _LONGEST_ANSWER:
        connection.close()  # the rest is still on its way
        return _TOO_LONG
    try:
        answer = parse(data, _LONGEST_ANSWER, _ANSWER_UNITS)
    except NotPlain:
        raise ServerFailure("the answer is not JSON") from None
    if not isinstance(answer, dict):
        raise ServerFailure("the answer is not a JSON object")
    return answer


def read_run(answer: dict[str, Any]) -> RemoteRun:
    """Read the server's answer to ``run_code``."""
    status = answer.get("status")
    compiling, running = answer.get("compile_result"), answer.get("run_result")
    if status not in ("Success", "Failed"):
        raise ServerFailure(f"status {status!r}: {str(answer.get('message'))[:300]}")
    if isinstance(compiling, dict) and compiling.get("status") != "Finished":
        return _read(compiling, Verdict.TIMED_OUT)
    if isinstance(compiling, dict) and compiling.get("return_code"):
        return _read(compiling, None)._replace(verdict=Verdict.SYNTAX_ERROR)
    if not isinstance(running, dict):
        raise ServerFailure("the answer has no run_result")
    return _read(running, None)


def _read(result: dict[str, Any], late: Verdict | None) -> RemoteRun:
    stdout, stderr = result.get("stdout") or "", result.get("stderr") or ""
    seconds = result.get("execution_time") or 0.0
    if type(stdout) is not str or type(stderr) is not str or type(seconds) not in (int, float):
        raise ServerFailure("run_result has a stdout, stderr or execution_time of the wrong type")
    status, code = result.get("status"), result.get("return_code")
    if status == "TimeLimitExceeded":
        verdict: Verdict | None = late or Verdict.TIMED_OUT
    elif result is _TOO_LONG["run_result"]:
        verdict = Verdict.OUTPUT_LIMIT
    elif status == "Finished":
        verdict = None if code == 0 else _of_exit(stderr)
    else:
        raise ServerFailure(f"run status {status!r}")
    return RemoteRun(verdict, stdout, stderr, float(seconds))


def _of_exit(stderr: str) -> Verdict:
    last = stderr.strip().rpartition("\n")[2]
    if last.startswith("MemoryError") or "bad_alloc" in last:
        return Verdict.OUT_OF_MEMORY
    if last.startswith(("SyntaxError", "IndentationError", "TabError")):
        return Verdict.SYNTAX_ERROR
    return Verdict.EXCEPTION


def _connection(scheme: str, address: str, seconds: float) -> http.client.HTTPConnection:
    kept: dict[str, http.client.HTTPConnection] = _connections.__dict__.setdefault("kept", {})
    if address not in kept:
        kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        kept[address] = kind(address)
    connection = kept[address]
    connection.timeout = seconds
    if connection.sock is not None:
        connection.sock.settimeout(seconds)
    return connection


def _seconds(header: str | None) -> float | None:
    try:
        return min(60.0, max(0.0, float(header))) if header else None
    except ValueError:
        return None
