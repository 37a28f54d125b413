"""The clocks of a long job, in the supervisor, which alone can see all of them.

Two clocks end a program. One counts its CPU seconds, for each case. A case ends when its answer arrives; answers
cannot be taken back, so we need not ask the program how far it is. The other clock is for programs that sleep: it
counts the time in which none of the job's processes ran or waited for a core, so that neither a slow nor a crowded
machine ends a program that computes. All cases of a row share one allowance of sleep, besides a second for each case:
a wait that the kernel reports too late looks like sleep.

Each look at the clocks is also a look at the memory, because the kernel only limits address space, or private memory
that can be written to, and a program can hold other memory besides.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lit_rl.execution.interface import WALL_SLACK_SECONDS, wall_limit
from lit_rl.execution.zygote.zygote import MEMORY_IS_FULL, OUT_OF_CPU, OUT_OF_WALL

# Time spent waiting for a core counts up to this multiple of the CPU time used: this many programs may want one core.
_MAX_WAITING = 100.0
_WINDOW_SECONDS = 1.0
_MAX_PROCESSES, _MAX_THREADS = 64, 64
_CHUNK = 1 << 20
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass
class SleepTotal:
    """Seconds slept in the jobs of one program under one check, beyond the slack that each case has."""

    slept_seconds: float = 0.0


class JobWatch:
    """Watch over a job that takes longer than a moment.

    Args:
        case_seconds: CPU seconds of one case.
        num_cases: number of cases that the job answers, one line each.
        answers: memfd that the answers of several cases are written to.
        memory_bytes: most resident memory that one process may have.
        sleep_total: seconds slept in the program's jobs under one check; by default, this is the only job.
    """

    def __init__(
        self,
        case_seconds: float,
        num_cases: int,
        answers: int | None,
        memory_bytes: int,
        sleep_total: SleepTotal | None = None,
    ) -> None:
        self._case_seconds, self._memory_bytes = case_seconds, memory_bytes
        self._answers = _AnswerCounter(answers) if answers is not None and num_cases > 1 else None
        self._num_answers = 0
        self._charged = 0.0
        self._clocks: _ProcessClocks | None = None
        self._case_began = (0.0, 0.0)
        self._sleep_total = sleep_total or SleepTotal()
        self._slept_before = self._sleep_total.slept_seconds

    @property
    def is_watching(self) -> bool:
        """True if the job took long enough to be watched."""
        return self._clocks is not None

    def begin(self, processes: Sequence[int]) -> None:
        """Watch these processes, given by descriptors that are read now and not kept."""
        self._clocks = _ProcessClocks([pid for pid in map(_pid_of_pidfd, processes) if pid > 0])

    def pause(self) -> None:
        """Stop the clocks: the program now waits for the supervisor."""
        if self._clocks is not None:
            self._clocks.pause()

    def resume(self) -> None:
        if self._clocks is not None:
            self._clocks.resume()

    def charge_cpu_seconds(self, seconds: float) -> None:
        """Add CPU seconds that the supervisor spent for the program."""
        self._charged += seconds

    def exceeded_limit(self) -> int | None:
        """Return the limit that the job has exceeded, or ``None``."""
        if self._clocks is None:
            return None
        cpu, slept = self._clocks.cpu_and_slept_seconds()
        if self._clocks.max_resident_bytes() > self._memory_bytes:
            return MEMORY_IS_FULL
        cpu, slept = cpu - self._case_began[0], slept - self._case_began[1]
        if self._slept_before + slept > wall_limit(self._case_seconds):
            return OUT_OF_WALL
        self._sleep_total.slept_seconds = self._slept_before + max(0.0, slept - WALL_SLACK_SECONDS)
        if self._answers is not None and self._answers.count() > self._num_answers:
            # Clocks are read after counting: the running case began before, so it is never charged for another case.
            self._num_answers = self._answers.count()
            self._case_began, self._slept_before = self._clocks.cpu_and_slept_seconds(), self._sleep_total.slept_seconds
            return None
        return OUT_OF_CPU if self._charged + cpu > self._case_seconds else None

    def void_changed_answers(self) -> None:
        """Remove all answers if counted answers were changed later, which makes the clocks of the cases meaningless."""
        if self._answers is not None:
            self._answers.void_if_changed()


class _AnswerCounter:
    """Counter of the lines in a memfd that reads on from where the last look ended."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._num_bytes = self._num_lines = 0
        self._digest = hashlib.blake2b()

    def count(self) -> int:
        while chunk := os.pread(self._descriptor, _CHUNK, self._num_bytes):
            self._num_bytes += len(chunk)
            self._num_lines += chunk.count(b"\n")
            self._digest.update(chunk)
        return self._num_lines

    def void_if_changed(self) -> None:
        """Remove all lines if the part that was counted has changed."""
        if (
            self._num_bytes
            and hashlib.blake2b(os.pread(self._descriptor, self._num_bytes, 0)).digest() != self._digest.digest()
        ):
            os.ftruncate(self._descriptor, 0)


class _ProcessClocks:
    """CPU seconds of processes, and the seconds in which they neither ran nor waited for a core.

    The clocks are read in windows of about a second, because the kernel reports a wait only when it is over.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = list(pids)
        self._cpu_of: dict[int, float] = {}
        self._paused: float | None = None
        # Before this window: seconds slept in all, seconds slept in the last window, and seconds credited.
        self._slept = self._slept_last = self._credited = 0.0
        self._covered = 0.0  # seconds of this window in which a thread may have waited
        self._began = self._read_at = time.monotonic()
        self._cpu = self._first_cpu = self._total_cpu_seconds()
        self._waited = self._waited_before = self._thread_core_waits()

    def cpu_and_slept_seconds(self) -> tuple[float, float]:
        """Return the CPU seconds in total, and the seconds slept since the watch began."""
        now, cpu = time.monotonic(), self._total_cpu_seconds()
        ran = cpu - self._cpu
        claimed, longest = self._core_wait_seconds(now - self._read_at, ran)
        self._read_at = now
        asleep = max(0.0, now - self._began - ran)
        most = WALL_SLACK_SECONDS + _MAX_WAITING * (cpu - self._first_cpu) - self._credited
        credit = max(0.0, min(asleep + self._slept_last, most, max(longest, min(claimed, self._covered))))
        slept = self._slept + asleep - credit
        if now - self._began >= _WINDOW_SECONDS:
            self._slept, self._slept_last = slept, min(asleep, asleep + self._slept_last - credit)
            self._credited += credit
            self._began, self._cpu, self._waited_before, self._covered = now, cpu, self._waited, 0.0
        return cpu, slept

    def _core_wait_seconds(self, passed: float, ran: float) -> tuple[float, float]:
        """Return the most seconds of this window in which threads waited for other programs, and the longest wait.

        Time counts once, however many threads waited. While one of the job's own threads ran, the others may have
        waited for it. That time is deducted, so that threads gain no time by waking together.
        """
        alive = self._thread_core_waits()
        reported = _increase_by_thread(self._waited, alive)
        self._covered += min(sum(reported.values()), passed + max(reported.values(), default=0.0))
        self._waited = {**self._waited, **alive}
        waits = _increase_by_thread(self._waited_before, self._waited)
        others = max(0, sum(seconds > 0 or thread in alive for thread, seconds in waits.items()) - 1)
        return sum(waits.values()) - others * ran, max(waits.values(), default=0.0)

    def max_resident_bytes(self) -> int:
        """Return the memory of the process that holds most, whatever kind of memory that is."""
        most = 0
        for pid in self._cpu_of:
            with contextlib.suppress(OSError, ValueError, IndexError):
                most = max(most, int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]))
        return most * _PAGE_BYTES

    def pause(self) -> None:
        self._paused = time.monotonic()

    def resume(self) -> None:
        if self._paused is not None:
            paused = time.monotonic() - self._paused
            self._began, self._read_at = self._began + paused, self._read_at + paused
            self._paused = None

    def _total_cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes; a process that has ended keeps its last value."""
        for pid in _with_descendants(self._pids):
            with contextlib.suppress(OSError):
                self._cpu_of[pid] = time.clock_gettime(~pid << 3 | 2)
        return sum(self._cpu_of.values())

    def _thread_core_waits(self) -> dict[str, float]:
        """Return the seconds that each thread has waited for a core so far; empty if the kernel reports none."""
        waited = {}
        for pid in self._cpu_of:
            with contextlib.suppress(OSError, ValueError, IndexError):
                for thread in os.listdir(f"/proc/{pid}/task")[:_MAX_THREADS]:
                    reported = Path(f"/proc/{pid}/task/{thread}/schedstat").read_bytes()
                    waited[thread] = int(reported.split()[1]) / 1e9
        return waited


def _increase_by_thread(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Return the increase for each thread number; a number that another thread took over starts anew."""
    return {thread: max(0.0, total - before.get(thread, 0.0)) for thread, total in now.items()}


def _with_descendants(pids: Sequence[int]) -> list[int]:
    """Return processes and all processes that they started; only a compiler starts any."""
    found = list(pids)
    for pid in found:  # grows as we go
        with contextlib.suppress(OSError, ValueError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()
            found += [int(child) for child in children[: max(0, _MAX_PROCESSES - len(found))]]
    return found


def _pid_of_pidfd(descriptor: int) -> int:
    """Return the process id of a descriptor, in this process's namespace; -1 if the process is gone or unknown."""
    with contextlib.suppress(OSError):
        found = re.search(r"^Pid:\s*(-?\d+)", Path(f"/proc/self/fdinfo/{descriptor}").read_text(), re.MULTILINE)
        return int(found[1]) if found else -1
    return -1
