"""The trainer's end of a worker of the sandbox."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Sequence

from lit_rl.errors import LitRLError
from lit_rl.execution.confinement.cgroup import remove_cgroups_of_process
from lit_rl.execution.interface import receive_message, send_message
from lit_rl.execution.judging.supervising.supervisor import Answer, Settings, Task
from lit_rl.execution.spawning import start_process

_START_SECONDS = 60.0


class SandboxError(LitRLError, RuntimeError):
    """The sandbox cannot start, was closed, or runs on a machine that fails; this is never a program's fault."""


class Worker:
    """The trainer's end of one supervisor process."""

    def __init__(self, settings: Settings) -> None:
        self._connection, theirs = socket.socketpair()
        try:
            self._process: subprocess.Popen[bytes] = start_process(
                "judging.supervising.supervisor", [str(theirs.fileno())], theirs
            )
        finally:
            theirs.close()
        try:
            self._connection.settimeout(_START_SECONDS)
            send_message(self._connection, settings)
            kind, content = receive_message(self._connection)
        except (OSError, EOFError) as error:
            kind, content = "failed", f"a worker of the sandbox ended while starting ({error})"
        if kind != "ready":
            self.close()
            raise SandboxError(str(content))
        self.tier: int = content

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, tasks: Sequence[Task]) -> None:
        send_message(self._connection, tasks)

    def receive(self, seconds: float) -> list[Answer]:
        """Return the answers so far; a message that only says that the worker is alive holds none."""
        self._connection.settimeout(seconds)
        answers: list[Answer] = receive_message(self._connection)
        return answers

    @property
    def ended_over_program_output(self) -> bool:
        """True after ``close`` if the worker ended because of what a program had written; see ``own_limits.py``."""
        return self._process.returncode == -signal.SIGPROF

    def hang_up(self) -> None:
        """Tell the supervisor to end, which also kills the running programs."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, wait for the supervisor to end, and kill it if it does not."""
        self.hang_up()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._connection.close()
        remove_cgroups_of_process(self._process.pid)
