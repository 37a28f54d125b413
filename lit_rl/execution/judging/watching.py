"""The clocks of a job that takes longer than a moment. Runs in the supervisor, which alone can see them all.

Two clocks end a program. One counts its CPU seconds. The other is for programs that sleep: it counts the time in
which none of the job's processes ran or waited for a core, so that neither a slow nor a crowded machine ends a
program that computes. Both hold for each case. A case ends when its answer is there; answers cannot be taken back,
so we need not ask the program how far it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from lit_rl.execution.check_base import WALL_SLACK_SECONDS, wall_limit
from lit_rl.execution.zygote.zygote import OUT_OF_CPU, OUT_OF_WALL

# Time spent waiting for a core counts up to this many times the CPU time used: this many may want one core.
_MOST_WAITING = 100.0
_MOST_PROCESSES, _MOST_THREADS = 64, 64
_CHUNK = 1 << 20


class Watch:
    """Watches a job that takes longer than a moment.

    Args:
        case_seconds: CPU seconds of one case.
        num_cases: cases that the job answers, one line each.
        answers: memfd that the answers are written to; ``None`` if they are not counted.
    """

    def __init__(self, case_seconds: float, num_cases: int, answers: int | None) -> None:
        self._case_seconds, self._num_cases = case_seconds, num_cases
        self._answers = _AnswerCount(answers) if answers is not None and num_cases > 1 else None
        self._num_answers = 0
        self._charged = 0.0
        self._clocks: _Clocks | None = None
        self._case_began = (0.0, 0.0)

    @property
    def has_begun(self) -> bool:
        """Whether the job took long enough to be watched."""
        return self._clocks is not None

    def begin(self, processes: Sequence[int]) -> None:
        """Watch these processes, given by descriptors that are read now and not kept."""
        self._clocks = _Clocks([pid for pid in map(_pid_of, processes) if pid > 0])

    def leave(self) -> None:
        """Stop the clocks: from now on the program waits for us."""
        if self._clocks is not None:
            self._clocks.pause()

    def come_back(self) -> None:
        """Start the clocks again after ``leave``."""
        if self._clocks is not None:
            self._clocks.resume()

    def charge(self, seconds: float) -> None:
        """Add CPU seconds that the supervisor spent for the program."""
        self._charged += seconds

    def look(self) -> int | None:
        """The limit that the job has exceeded, or ``None``."""
        if self._clocks is None:
            return None
        cpu, slept = self._clocks.read()
        if slept > wall_limit(self._case_seconds * self._num_cases):
            return OUT_OF_WALL
        if self._answers is not None and self._answers.count() > self._num_answers:
            # Read after counting: the running case began before, so it is never charged for time of another.
            self._num_answers = self._answers.count()
            self._case_began = self._clocks.read()
            return None
        if self._charged + cpu - self._case_began[0] > self._case_seconds:
            return OUT_OF_CPU
        return OUT_OF_WALL if slept - self._case_began[1] > wall_limit(self._case_seconds) else None

    def answers_were_changed(self) -> bool:
        """Whether counted answers were changed later, which makes the clocks of the cases meaningless.

        No answer of such a job is worth anything, so all are removed.
        """
        if self._answers is None or not self._answers.were_changed():
            return False
        self._answers.remove()
        return True


class _AnswerCount:
    """Counts the lines in a memfd, reading on from where the last look ended."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._num_bytes = self._num_lines = 0
        self._digest = hashlib.blake2b()

    def count(self) -> int:
        """Whole lines so far."""
        while chunk := os.pread(self._descriptor, _CHUNK, self._num_bytes):
            self._num_bytes += len(chunk)
            self._num_lines += chunk.count(b"\n")
            self._digest.update(chunk)
        return self._num_lines

    def were_changed(self) -> bool:
        """Whether the part that was counted has changed."""
        again, position = hashlib.blake2b(), 0
        while position < self._num_bytes:
            chunk = os.pread(self._descriptor, min(_CHUNK, self._num_bytes - position), position)
            if not chunk:
                return True
            again.update(chunk)
            position += len(chunk)
        return again.digest() != self._digest.digest()

    def remove(self) -> None:
        """Remove all lines."""
        os.ftruncate(self._descriptor, 0)


class _Clocks:
    """CPU seconds of processes, and the seconds in which they neither ran nor waited for a core."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = list(pids)
        self._cpu: dict[int, float] = {}
        self._waited: dict[str, float] = {}
        self._began = time.monotonic()
        self._paused: float | None = None
        self._first = (0.0, 0.0)
        self._first = self._read_now()

    def read(self) -> tuple[float, float]:
        """CPU seconds in all, and seconds slept since the watch began."""
        cpu, waited = self._read_now()
        until = time.monotonic() if self._paused is None else self._paused
        ran, waited = cpu - self._first[0], waited - self._first[1]
        believed = min(waited, WALL_SLACK_SECONDS + _MOST_WAITING * cpu)
        return cpu, until - self._began - ran - believed

    def pause(self) -> None:
        self._paused = time.monotonic()

    def resume(self) -> None:
        if self._paused is not None:
            self._began += time.monotonic() - self._paused
            self._paused = None

    def _read_now(self) -> tuple[float, float]:
        """CPU and waiting seconds of all processes; one that has ended keeps its last values."""
        for pid in _with_descendants(self._pids):
            with contextlib.suppress(OSError):
                self._cpu[pid] = time.clock_gettime(~pid << 3 | 2)
            with contextlib.suppress(OSError, ValueError, IndexError):  # no such file on some kernels
                for thread in os.listdir(f"/proc/{pid}/task")[:_MOST_THREADS]:
                    told = Path(f"/proc/{pid}/task/{thread}/schedstat").read_bytes()
                    self._waited[thread] = int(told.split()[1]) / 1e9
        return sum(self._cpu.values()), sum(self._waited.values())


def _with_descendants(pids: Sequence[int]) -> list[int]:
    """Processes and all that they started, which only a compiler does."""
    found = list(pids)
    for pid in found:  # grows as we go
        with contextlib.suppress(OSError, ValueError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()
            found += [int(child) for child in children[: max(0, _MOST_PROCESSES - len(found))]]
    return found


def _pid_of(descriptor: int) -> int:
    """The process of a descriptor, in this process's namespace; -1 if it is gone or unknown."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines():
            if line.startswith("Pid:"):
                return int(line.partition(":")[2])
    return -1
