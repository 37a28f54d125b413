"""One job for the zygote: descriptors in, exit statuses out. Runs in the supervisor."""

from __future__ import annotations

import array
import contextlib
import marshal
import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lit_rl.execution.check_base import wall_limit
from lit_rl.execution.judging.compiled import CompilesPrograms
from lit_rl.execution.spawning import ZygoteSettings
from lit_rl.execution.wire.channel import Channel
from lit_rl.execution.wire.printable import printable
from lit_rl.execution.zygote.zygote import (
    FINISHED,
    LOOK_SECONDS,
    OUT_OF_CPU,
    OUT_OF_WALL,
    REPORT,
    REQUEST,
    STOP,
)

TAIL_BYTES = 4096
_SHORT_MILLISECONDS = 5
# A memfd of the program's may be as long as the output limit; more than this of it is never read.
_LONGEST_READ = 64 << 20


class ZygoteLost(Exception):
    """The zygote is gone; the worker has to be replaced."""


class Spent(NamedTuple):
    """How one child ended and what it used."""

    status: int
    cpu_seconds: float
    peak_bytes: int


class JobReport(NamedTuple):
    """How a job ended.

    Args:
        cause: ``FINISHED``, ``OUT_OF_CPU`` or ``OUT_OF_WALL``.
        wall_seconds: from the first fork to the end of the last child.
        children: in the order of the request.
    """

    cause: int
    wall_seconds: float
    children: tuple[Spent, ...]

    @property
    def timed_out(self) -> bool:
        """Whether a time limit ended it."""
        return self.cause in (OUT_OF_CPU, OUT_OF_WALL)


class Child:
    """Descriptors of one child: its job, its three standard streams, and a channel.

    Args:
        job: what ``child.run_job`` reads; builtin types only.
        stdin: bytes of its standard input, or ``None`` for the null device.
        channel: descriptor for the channel; by default a memfd that is read afterwards.
    """

    def __init__(self, job: dict[str, Any], stdin: bytes | None = None, channel: int | None = None) -> None:
        self.job = memfd(marshal.dumps(job))
        self.stdin = memfd(stdin) if stdin is not None else _null()
        self.stdout, self.stderr = memfd(), memfd()
        self.channel = memfd() if channel is None else channel

    @property
    def descriptors(self) -> tuple[int, ...]:
        """In the order in which the zygote expects them."""
        return (self.stdin, self.stdout, self.stderr, self.job, self.channel)

    def close_channel(self) -> None:
        """Close this side's copy of the channel's descriptor, once the child has its own."""
        os.close(self.channel)
        self.channel = -1

    def close(self) -> None:
        """Close all descriptors; with them the memory goes."""
        for descriptor in self.descriptors:
            if descriptor >= 0 and descriptor != _null():
                os.close(descriptor)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_whole(descriptor: int) -> bytes:
    """What a child wrote into a memfd."""
    size = min(os.fstat(descriptor).st_size, _LONGEST_READ)
    return os.pread(descriptor, size, 0) if size else b""


def read_tail(descriptor: int) -> str:
    """The last bytes of it, as text that is fit for a log."""
    size = os.fstat(descriptor).st_size
    if not size:
        return ""
    start = max(0, size - TAIL_BYTES)
    return printable(os.pread(descriptor, TAIL_BYTES, start).decode("utf-8", "replace"))


class ZygoteClient:
    """The supervisor's end of the control socket.

    Args:
        control: packet socket to the zygote.
        settings: the zygote's, for the limits.
        trainer: socket to the trainer, of which only a hang-up counts here (the next jobs may wait in it).
        trainer_process: descriptor that becomes readable when the trainer's process ends.
    """

    def __init__(self, control: socket.socket, settings: ZygoteSettings, trainer: int, trainer_process: int) -> None:
        self.control = control
        self.settings = settings
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self.compiler: CompilesPrograms | None = None
        self._number = 0
        self._runs_until: float | None = None  # while a job runs: when it is dead at the latest
        self.on_wait: Callable[[], None] = lambda: None  # called when a program takes longer than a moment
        self._hang_up = {trainer, trainer_process}
        self._poll.register(trainer, select.POLLRDHUP)
        self._poll.register(trainer_process, select.POLLIN)

    def start(
        self, children: Sequence[Child], case_seconds: float, num_cases: int = 1, compiled: bool = False
    ) -> float:
        """Have the children forked. Returns the monotonic time by which they are all dead."""
        self.abandon()
        cpu_seconds = case_seconds * num_cases
        wall_seconds = wall_limit(cpu_seconds)
        first_look = max(1, int(1000 * min(LOOK_SECONDS, case_seconds)))
        header = REQUEST.pack(
            self._number + 1, len(children), compiled, first_look, case_seconds, cpu_seconds, wall_seconds
        )
        rights = array.array("i", [fd for item in children for fd in item.descriptors])
        try:
            self.control.sendmsg([header], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        except OSError as error:
            raise ZygoteLost(str(error)) from None
        self._number += 1
        self._runs_until = time.monotonic() + wall_seconds
        return self._runs_until

    def finish(self, deadline: float, channel: Channel | None = None) -> JobReport | None:
        """Wait for the report of the job that runs, or for something to read in ``channel`` (``None``).

        Raises:
            ZygoteLost: if the zygote does not report in time.
            SystemExit: if nobody waits for the outcome any more.
        """
        if channel is not None:
            self._poll.register(channel.descriptor, select.POLLIN)
        try:
            events = self._poll.poll(_SHORT_MILLISECONDS)
            if not events:
                self.on_wait()
                events = self._poll.poll(max(1.0, 1000 * (deadline + 20 - time.monotonic())))
        finally:
            if channel is not None:
                self._poll.unregister(channel.descriptor)
        if not events:
            raise ZygoteLost("the zygote does not answer")
        ready = {descriptor for descriptor, _ in events}
        if ready & self._hang_up:
            raise SystemExit(0)
        if channel is not None and channel.descriptor in ready:
            return None
        return self._report()

    def run(
        self, children: Sequence[Child], case_seconds: float, num_cases: int = 1, compiled: bool = False
    ) -> JobReport:
        """Fork, wait, report."""
        report = self.finish(self.start(children, case_seconds, num_cases, compiled))
        assert report is not None
        return report

    def stop(self) -> None:
        """Have the job that runs killed; its report follows."""
        with contextlib.suppress(OSError):
            self.control.send(STOP)

    def abandon(self) -> None:
        """Kill the job that runs, if one still does, and take its report: the next job must not be judged by it.

        Raises:
            ZygoteLost: if the zygote does not report in time.
        """
        if self._runs_until is not None:
            self.stop()
            self.finish(self._runs_until)

    def _report(self) -> JobReport:
        data = self.control.recv(4096)
        if not data or len(data) % REPORT.size:
            raise ZygoteLost("the zygote is gone")
        parts = list(REPORT.iter_unpack(data))
        if any(part[0] != self._number for part in parts):
            raise ZygoteLost(f"the zygote reported on job {parts[0][0]} where {self._number} was running")
        self._runs_until = None
        spent = tuple(Spent(status, cpu, peak * 1024) for _, _, _, status, cpu, peak in parts)
        return JobReport(parts[0][1], parts[0][2], spent)


def memfd(content: bytes | None = None) -> int:
    """A file in memory with this content, read from its start."""
    # Without permission to seal: a program must not be able to freeze a descriptor of ours.
    descriptor = os.memfd_create("lit_rl", os.MFD_CLOEXEC)
    if content:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


_NULL: list[int] = []


def _null() -> int:
    if not _NULL:
        _NULL.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    return _NULL[0]


__all__ = [
    "FINISHED",
    "OUT_OF_CPU",
    "OUT_OF_WALL",
    "Child",
    "JobReport",
    "Spent",
    "ZygoteClient",
    "ZygoteLost",
]
