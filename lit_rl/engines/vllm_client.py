"""Requests to a vLLM server, over the Python standard library; the trainer needs no vLLM for them."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from lit_rl.arguments import UsageError
from lit_rl.engines.base import EngineError
from lit_rl.engines.vllm_package import require_release

_TOLD = 300  # characters of what a server says that a message repeats
_connections = threading.local()


class VLLMClient:
    """One vLLM server.

    Args:
        url: its address, such as ``http://node17:8000``.
        num_tries: how often a request is sent before it counts as failed.
        longest_pause: most seconds between two tries.
    """

    def __init__(self, url: str, num_tries: int = 5, longest_pause: float = 10.0) -> None:
        self.url = url.rstrip("/")
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).netloc:
            raise UsageError(f"the address of a vllm server looks like http://node17:8000, got {url!r}")
        self.num_tries = num_tries
        self.longest_pause = longest_pause

    def wait_until_ready(self, seconds: float) -> str:
        """Wait for the server; its release.

        Raises:
            EngineError: it does not answer in time.
            ImportError: it is too old.
        """
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.get("/health", 10.0, tries=1)
                break
            except EngineError as error:
                if time.monotonic() >= deadline:
                    raise EngineError(
                        f"no vllm server answers at {self.url} within {seconds:g} seconds ({error}): start one "
                        "(lit-rl docs engines) or correct url"
                    ) from None
                time.sleep(min(1.0, seconds / 10))
        release = str(self.get("/version", 10.0).get("version", "unknown"))
        require_release(release, f"the server at {self.url}")
        return release

    def get(self, path: str, seconds: float, tries: int | None = None) -> dict[str, Any]:
        """Ask for something; empty where the answer has no content."""
        return self._send("GET", path, None, seconds, tries)

    def post(self, path: str, content: Mapping[str, Any], seconds: float, tries: int | None = None) -> dict[str, Any]:
        """Send JSON, get JSON; retried while the server or the connection is what fails.

        Raises:
            EngineError: no good answer after all tries, or the server refuses the request.
        """
        return self._send("POST", path, content, seconds, tries)

    def _send(
        self, method: str, path: str, content: Mapping[str, Any] | None, seconds: float, tries: int | None
    ) -> dict[str, Any]:
        tries = tries or self.num_tries
        for attempt in range(tries):
            try:
                return self._once(method, path, content, seconds)
            except _TryAgain as failure:
                if attempt + 1 == tries:
                    raise EngineError(f"the vllm server at {self.url} failed at {path}: {failure}") from None
                time.sleep(random.uniform(0, min(self.longest_pause, 0.25 * 2**attempt)))
        raise AssertionError("unreachable")

    def _once(self, method: str, path: str, content: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
        connection = self._connection(seconds)
        body = None if content is None else json.dumps(content).encode()
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            response = connection.getresponse()
            data = response.read()
        except TimeoutError:
            self._forget()
            raise _TryAgain(f"no answer within {seconds:g} seconds") from None
        except (OSError, http.client.HTTPException) as error:
            self._forget()
            raise _TryAgain(f"{type(error).__name__}: {error}") from None
        if response.status >= 500 and response.status != 501:
            raise _TryAgain(f"HTTP {response.status}: {told(data)}")
        if response.status != 200:
            hint = ": start it with VLLM_SERVER_DEV_MODE=1 and --enable-scale-out" if response.status == 404 else ""
            raise EngineError(
                f"the vllm server at {self.url} refused {path}: HTTP {response.status}: {told(data)}{hint}"
            )
        try:
            answer = json.loads(data) if data else {}
        except ValueError:
            answer = {}
        return answer if isinstance(answer, dict) else {"answer": answer}

    def _connection(self, seconds: float) -> http.client.HTTPConnection:
        """The connection that this thread keeps to the server."""
        kept = _connections.__dict__.setdefault("by_url", {})
        if self.url not in kept:
            parts = urlsplit(self.url)
            make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            kept[self.url] = make(parts.netloc, timeout=seconds)
        connection: http.client.HTTPConnection = kept[self.url]
        connection.timeout = seconds
        if connection.sock is not None:
            connection.sock.settimeout(seconds)
        return connection

    def _forget(self) -> None:
        connection = _connections.__dict__.setdefault("by_url", {}).pop(self.url, None)
        if connection is not None:
            connection.close()


class _TryAgain(Exception):
    """The server or the connection failed; the same request may succeed later."""


def told(data: bytes) -> str:
    """What an error answer says, in one line."""
    try:
        content: Any = json.loads(data)
    except ValueError:
        content = data.decode(errors="replace")
    while isinstance(content, dict):
        content = next((content[key] for key in ("error", "message", "detail") if key in content), str(content))
    return " ".join(str(content).split())[:_TOLD] or "nothing"
