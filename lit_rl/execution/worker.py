"""The trainer's end of a worker of the sandbox, and the programs that wait for one."""

from __future__ import annotations

import contextlib
import pickle
import signal
import socket
import subprocess
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from lit_rl.errors import LitRLError
from lit_rl.execution.checks import Check
from lit_rl.execution.confinement.cgroup import remove_groups_of
from lit_rl.execution.interface import Outcome, Verdict, receive_message, require_program, send_message
from lit_rl.execution.judging.supervising.supervisor import Answer, Settings, Task
from lit_rl.execution.spawning import start_process

_START_SECONDS = 60.0


class SandboxError(LitRLError, RuntimeError):
    """The sandbox cannot start, was closed, or runs on a machine that fails; never a program's fault."""


@dataclass(eq=False, slots=True)
class PendingProgram:
    """A submitted program, until its future is resolved.

    ``strikes`` counts the times that its run was lost while a known good program passed meanwhile, ``faults`` those
    in which that one failed too. ``is_single`` gives it a worker to itself, ``is_alone`` the machine.
    """

    program: str
    check: Check
    budget_seconds: float = field(init=False)
    packed: bytes = b""
    future: Future[Outcome] = field(default_factory=Future)
    started: bool = False
    is_single: bool = False
    is_alone: bool = False
    strikes: int = 0
    faults: int = 0
    reason: str = ""

    def __post_init__(self) -> None:
        require_program(self.program, self.check)
        self.budget_seconds = self.check.wall_budget_seconds

    def mark_started(self) -> bool:
        """Mark the program as started, so that it cannot be cancelled; False if it was cancelled before."""
        self.started = self.started or self.future.set_running_or_notify_cancel()
        return self.started

    def pack_check(self) -> bool:
        """Pack the check for a worker; on failure, resolve this one and return False."""
        try:
            self.packed = pickle.dumps(self.check, pickle.HIGHEST_PROTOCOL)
        except Exception as error:  # whatever a check of the user's holds
            message = f"{type(self.check).__name__} must hold plain data that pickles, got {error!r}"
            self.resolve(Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr=message))
        return bool(self.packed)

    def resolve(self, outcome: Outcome) -> None:
        with contextlib.suppress(Exception):  # cancelled by its owner meanwhile
            self.future.set_result(outcome)

    def fail(self, message: str) -> None:
        """Set an error in place of an outcome."""
        with contextlib.suppress(Exception):
            self.future.set_exception(SandboxError(message))


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
        """Answers so far; none in a message that only says the worker is alive."""
        self._connection.settimeout(seconds)
        answers: list[Answer] = receive_message(self._connection)
        return answers

    @property
    def failed_over_content(self) -> bool:
        """True if it ended, after ``close``, because of what a program had written: see ``own_limits.py``."""
        return self._process.returncode == -signal.SIGPROF

    def hang_up(self) -> None:
        """Tell the supervisor to end; it kills what runs."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, wait, and kill what does not end."""
        self.hang_up()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._connection.close()
        remove_groups_of(self._process.pid)
