"""Running untrusted programs beside a trainer: verdicts that can be trusted, in order, in time."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future

from lit_rl.execution.checks import Check
from lit_rl.execution.confinement.cgroup import remove_groups_of
from lit_rl.execution.confinement.packages import find_packages
from lit_rl.execution.judging.supervisor import Settings, Task
from lit_rl.execution.outcome import Outcome, Verdict
from lit_rl.execution.runner import ProgramRunner
from lit_rl.execution.spawning import TIERS, WEAK, ZygoteSettings, start_process
from lit_rl.execution.wire.messages import pack, receive_message, send_message
from lit_rl.execution.zygote.work_folder import empty_folder

_log = logging.getLogger(__name__)

_GRACE_SECONDS = 30.0
_START_SECONDS = 60.0
_CHUNK = 8


class SandboxError(RuntimeError):
    """The sandbox cannot start, or was closed. Never the fault of a program."""


class _Waiting:
    """A submitted program, until its future is resolved."""

    __slots__ = ("alone", "budget_seconds", "check", "future", "losses", "packed", "program", "started")

    def __init__(self, program: str, check: Check) -> None:
        self.program = program
        self.check = check
        self.budget_seconds = check.wall_budget_seconds
        self.packed = b""
        self.future: Future[Outcome] = Future()
        self.started = False
        self.losses = 0
        self.alone = False

    def start(self) -> bool:
        """Whether it is still wanted; from now on it cannot be cancelled."""
        self.started = self.started or self.future.set_running_or_notify_cancel()
        return self.started

    def pack(self) -> bool:
        """Whether the check can be sent to a worker; if not, this is resolved."""
        try:
            self.packed = pack(self.check)
        except Exception as error:  # whatever a check of the user's holds
            self.resolve(_failure(f"{type(self.check).__name__} must hold plain data that pickles, got {error!r}"))
        return bool(self.packed)

    def resolve(self, outcome: Outcome) -> None:
        with contextlib.suppress(Exception):  # cancelled by its owner meanwhile
            self.future.set_result(outcome)


class _Worker:
    """One supervisor process, as the trainer sees it."""

    def __init__(self, settings: Settings) -> None:
        self._connection, theirs = socket.socketpair()
        try:
            self._process: subprocess.Popen[bytes] = start_process("judging.supervisor", [str(theirs.fileno())], theirs)
        finally:
            theirs.close()
        try:
            self._connection.settimeout(_START_SECONDS)
            send_message(self._connection, settings)
            kind, content = receive_message(self._connection)
        except (OSError, EOFError) as error:
            self.close()
            raise SandboxError(f"a worker of the sandbox ended while starting ({error})") from None
        if kind != "ready":
            self.close()
            raise SandboxError(str(content))
        self.tier: int = content

    def send(self, tasks: Sequence[Task]) -> None:
        send_message(self._connection, tasks)

    def receive(self, seconds: float) -> list[tuple[int, Outcome]]:
        self._connection.settimeout(seconds)
        outcomes: list[tuple[int, Outcome]] = receive_message(self._connection)
        return outcomes

    def hang_up(self) -> None:
        """Tell the supervisor to end; it kills what runs."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, wait, and kill what does not leave."""
        self.hang_up()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._connection.close()
        remove_groups_of(self._process.pid)


class Sandbox(ProgramRunner):
    """Judges programs in separate, limited processes.

    Workers start at once; close it, or use it as a context manager, to end them. All methods may be called
    from any thread.

    Args:
        num_workers: programs that run at the same time.
        memory_bytes: most memory one program may use.
        output_bytes: longest standard output, and longest file, of one program.
        work_bytes: most that all files of one program may take together.
        tier: 0 (system-call filter and file rules), 1 (namespaces besides) or 2 (cgroup besides); ``None``
            takes the highest that works here.
        packages: names of installed packages that programs may import besides the standard library.
        allow_weak: run even where tier 0 cannot be had. Programs can then read and write this user's files.
        temporary_folder: where work folders are made; ``None`` for the system's.

    Raises:
        SandboxError: if a worker cannot start, with the reason.
    """

    def __init__(
        self,
        num_workers: int = 2,
        memory_bytes: int = 512 << 20,
        output_bytes: int = 16 << 20,
        work_bytes: int = 64 << 20,
        tier: int | None = None,
        packages: Sequence[str] = (),
        allow_weak: bool = False,
        temporary_folder: str | None = None,
    ) -> None:
        if num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, got {num_workers}")
        if tier is not None and tier not in TIERS:
            raise SandboxError(f"tier {tier} is unknown: the tiers are {sorted(TIERS)}, None for the best one")
        found = find_packages(packages)
        self._folder = tempfile.mkdtemp(prefix="lit_rl-", dir=temporary_folder)
        os.chmod(self._folder, 0o711)  # programs may run as another user
        zygote = ZygoteSettings(
            memory_bytes=memory_bytes,
            output_bytes=output_bytes,
            work_bytes=work_bytes,
            tier=tier,
            allow_weak=allow_weak,
            packages=tuple(path for paths in found.values() for path in paths),
            imports=tuple(found),
            temporary_folder=self._folder,
        )
        self._settings = Settings(
            zygote, tuple(os.path.abspath(path) for path in sys.path if os.path.exists(path or "."))
        )
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._changed = threading.Condition()
        self._closed = False
        self._workers: list[_Worker | None] = []
        try:
            for _ in range(num_workers):
                self._workers.append(_Worker(self._settings))
        except BaseException:
            self._close_workers()
            raise
        self.tier = self._workers[0].tier if self._workers[0] else WEAK
        _log.info("sandbox: %d workers, tier %d: %s", num_workers, self.tier, TIERS[self.tier])
        self._threads = [
            threading.Thread(target=self._serve, args=(slot,), name=f"sandbox-{slot}", daemon=True)
            for slot in range(num_workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, program: str, check: Check) -> Future[Outcome]:
        """Have one program judged; returns at once.

        Raises:
            SandboxError: if the sandbox is closed.
        """
        return self._enqueue([_Waiting(program, check)])[0].future

    def judge_many(self, programs: Iterable[tuple[str, Check]], deadline_seconds: float | None = None) -> list[Outcome]:
        """Have all judged; one outcome each, in order.

        Args:
            programs: programs with their checks.
            deadline_seconds: wall seconds after which what is left becomes ``infrastructure_failure``. By
                default what the checks' own limits can add up to, and some grace.
        """
        waiting = self._enqueue([_Waiting(program, check) for program, check in programs])
        if deadline_seconds is None:
            total = sum(item.budget_seconds for item in waiting)
            deadline_seconds = 2 * total / len(self._threads) + 2 * _GRACE_SECONDS
        deadline = time.monotonic() + deadline_seconds
        outcomes = []
        for item in waiting:
            try:
                outcomes.append(item.future.result(max(0.0, deadline - time.monotonic())))
            except TimeoutError:
                item.future.cancel()
                outcomes.append(_failure(f"not judged within the batch's {deadline_seconds:.0f} seconds"))
        return outcomes

    def close(self) -> None:
        """End all workers; what was not judged yet becomes ``infrastructure_failure``."""
        with self._changed:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for item in left:
            item.resolve(_failure("the sandbox was closed"))
        for worker in self._workers:
            if worker is not None:
                worker.hang_up()
        for thread in self._threads:
            thread.join(20)
        self._close_workers()

    def _close_workers(self) -> None:
        for slot, worker in enumerate(self._workers):
            if worker is not None:
                worker.close()
                self._workers[slot] = None
        if os.path.isdir(self._folder):  # what workers that were killed left
            empty_folder(self._folder)
            os.rmdir(self._folder)

    def _enqueue(self, items: list[_Waiting]) -> list[_Waiting]:
        with self._changed:
            if self._closed:
                raise SandboxError("the sandbox is closed; make a new one")
            self._waiting.extend(items)
            self._changed.notify_all()
        return items

    def _take(self) -> list[_Waiting]:
        """A few programs at a time, so that a worker need not wait for this thread between them."""
        with self._changed:
            while True:
                if self._closed:
                    return []
                share = max(1, min(_CHUNK, len(self._waiting) // (2 * len(self._threads))))
                taken: list[_Waiting] = []
                while self._waiting and len(taken) < share and not (taken and self._waiting[0].alone):
                    item = self._waiting.popleft()
                    if item.start():
                        taken.append(item)
                    if item.alone:
                        break
                if taken:
                    return taken
                self._changed.wait()

    def _serve(self, slot: int) -> None:
        """One thread per worker: hand out programs, collect outcomes, replace the worker when it is lost."""
        while items := self._take():
            items = [item for item in items if item.pack()]
            try:
                self._judge_chunk(slot, items)
            except (OSError, EOFError, SandboxError) as error:
                self._replace(slot, items, error)
        worker, self._workers[slot] = self._workers[slot], None
        if worker is not None:
            worker.close()

    def _judge_chunk(self, slot: int, items: list[_Waiting]) -> None:
        """Judge ``items``, removing each when its outcome is there."""
        worker = self._workers[slot]
        if worker is None:
            worker = self._workers[slot] = _Worker(self._settings)
        worker.send([Task(i, item.program, item.packed) for i, item in enumerate(items)])
        expected = 0
        while items:
            for number, outcome in worker.receive(items[0].budget_seconds + _GRACE_SECONDS):
                if number != expected:
                    raise EOFError(f"the worker answered program {number} where {expected} was due")
                expected += 1
                items.pop(0).resolve(outcome)

    def _replace(self, slot: int, items: list[_Waiting], error: BaseException) -> None:
        """Drop a lost worker. The first program without an outcome is tried once more, those behind it too.

        Which one it was that ran is certain only for a program alone, so from now on each of them is.
        """
        worker, self._workers[slot] = self._workers[slot], None
        if worker is not None:
            worker.close()
        if self._closed:
            for item in items:
                item.resolve(_failure("the sandbox was closed"))
            return
        _log.warning("a sandbox worker was lost (%s: %s) and is replaced", type(error).__name__, error)
        suspect = items[0]
        suspect.losses += suspect.alone or len(items) == 1
        if suspect.losses > 1:
            items.pop(0).resolve(_failure(f"the worker was lost twice with this program: {error}"))
        for item in items:
            item.alone = True
        with self._changed:
            self._waiting.extendleft(reversed(items))
            self._changed.notify_all()


def _failure(message: str) -> Outcome:
    return Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr=message)
