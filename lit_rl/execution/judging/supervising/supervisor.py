"""The supervisor: the process that judges. Each worker has one, a fresh process next to the trainer.

It holds the tests and expected values, starts a zygote, has programs run there, and compares what came out.
It runs no line of a program. As soon as the trainer closes the connection or dies, the supervisor ends, and with it
the zygote and the zygote's child.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module

from lit_rl.execution.checks import Check
from lit_rl.execution.confinement.kernel import PR_SET_DUMPABLE, PR_SET_NAME, libc, set_oom_score
from lit_rl.execution.confinement.limits import error_with_remedy
from lit_rl.execution.interface import FaultyCheck, Outcome, Verdict, receive_message, send_message
from lit_rl.execution.judging.checking import CheckerRunner
from lit_rl.execution.judging.compiling import Compiler
from lit_rl.execution.judging.supervising.jobs import KilledFromOutside, ZygoteClient, ZygoteLost
from lit_rl.execution.judging.supervising.own_limits import SupervisorLimits, SupervisorTooSlow, watch_for_hang_up
from lit_rl.execution.spawning import ZygoteSettings

# A program to judge: its number, source and check, packed so that a check that cannot be read here fails no other task.
Task = tuple[int, str, bytes]
# What the trainer tells a fresh supervisor: limits and isolation of programs, and where modules of checks and judges
# from outside this package are found.
Settings = tuple[ZygoteSettings, tuple[str, ...]]
# Number of a task and its outcome; instead of an outcome, the reason why the run was lost and must be repeated.
Answer = tuple[int, Outcome | str]
Judge = Callable[[ZygoteClient, str, Check], Outcome]
KILLED = "a process of the program was killed from outside"
"""Reason of a lost run that may well succeed when it is repeated."""

_ALIVE_SECONDS = 5.0  # a supervisor that takes longer over one program says that it is alive


class Supervisor:
    """Judge of tasks, one after the other."""

    def __init__(self, connection: socket.socket, trainer: int, client: ZygoteClient) -> None:
        self._connection = connection
        self._trainer = trainer
        self._done: list[Answer] = []
        self._sent_at = time.monotonic()
        self._limits = SupervisorLimits(client.settings.output_bytes)
        self._clients: list[ZygoteClient] = []
        self._client = self._register_client(client)
        client.on_report = self._limits.start_limits
        client.compiler = Compiler(client.settings, self._start_client)
        client.checkers = CheckerRunner(client.settings, client.compiler, self._start_client)

    def serve(self) -> None:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        poll.register(self._trainer, select.POLLIN)
        while True:
            if any(descriptor == self._trainer for descriptor, _ in poll.poll()):
                return
            try:
                tasks: list[Task] = receive_message(self._connection)
            except (EOFError, OSError):
                return
            # Outcomes go back a few at a time: each message wakes a thread of the trainer.
            for number, program, packed in tasks:
                outcome = self._judge(program, packed)  # may send the outcomes so far, and so replace the list
                self._limits.stop_clocks()
                self._done.append((number, outcome))
            self._send_outcomes()
            self._limits.lift_memory_limit()

    def _send_outcomes(self) -> None:
        """Send outcomes: at the end of the tasks, and as soon as a program takes longer than a moment."""
        now = time.monotonic()
        if self._done or now - self._sent_at > _ALIVE_SECONDS:
            with contextlib.suppress(OSError):
                send_message(self._connection, self._done)
            self._done, self._sent_at = [], now

    def _start_client(self, settings: ZygoteSettings) -> ZygoteClient:
        """Make a client with a further zygote, for a compiler, runtime or checkers; raise as ``ZygoteClient`` does."""
        self._limits.lift_memory_limit()
        return self._register_client(ZygoteClient(settings, self._connection.fileno(), self._trainer))

    def _register_client(self, client: ZygoteClient) -> ZygoteClient:
        client.on_wait, client.on_renewal = self._send_outcomes, self._limits.lift_memory_limit
        self._clients.append(client)
        return client

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            for client in self._clients:
                stack.callback(client.close)

    def _judge(self, program: str, packed: bytes) -> Outcome | str:
        try:
            return self._judge_check(program, packed)
        except (ZygoteLost, SystemExit):
            raise
        except FaultyCheck as fault:
            reason: Outcome | str = Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr=str(fault))
        except KilledFromOutside:
            reason = KILLED
        except (MemoryError, SupervisorTooSlow) as error:
            # Before any program ran, only the tests can have taken so much.
            by_program = self._limits.has_content
            verdict = Verdict.OUTPUT_LIMIT if by_program else Verdict.INFRASTRUCTURE_FAILURE
            what = "what the program wrote cannot be read" if by_program else "the tests use too much memory or time"
            reason = Outcome(verdict, stderr=f"{what}: {error!r}")
        except Exception:
            # This must neither be the program's fault the first time, nor be an outcome that a program may choose.
            reason = f"its judge raised {traceback.format_exc()[-2000:]}"
        self._limits.stop_clocks()
        for client in self._clients:
            client.kill_and_drain_job()
        return reason

    def _judge_check(self, program: str, packed: bytes) -> Outcome:
        try:
            check = pickle.loads(packed)
            module, _, name = check.judged_by.partition(":")
            judge: Judge = getattr(import_module(module), name)
        except Exception as error:
            raise FaultyCheck(
                f"the check cannot be loaded by the process that judges: {error} (move a check and its judge "
                "from the running script, __main__, to a module next to the script)"
            ) from error
        return judge(self._client, program.removeprefix("\ufeff"), check)


def main() -> None:
    """Entry point of the supervisor's process: ``argv`` holds the descriptor of the connection."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    libc.prctl(PR_SET_NAME, b"lit_rl-judge", 0, 0, 0)
    set_oom_score(500)  # killed after programs, before the trainer
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # no other process of this user may read the expected values
    trainer = os.pidfd_open(os.getppid())
    watch_for_hang_up(connection.fileno(), trainer)
    settings: Settings = receive_message(connection)
    sys.path += settings[1]  # after the standard library, which nothing may replace here
    try:
        client = ZygoteClient(settings[0], connection.fileno(), trainer)
    except OSError as error:
        send_message(connection, ("failed", f"the sandbox cannot start: {error_with_remedy(error)}"))
        return
    except Exception as error:
        send_message(connection, ("failed", f"{type(error).__name__}: {error}"))
        return
    supervisor = Supervisor(connection, trainer, client)
    try:
        send_message(connection, ("ready", client.settings.tier))
        supervisor.serve()
    except ZygoteLost as error:
        print(f"sandbox: {error}", file=sys.stderr)
    finally:
        supervisor.close()
