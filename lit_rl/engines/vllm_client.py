"""Requests to a vLLM server through the Python standard library, so that the trainer needs no vLLM."""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Mapping
from typing import Any
from urllib.request import HTTPErrorProcessor, ProxyHandler, Request, build_opener

from lightning_utilities.core.rank_zero import rank_zero_info

from lit_rl.engines.engine import EngineError

_TOLD = 300  # most characters of a server's answer that a message repeats
_MAX_PAUSE_SECONDS = 10.0  # seconds between two tries


class _AnyStatusProcessor(HTTPErrorProcessor):
    """Returns every response as it is, so that no redirect is followed."""

    def http_response(self, request: Request, response: Any) -> Any:
        return response

    https_response = http_response


_open = build_opener(ProxyHandler({}), _AnyStatusProcessor).open


class VLLMClient:
    """One vLLM server; a request is sent ``num_tries`` times before it counts as failed."""

    def __init__(self, url: str, num_tries: int = 5) -> None:
        self.url = url.rstrip("/")
        self.num_tries = num_tries

    def wait_until_ready(self, seconds: float) -> None:
        """Wait until the server answers; raise an error if it does not answer in time."""
        deadline, tries = time.monotonic() + seconds, 0
        while True:
            try:
                self._request_once("/health", 10.0, None)
                break
            except _RetryableError as failure:
                if time.monotonic() >= deadline:
                    raise EngineError(
                        f"no vllm server answers at {self.url} within {seconds:g} seconds ({failure}): start a server "
                        "(lit-rl docs engines says how) or correct url"
                    ) from None
                if not tries:
                    rank_zero_info(f"waiting up to {seconds:g} seconds for a vllm server at {self.url} ({failure})")
                tries += 1
                time.sleep(min(1.0, seconds / 10))

    def request(
        self, path: str, seconds: float, content: Mapping[str, Any] | None = None, tries: int | None = None
    ) -> dict[str, Any]:
        """Send a POST request with JSON, or a GET request without content; return the answer's JSON, ``{}`` if none.

        If the server or the connection fails, the request is sent up to ``tries`` times (by default ``num_tries``).
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._request_once(path, seconds, content)
            except _RetryableError as failure:
                if attempt == (tries or self.num_tries):
                    raise EngineError(f"the vllm server at {self.url} failed at {path}: {failure}") from None
                time.sleep(random.uniform(0, min(_MAX_PAUSE_SECONDS, 0.125 * 2**attempt)))

    def call_on_workers(self, method: str, seconds: float, **arguments: Any) -> None:
        """Call a method of each of the server's workers, once."""
        self.request("/collective_rpc", seconds, {"method": method, "kwargs": arguments}, tries=1)

    def _request_once(self, path: str, seconds: float, content: Mapping[str, Any] | None) -> dict[str, Any]:
        body = None if content is None else json.dumps(content).encode()
        request = Request(self.url + path, body, {"Content-Type": "application/json"})
        try:
            with _open(request, timeout=seconds) as response:
                status, data = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            fault = getattr(error, "reason", error)
            raise _RetryableError(f"{type(fault).__name__}: {fault}") from None
        if status != 200:
            message, hint = error_message_of_response(data), ""
            if status >= 500 and status != 501:
                raise _RetryableError(f"HTTP {status}: {message}")
            if path == "/health" or status < 400:
                hint = "; url: expected the address of a vllm server, without /v1 or another path"
            elif path == "/v1/load_lora_adapter":
                hint = (
                    ": start the server with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora --max-lora-rank N, "
                    "or set merge_adapters to true"
                )
            elif status == 404 and "does not exist" not in message:
                hint = ": start the server with VLLM_SERVER_DEV_MODE=1 and --enable-scale-out"
            raise EngineError(f"the vllm server at {self.url} refused {path}: HTTP {status}: {message}{hint}")
        try:
            answer = json.loads(data) if data else {}
        except ValueError:
            answer = {}
        return answer if isinstance(answer, dict) else {"answer": answer}


class _RetryableError(Exception):
    """The server or the connection failed; the same request may succeed later."""


def error_message_of_response(data: bytes) -> str:
    """Return the message of an error response, in one line."""
    try:
        content: Any = json.loads(data)
    except ValueError:
        content = data.decode(errors="replace")
    while isinstance(content, dict):
        content = next((content[key] for key in ("error", "message", "detail") if key in content), str(content))
    return " ".join(str(content).split())[:_TOLD] or "nothing"
