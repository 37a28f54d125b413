"""Limits that the supervisor sets itself while it reads what a program wrote.

All code that reads such content is bounded; these limits are a reserve in case a bound was forgotten. They hold from
a program's report to the end of its judgement. Before the report, only our own tests are read, which may take what
they need.
"""

from __future__ import annotations

import contextlib
import resource
import select
import signal
import time
from collections.abc import Iterator

# On top of the 30 MiB or so that the process takes by itself.
_MEMORY_BYTES = 240 << 20
_USUAL_OUTPUT_BYTES = 16 << 20
_CPU_SECONDS, _GRACE_SECONDS = 10.0, 5.0
_TICK_SECONDS = 0.1
_hang_ups = select.poll()  # hang-ups of the trainer


class SupervisorTooSlow(BaseException):
    """Work that a program caused takes too much time. This is no ``Exception``, so no handler on the way catches it."""


class SupervisorLimits:
    """Limits on memory and CPU seconds of this process.

    When time is up, ``SupervisorTooSlow`` is raised. If that does not help within a while, because the interpreter is
    inside one long operation, the kernel ends the process with ``SIGPROF``.
    """

    def __init__(self, output_bytes: int) -> None:
        self._memory_bytes = _MEMORY_BYTES + 4 * max(0, output_bytes - _USUAL_OUTPUT_BYTES)
        self.has_content = self._is_bounded = False
        self._until = 0.0
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.signal(signal.SIGVTALRM, lambda *_: _raise_if_late(self._until))

    def start_limits(self) -> None:
        """Start the limits: from now on, this process reads what a program wrote."""
        self.has_content = True
        if not self._is_bounded:
            self._is_bounded = True
            with open("/proc/self/statm", "rb", buffering=0) as file:
                taken = int(file.read(64).split()[0]) * resource.getpagesize()
            _limit_memory(taken + self._memory_bytes)
        self._until = time.process_time() + _CPU_SECONDS
        signal.setitimer(signal.ITIMER_VIRTUAL, _TICK_SECONDS, _TICK_SECONDS)
        signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS + _GRACE_SECONDS)

    def stop_clocks(self) -> None:
        """Stop the clocks: later work has its own time."""
        if self.has_content:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            self.has_content = False

    def lift_memory_limit(self) -> None:
        """Lift the memory limit, once nothing that a program wrote is held any more."""
        if self._is_bounded:
            self._is_bounded = False
            _limit_memory(resource.RLIM_INFINITY)


def watch_for_hang_up(trainer: int, trainer_process: int) -> None:
    """End long work immediately, by ``SystemExit``, when the trainer hangs up."""
    _hang_ups.register(trainer, select.POLLRDHUP)
    _hang_ups.register(trainer_process, select.POLLIN)


@contextlib.contextmanager
def limit_cpu_seconds(seconds: float) -> Iterator[None]:
    """Raise ``SupervisorTooSlow`` once the block has taken ``seconds`` of CPU time; outer timers wait meanwhile."""
    is_inside = True
    until = time.process_time() + seconds
    before = signal.signal(signal.SIGVTALRM, lambda *_: _raise_if_late(until) if is_inside else None)
    first = max(1e-3, min(seconds, _TICK_SECONDS))
    outer = signal.setitimer(signal.ITIMER_VIRTUAL, first, _TICK_SECONDS)
    outer_of_kernel = signal.setitimer(signal.ITIMER_PROF, seconds + _GRACE_SECONDS)
    try:
        yield
    finally:
        is_inside = False
        signal.setitimer(signal.ITIMER_PROF, *outer_of_kernel)
        signal.setitimer(signal.ITIMER_VIRTUAL, *outer)
        signal.signal(signal.SIGVTALRM, before)


def _raise_if_late(until: float) -> None:
    """Raise past ``until`` CPU seconds of the process; exit if the trainer has hung up."""
    if _hang_ups.poll(0):
        raise SystemExit(0)
    if time.process_time() >= until:
        raise SupervisorTooSlow


def _limit_memory(num_bytes: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        num_bytes = hard if num_bytes == resource.RLIM_INFINITY else min(num_bytes, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (num_bytes, hard))
