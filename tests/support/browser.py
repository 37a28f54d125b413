"""A headless browser that a test steers over a pipe; no package needed, only the program itself."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "headless_shell")


class Page:
    """An open page; ``said`` has what its console shows and what went wrong in it, ``asked`` what it loaded."""

    def __init__(self, process: subprocess.Popen[bytes], send: int, receive: int) -> None:
        self._process, self._send, self._receive = process, send, receive
        self._left, self._number = b"", 0
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.call(f"{domain}.enable")

    _session: str | None = None

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol and its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            data = os.read(self._receive, 1 << 20)
            assert data, "the browser ended"
            self._left += data
        text, _, self._left = self._left.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        parameters = answer.get("params", {})
        match answer.get("method"):
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.said.append(json.dumps(parameters)[:500])
            case "Log.entryAdded":
                self.said.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.asked.append(parameters["request"]["url"])
        return answer

    def open(self, page: Path) -> None:
        """Load a file and wait until its scripts have run."""
        self.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=page.as_uri())
        while self.run("document.readyState") != "complete" or self.run("location.href") == "about:blank":
            pass

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """A page of a headless browser; the test is skipped where there is none."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser here: none of {', '.join(NAMES)} (Debian: apt-get install chromium-headless-shell)")
    to_browser, from_browser = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        # The protocol's pipes are descriptors 3 and 4.
        moves = f'exec 3<&{to_browser[0]} 4>&{from_browser[1]}; exec "$@"'
        process = subprocess.Popen(
            ["bash", "-c", moves, "browser", program, *flags],
            pass_fds=(to_browser[0], from_browser[1]),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            yield Page(process, to_browser[1], from_browser[0])
        finally:
            os.close(to_browser[1])
            os.close(from_browser[0])
            process.kill()
            process.wait()
