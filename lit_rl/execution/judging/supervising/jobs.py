"""Jobs for the zygote: the supervisor sends descriptors, and gets exit statuses."""

from __future__ import annotations

import array
import contextlib
import itertools
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from lit_rl.execution.judging.supervising.child_files import ChildFiles
from lit_rl.execution.judging.supervising.watching import JobWatch, SleepTotal
from lit_rl.execution.spawning import IsolationError, ZygoteSettings, start_zygote
from lit_rl.execution.zygote.zygote import (
    CLEAN,
    FINISHED,
    LOOK_SECONDS,
    MEMORY_IS_FULL,
    OUT_OF_CPU,
    OUT_OF_WALL,
    REPORT,
    REQUEST,
    STOP,
    STOPPED,
    WATCH,
)

_ANSWER_SECONDS = 30.0  # within which the zygote must say something, also on a crowded machine
_OF_THE_KERNEL = (signal.SIGKILL, signal.SIGXCPU)  # signals by which the kernel ends a process over a limit
_numbers = itertools.count(1)


class ZygoteLost(Exception):
    """The zygote is gone; the worker has to be replaced."""


@contextlib.contextmanager
def _errors_as_zygote_lost() -> Iterator[None]:
    try:
        yield
    except (OSError, IsolationError) as error:
        raise ZygoteLost(str(error)) from None


class KilledFromOutside(Exception):
    """A process of a job was killed, but neither by us nor by a limit: its end says nothing about the program."""


class ChildUsage(NamedTuple):
    """Status and resource use of a child that ended; ``was_stopped`` if the supervisor killed it."""

    status: int
    cpu_seconds: float
    peak_bytes: int
    was_stopped: bool = False


class JobReport(NamedTuple):
    """Result of a job: why it ended, wall seconds from the first fork to the last child's end, and the children."""

    cause: int
    wall_seconds: float
    children: tuple[ChildUsage, ...]

    @property
    def timed_out(self) -> bool:
        return self.cause in (OUT_OF_CPU, OUT_OF_WALL)


class _RunningJob:
    """The running job: its number, its watch, and the time by which the zygote must have answered."""

    def __init__(self, watch: JobWatch, cpu_seconds: float) -> None:
        self.cpu_seconds = cpu_seconds
        self.number = next(_numbers) & 0x7FFFFFFF
        self.watch = watch
        now = time.monotonic()
        self.answer_by = now + _ANSWER_SECONDS
        self.next_word, self.next_look = now + LOOK_SECONDS, 0.0
        self.is_stopped = False


class ZygoteClient:
    """Client that starts a zygote, runs jobs in it, and replaces the zygote when it can run no further jobs."""

    compiler: Any  # a ``Compiler`` and ``CheckerRunner``, which import this file; only a client for Python has them
    checkers: Any

    def __init__(self, settings: ZygoteSettings, trainer: int, trainer_process: int) -> None:
        self._zygote = start_zygote(settings)
        self.settings = settings._replace(tier=self._zygote.tier)
        self.on_wait: Callable[[], None] = lambda: None  # called regularly while a program runs
        self.on_report: Callable[[], None] = lambda: None  # called before what programs wrote is read
        self.on_renewal: Callable[[], None] = lambda: None  # called before a worn zygote is replaced
        self._is_worn = False
        self._job: _RunningJob | None = None
        self._poll = select.poll()
        self._poll.register(self._zygote.control, select.POLLIN)
        self._hang_up = {trainer, trainer_process}
        self._poll.register(trainer, select.POLLRDHUP)
        self._poll.register(trainer_process, select.POLLIN)

    def start(
        self,
        children: Sequence[ChildFiles],
        case_seconds: float,
        num_cases: int = 1,
        compiled: bool = False,
        sleep_total: SleepTotal | None = None,
    ) -> None:
        """Fork the children, in another zygote if this one cannot clean up any more; ``wait_for_report`` must follow.

        Args:
            children: one or two.
            case_seconds: CPU seconds of one case.
            num_cases: number of cases in the job; if several, each answer is a line in the first child's channel.
            compiled: the children execute a compiled program.
            sleep_total: seconds slept in all of the program's jobs under one check, if there are several jobs.
        """
        self.kill_and_drain_job()
        if self._is_worn:
            self.on_renewal()
            worn = self._zygote
            with _errors_as_zygote_lost():
                self._zygote = start_zygote(self.settings)
            self._poll.unregister(worn.control)
            self._poll.register(self._zygote.control, select.POLLIN)
            self._is_worn = False
            worn.close()  # only now: removing the last folder in the sandbox's own removes that, too
        watch = JobWatch(case_seconds, num_cases, children[0].answers, self.settings.memory_bytes, sleep_total)
        self._job = _RunningJob(watch, case_seconds * num_cases)
        first_look = max(1, int(1000 * min(LOOK_SECONDS, case_seconds)))
        header = REQUEST.pack(self._job.number, len(children), compiled, first_look, self._job.cpu_seconds)
        rights = array.array("i", [fd for item in children for fd in item.descriptors])
        with _errors_as_zygote_lost():
            self._zygote.control.sendmsg([header], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def wait_for_report(self, channel: int | None = None, events: int = select.POLLIN) -> JobReport | None:
        """Wait for the report of the running job; return ``None`` if one of ``events`` of ``channel`` comes first."""
        job = self._job
        assert job is not None
        job.watch.resume()
        if channel is not None:
            self._poll.register(channel, events)
        try:
            while True:
                ready = {descriptor for descriptor, _ in self._poll.poll(1000 * LOOK_SECONDS)}
                if ready & self._hang_up:
                    raise SystemExit(0)
                if self._zygote.control.fileno() in ready and (report := self._receive(job)) is not None:
                    return report
                self._enforce_limits(job)
                if channel is not None and channel in ready:
                    return None
        finally:
            if channel is not None:
                self._poll.unregister(channel)
            job.watch.pause()

    def run(
        self,
        children: Sequence[ChildFiles],
        case_seconds: float,
        num_cases: int = 1,
        compiled: bool = False,
        sleep_total: SleepTotal | None = None,
    ) -> JobReport:
        self.start(children, case_seconds, num_cases, compiled, sleep_total)
        report = self.wait_for_report()
        assert report is not None
        return report

    def charge_cpu_seconds(self, seconds: float) -> None:
        """Charge the running program for CPU seconds that this process spent on it."""
        if self._job is not None:
            self._job.watch.charge_cpu_seconds(seconds)

    def stop(self, cause: int = STOPPED) -> None:
        """Kill the running job; its report follows."""
        if self._job is not None and not self._job.is_stopped:
            self._job.is_stopped, self._job.answer_by = True, time.monotonic() + _ANSWER_SECONDS
            with contextlib.suppress(OSError):
                self._zygote.control.send(STOP.pack(self._job.number, cause))

    def kill_and_drain_job(self) -> None:
        """Kill the running job, if any, and read its report, so that the next job does not get it."""
        if self._job is not None:
            self.stop()
            self.wait_for_report()

    def close(self) -> None:
        self._zygote.close()

    def _enforce_limits(self, job: _RunningJob) -> None:
        """Stop a job that is over a limit; give up on a zygote that does not answer."""
        now = time.monotonic()
        if now >= job.next_word:
            job.next_word = now + LOOK_SECONDS
            self.on_wait()
        if job.watch.is_watching and not job.is_stopped:
            if now >= job.next_look:
                job.next_look = now + LOOK_SECONDS
                cause = job.watch.exceeded_limit()
                if cause is not None:
                    self.stop(cause)
        elif now > job.answer_by:
            raise ZygoteLost("the zygote does not answer")

    def _receive(self, job: _RunningJob) -> JobReport | None:
        """Receive a packet of the zygote: the job's report, or the descriptors by which to watch the job."""
        with _errors_as_zygote_lost():
            data, descriptors, _, _ = socket.recv_fds(self._zygote.control, 4096, 2)
        try:
            if not data:
                raise ZygoteLost("the zygote is gone")
            if len(data) == WATCH.size:
                if WATCH.unpack(data) == (job.number,):
                    job.watch.begin(descriptors)
                return None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        parts = list(REPORT.iter_unpack(data[:-1]))
        self._is_worn = data[-1:] != CLEAN
        if parts[0][0] != job.number:
            return None
        self._job = None
        self.on_report()
        children = tuple(ChildUsage(status, cpu, peak * 1024, bool(ours)) for *_, status, cpu, peak, ours in parts)
        job.watch.void_changed_answers()
        return JobReport(self._cause_of_end(parts[0][1], job, children), parts[0][2], children)

    def _cause_of_end(self, cause: int, job: _RunningJob, children: Sequence[ChildUsage]) -> int:
        """Return the cause of a job's end; look for a limit if something other than the zygote killed a child."""
        ended = [spent for spent in children if spent.status & 0x7F in _OF_THE_KERNEL and not spent.was_stopped]
        if not ended or cause != FINISHED:
            return cause
        if sum(spent.cpu_seconds for spent in children) >= job.cpu_seconds:
            return OUT_OF_CPU  # by the kernel's limit, which backs up ours
        killed = [spent for spent in ended if spent.status & 0x7F == signal.SIGKILL]
        if not killed or any(spent.peak_bytes > self.settings.memory_bytes for spent in killed):
            return cause
        if self._zygote.group is not None and self._zygote.group.has_hit_memory_limit():
            return MEMORY_IS_FULL
        raise KilledFromOutside
