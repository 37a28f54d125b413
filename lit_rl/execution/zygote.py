"""The zygote: a small process that forks one child per program and sees nothing of its content.

One zygote per worker, exec'd fresh with an empty environment. Programs, inputs and results pass it as sealed
descriptors that it never reads; it knows numbers only: limits, exit statuses, CPU seconds. It ends when its
control socket hangs up, also while a child runs, and takes the child with it.
"""

from __future__ import annotations

import _sitebuiltins
import _socket
import builtins
import contextlib
import gc
import json
import mmap
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from lit_rl.execution import child
from lit_rl.execution.isolation import isolate
from lit_rl.execution.kernel import PR_SET_NAME as _PR_SET_NAME
from lit_rl.execution.kernel import PR_SET_PDEATHSIG as _PR_SET_PDEATHSIG
from lit_rl.execution.kernel import libc
from lit_rl.execution.seccomp import Filter
from lit_rl.execution.visible_files import import_folders
from lit_rl.execution.warm_up import warm_up
from lit_rl.execution.work_folder import empty_folder, folder_is_full

# Children, whether they execute a compiled program, CPU seconds of a case and in all, wall seconds.
REQUEST = struct.Struct("=iiddd")
# Per child: exit status as of waitpid, CPU seconds, largest resident bytes; for all: what ended them, wall.
CHILD_REPORT = struct.Struct("=idq")
REPORT = struct.Struct("=id")
DESCRIPTORS = 5  # stdin, stdout, stderr, job, channel
_ABOVE_JOBS = 32  # where the zygote keeps its own, so that a job's arrive at the numbers they will have
FINISHED, OUT_OF_CPU, OUT_OF_WALL, STOPPED, DISK_FULL = range(5)
STOP = b"stop"
_DESCRIPTOR = struct.Struct("=i")
_CASE = struct.Struct("=qd")
# What programs and tests import most; a fork shares what is loaded, and pays for its page tables.
_PRELOADED = (
    "lit_rl.execution.grader",
    "lit_rl.execution.serve",
    *("bisect", "collections", "copy", "functools", "heapq", "itertools", "json", "math", "operator"),
    *("random", "re", "string", "threading", "typing"),
)
_POLL_SECONDS = 0.05


class Zygote:
    """Forks, watches and reaps.

    Args:
        control: socket to the supervisor; one packet a job.
        work_folder: where programs run; empty again after each.
        filters: what each child installs: for Python, for compiled programs. ``None`` only where weak
            isolation was asked for.
        work_bytes: size at which the work folder is too full, where nothing but looking limits it.
        own_groups: children may make processes; each gets a process group, killed whole.
        is_first: this is the first process of its namespace; the kernel ends the others with it.
    """

    def __init__(
        self,
        control: _socket.socket,
        work_folder: str,
        filters: Sequence[Filter | None],
        work_bytes: int | None,
        own_groups: bool,
        is_first: bool,
    ) -> None:
        self.control = control
        self.case = mmap.mmap(-1, mmap.PAGESIZE)
        self.work_folder = work_folder
        self.filters = filters
        self.work_bytes = work_bytes
        self.own_groups = own_groups
        self.is_first = is_first
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def serve(self) -> None:
        """Jobs until the supervisor hangs up."""
        while True:
            header, descriptors = self._receive()
            if not header:
                return
            if header == STOP:  # meant for a job that ended by itself meanwhile
                continue
            num_children, compiled, case_seconds, cpu_seconds, wall_seconds = REQUEST.unpack(header)
            _CASE.pack_into(self.case, 0, 0, 0.0)
            started = time.monotonic()
            pids = []
            for index in range(num_children):
                own = descriptors[index * DESCRIPTORS : (index + 1) * DESCRIPTORS]
                pids.append(self._fork(own, cpu_seconds, self.filters[compiled]))
            for descriptor in descriptors:
                os.close(descriptor)
            report = self._watch(pids, case_seconds, cpu_seconds, started + wall_seconds, started)
            empty_folder(self.work_folder)
            if not _tell(self.control, report):
                return

    def _receive(self) -> tuple[bytes, list[int]]:
        descriptors: list[int] = []
        try:
            header, ancillary, _, _ = self.control.recvmsg(REQUEST.size, _socket.CMSG_SPACE(4 * 20))
        except OSError:
            return b"", []
        for _, kind, data in ancillary:
            if kind == _socket.SCM_RIGHTS:
                descriptors += [number for (number,) in _DESCRIPTOR.iter_unpack(data)]
        if descriptors != list(range(len(descriptors))):
            raise RuntimeError(f"a job's descriptors came as {descriptors}, not in the lowest places")
        return header, descriptors

    def _fork(self, descriptors: list[int], cpu_seconds: float, system_calls: Filter | None) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                self._become_program(descriptors, cpu_seconds, system_calls)
            finally:
                os._exit(70)
        return pid

    def _become_program(self, descriptors: list[int], cpu_seconds: float, system_calls: Filter | None) -> NoReturn:
        # Every page of memory touched here is copied: what is left out makes programs start sooner.
        if not self.is_first:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if descriptors[0]:  # of a second child; a first one's are in their places
            for target, source in enumerate(descriptors):
                os.dup2(source, target)
        os.closerange(DESCRIPTORS, 1 << 16)
        whole = int(cpu_seconds) + 2
        resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))
        if self.own_groups:
            os.setsid()
        if system_calls is not None:
            system_calls.install()
        case = self.case

        def note_case(index: int) -> None:
            _CASE.pack_into(case, 0, index, time.process_time())

        child.run_job(note_case)

    def _watch(
        self, pids: list[int], case_seconds: float, cpu_seconds: float, deadline: float, started: float
    ) -> bytes:
        """Wait for the first child; kill all at a limit or a hang-up. Returns the report."""
        poll = self._poll
        watched = os.pidfd_open(pids[0])
        poll.register(watched, select.POLLIN)
        cause, pause = FINISHED, min(case_seconds, cpu_seconds)
        while True:
            if self.work_bytes is not None:
                pause = min(pause, _POLL_SECONDS)
            events = poll.poll(max(1.0, 1000 * min(pause, deadline - time.monotonic())))
            if any(descriptor == watched for descriptor, _ in events):
                break
            if events:  # while a job runs only STOP is sent; or the supervisor hung up
                self.control.recv(len(STOP))
                cause = STOPPED
                break
            pause = self._cpu_left(pids, case_seconds, cpu_seconds)
            if pause <= 0:
                cause = OUT_OF_CPU
                break
            if self.work_bytes is not None and folder_is_full(self.work_folder, self.work_bytes):
                cause = DISK_FULL
                break
            if time.monotonic() >= deadline:
                cause = OUT_OF_WALL
                break
        poll.unregister(watched)
        os.close(watched)
        return self._reap(pids, cause, started)

    def _cpu_left(self, pids: list[int], case_seconds: float, cpu_seconds: float) -> float:
        """CPU seconds until the nearest limit, at least 10 ms while any is left."""
        used = sum(_cpu_clock(pid) for pid in pids)
        _index, began = _CASE.unpack_from(self.case, 0)
        # ``began`` is the program's own word, so it can stretch a case, never the sum of all.
        left = float(min(cpu_seconds - used, case_seconds - (used - began)))
        return max(left, 0.01) if left > 0 else left

    def _reap(self, pids: list[int], cause: int, started: float) -> bytes:
        parts = [REPORT.pack(cause, time.monotonic() - started)]
        for index, pid in enumerate(pids):
            if index or cause != FINISHED:
                os.kill(pid, signal.SIGKILL)
        if self.own_groups:
            self._kill_groups(pids)
        for pid in pids:
            _, status, usage = os.wait4(pid, 0)
            cpu = usage.ru_utime + usage.ru_stime
            parts.append(CHILD_REPORT.pack(status, cpu, usage.ru_maxrss * 1024))
        return b"".join(parts)

    def _kill_groups(self, pids: list[int]) -> None:
        """Kill and reap what the children started; they cannot leave their group."""
        for pid in pids:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            while True:  # orphans come to this process, which is their subreaper; the children themselves stay
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
                if found is None or found.si_pid in pids:
                    break
                os.waitpid(found.si_pid, 0)


def _tell(control: _socket.socket, message: bytes) -> bool:
    """Send to the supervisor; whether it still listens."""
    try:
        control.send(message)
    except OSError:
        return False
    return True


def _cpu_clock(pid: int) -> float:
    """CPU seconds of a process so far, from its kernel clock."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def main() -> None:
    """Entry point of the zygote's process: ``argv`` is the control descriptor and the settings as JSON."""
    control = _socket.socket(fileno=int(sys.argv[1]))
    settings = json.loads(sys.argv[2])
    libc.prctl(_PR_SET_NAME, b"lit_rl-zygote", 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        _load(settings)
        filters = isolate(settings)
    except Exception as error:
        _tell(control, f"failed: {error}"[:4000].encode())
        return
    # Credentials changed: the kernel forgot it.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    in_namespaces = settings["tier"] >= 1
    zygote = Zygote(
        _moved_up(control),
        os.getcwd(),
        filters,
        None if in_namespaces else settings["work_bytes"],
        bool(settings["executables"]),
        in_namespaces,
    )
    sys.argv[:] = [""]
    gc.collect()
    gc.freeze()
    errors = os.dup2(2, _ABOVE_JOBS + 1, inheritable=False)
    os.closerange(0, _ABOVE_JOBS)
    try:
        if _tell(zygote.control, b"ready"):
            zygote.serve()
    except Exception as error:  # by now 2 is a program's standard error
        os.write(errors, f"sandbox: zygote: {type(error).__name__}: {error}\n".encode())
        os._exit(1)


def _moved_up(control: _socket.socket) -> _socket.socket:
    return _socket.socket(fileno=os.dup2(control.detach(), _ABOVE_JOBS, inheritable=False))


def _load(settings: dict[str, Any]) -> None:
    """Import what programs often use, once, and set up what they expect of an interpreter."""
    os.environ.clear()
    os.environ.update(PATH="/usr/bin:/bin", LANG="C.UTF-8", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    # Hooks that threading and random want to run in every fork: a third of a millisecond, for a main thread
    # that is the same and a seed that is to be the same.
    os.register_at_fork = lambda **hooks: None
    for name in _PRELOADED:
        import_module(name)
    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")  # missing without site
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    sys.path[:] = [path for path in sys.path if path] + import_folders(settings["packages"])
    for name in settings["imports"]:
        import_module(name)
    # Our own modules may be kept compiled (parsing them leaves memory that every fork copies); a program's not.
    sys.dont_write_bytecode = True
    warm_up()
    sys.modules["random"].seed(0)  # the same for every program, so that verdicts can be repeated
