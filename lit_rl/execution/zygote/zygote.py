"""The zygote: a small process that forks one child per program and sees nothing of its content.

Each worker has one zygote, executed afresh with an empty environment. Programs, inputs and results pass through it as
sealed descriptors that it never reads. It knows only numbers: limits, exit statuses, CPU seconds. It ends when its
control socket hangs up, even while a child runs, and takes the child with it.
"""

from __future__ import annotations

import _socket
import contextlib
import gc
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from lit_rl.execution.confinement.kernel import PR_SET_NAME as _PR_SET_NAME
from lit_rl.execution.confinement.kernel import PR_SET_PDEATHSIG as _PR_SET_PDEATHSIG
from lit_rl.execution.confinement.kernel import bare_prctl, fork, has_released_memory, libc, unblock_signals
from lit_rl.execution.confinement.limits import OPEN_FILES, error_with_remedy, is_shortage, require_open_files_limit
from lit_rl.execution.confinement.profile import ChildConfinement, confine_zygote
from lit_rl.execution.confinement.seccomp import SeccompFilter
from lit_rl.execution.grading.grader import grade, rehearse_tests
from lit_rl.execution.program_side import child
from lit_rl.execution.program_side.building import run_build_job
from lit_rl.execution.program_side.interpreter import prepare_interpreter, seed_all_random
from lit_rl.execution.program_side.serve import serve_program_to_tests
from lit_rl.execution.zygote.warm_up import warm_up_zygote
from lit_rl.execution.zygote.work_folder import clear_folder, folder_is_full

# Number of the job, number of children, whether they execute a compiled program, milliseconds until the first look at
# their clocks, CPU seconds in total.
REQUEST = struct.Struct("=iiiid")
# For each child: number of the job, what ended the job, the job's wall seconds; exit status as from waitpid, CPU
# seconds, largest resident KiB, whether the child ran until this process killed it. After the last child follows CLEAN,
# or LAST if this process is of no further use.
REPORT = struct.Struct("=iididqi")
CLEAN, LAST = b"\1", b"\0"
# In the other direction: number of the job that is to end, and why.
STOP = struct.Struct("=ii")
# Number of a job that takes longer than a moment, with descriptors of its processes: the supervisor watches it too.
WATCH = struct.Struct("=i")
DESCRIPTORS = 5  # stdin, stdout, stderr, job, channel
_END_DESCRIPTOR = 0  # the lowest free descriptor: while a child runs, it tells of the child's end
_ENDING_SECONDS = 1.0  # an exiting process is gone by then, even while others keep the cores busy
_ABOVE_JOBS = 32  # the zygote's own descriptors start here, so that a job's arrive at the numbers they keep
# Causes of a job's end; the last cause is for the supervisor to find out.
FINISHED, OUT_OF_CPU, OUT_OF_WALL, STOPPED, DISK_FULL, MEMORY_IS_FULL = range(6)
_MAX_RIGHTS = 4 * DESCRIPTORS
_IN_PLACE = struct.pack(f"={_MAX_RIGHTS}i", *range(_MAX_RIGHTS))
_REQUEST_BYTES, _RIGHTS_BYTES = REQUEST.size, _socket.CMSG_SPACE(len(_IN_PLACE))
# Modules that programs and tests import most. A fork shares loaded modules, but pays for their page tables.
_PRELOADED = (
    "lit_rl.execution.grading.grader",
    "lit_rl.execution.program_side.serve",
    *("bisect", "collections", "copy", "functools", "heapq", "itertools", "json", "math", "operator"),
    *("random", "re", "string", "threading", "typing"),
)
LOOK_SECONDS = 0.05
_SEED = 1  # for random numbers that a program draws without a seed
_CLEANING_SECONDS = 10.0

# Looked up once: following a name to its object writes to memory that every fork then copies.
_unpack, _pack, _now = REQUEST.unpack, REPORT.pack, time.monotonic
_SIGKILL = int(signal.SIGKILL)
_close, _close_all, _pidfd_open, _wait4, _stat = os.close, os.closerange, os.pidfd_open, os.wait4, os.stat


class Zygote:
    """Process that forks, watches and reaps the children of jobs.

    The cost of a small program is mostly memory that the kernel copies: after a fork, each page that is written is
    copied, here and in the child, and any use of a Python object writes its reference count. So a program that ends
    soon is handled by one function that touches few objects, and the rest is left to ``_wait_for_first_child``.
    """

    def __init__(self, control: _socket.socket, confined: ChildConfinement, settings: dict[str, Any]) -> None:
        self.control, self.confined = control, confined
        self.work_folder = os.getcwd()  # empty when each program begins
        # Above tier 0 this is the first process of its namespace: when it ends, the kernel ends the others. Its work
        # folder is in memory of limited size; elsewhere, only our looks at the folder limit its size.
        self.is_first = settings["tier"] >= 1
        self.work_bytes: int | None = None if self.is_first else settings["work_bytes"]
        self.renews_folder = self.is_first and not settings["reuses_folder"]
        self.own_groups = bool(settings["processes"])  # for children that may start processes, to be killed whole

    def serve(self) -> None:
        """Run jobs until the supervisor hangs up, or a program has used its work folder in memory."""
        self._reset_folder_time()
        receive, send = self.control.recvmsg, self.control.send
        poll = select.poll()
        poll.register(_END_DESCRIPTOR, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        wait = poll.poll
        own_groups, work_folder, renews_folder = self.own_groups, self.work_folder, self.renews_folder
        setups = [self._make_child_setup(item) for item in self.confined.filters]
        tasks, counted = self.confined.tasks, _now()
        stop_bytes, clean = STOP.size, CLEAN
        while True:
            try:
                header, rights, _, _ = receive(_REQUEST_BYTES, _RIGHTS_BYTES)
            except OSError:
                return
            if len(header) == stop_bytes:  # meant for a job that ended by itself meanwhile
                continue
            if not header:
                return
            number, num_children, compiled, moment, cpu_seconds = _unpack(header)
            assert rights[0][2] == _IN_PLACE[: 4 * DESCRIPTORS * num_children], rights
            began = _now()
            if tasks is not None and began - counted > 1.0:
                tasks.update()
                counted = began
            pids = []
            for first in range(0, DESCRIPTORS * num_children, DESCRIPTORS):
                pid = fork()
                if pid <= 0:
                    if pid:
                        raise OSError("could not start a process")
                    setups[compiled](first, cpu_seconds)
                pids.append(pid)
            _close_all(0, DESCRIPTORS * num_children)
            assert _pidfd_open(pids[0]) == _END_DESCRIPTOR, "a descriptor was left open"
            events = wait(moment)
            cause = FINISHED
            if not events or events[0][0] != _END_DESCRIPTOR:
                cause = self._wait_for_first_child(number, pids, poll, cpu_seconds)
            _close(_END_DESCRIPTOR)
            wall_seconds = _now() - began
            alive: list[int] = []
            if own_groups or num_children > 1 or cause != FINISHED:
                alive = self._kill_children(pids)
            report = b""
            for pid in pids:
                _, status, usage = _wait4(pid, 0)
                report += _pack(
                    number, cause, wall_seconds, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, pid in alive
                )
            try:
                if _stat(work_folder).st_mtime_ns:
                    if renews_folder:
                        return self._send_last_report(report)
                    clear_folder(work_folder, _CLEANING_SECONDS)
                    self._reset_folder_time()
                send(report + clean)
            except OSError:
                return self._send_last_report(report)
            # The next job finds the memory as this one found it, so each run of a program has the same addresses.
            del header, rights, number, pids, pid, events, wall_seconds, usage, status, report
            del cpu_seconds, began, alive

    def _send_last_report(self, report: bytes) -> None:
        """Report the end of a job that used its work folder, or whose files cannot be removed; wait for the hang-up.

        In memory, file numbers count up from the first file that was made, so the next program could read from them how
        many files this program made. The next program gets another file system, with another zygote.
        """
        _try_send(self.control, report + LAST)
        with contextlib.suppress(OSError):  # an unread order would reset the connection, and lose the report
            while self.control.recv(STOP.size):
                pass

    def _reset_folder_time(self) -> None:
        """Set the time of the work folder, which will change if anything is made or removed in the folder."""
        os.utime(self.work_folder, (0, 0))

    def _make_child_setup(self, own_filter: SeccompFilter | None) -> Callable[[int, float], NoReturn]:
        """Return the function that turns a child into a program, given the child's first descriptor and CPU seconds."""
        install = None if own_filter is None else own_filter.install
        limit_tasks = None if self.confined.tasks is None else self.confined.tasks.apply
        is_first, own_groups, run_job = self.is_first, self.own_groups, child.run_job

        def become_program(first: int, cpu_seconds: float) -> NoReturn:
            try:
                if not is_first:
                    bare_prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
                if first:  # the first child's descriptors have the right numbers already
                    for target in range(DESCRIPTORS):
                        os.dup2(first + target, target)
                _close_all(DESCRIPTORS, OPEN_FILES)
                if own_groups:
                    os.setsid()
                    _limit_cpu(0, cpu_seconds)  # inherited by the processes that it starts
                if limit_tasks is not None:
                    limit_tasks()
                if install is not None:
                    install()
                unblock_signals()
                run_job()
            finally:
                os._exit(70)

        return become_program

    def _wait_for_first_child(self, number: int, pids: list[int], poll: select.poll, cpu_seconds: float) -> int:
        """Wait for the first child, which takes longer than a moment; return what ended the job.

        The supervisor watches the limits of single cases, and the limit on time in which nothing runs.
        """
        for pid in pids:
            _limit_cpu(pid, cpu_seconds)  # in case this process does not get to look
        self._send_pidfds(number, pids)
        while True:
            pause = _cpu_left(pids, cpu_seconds)
            if pause <= 0:
                return OUT_OF_CPU
            if self.work_bytes is not None:
                if folder_is_full(self.work_folder, self.work_bytes):
                    return DISK_FULL
                pause = min(pause, LOOK_SECONDS)
            events = poll.poll(max(1.0, 1000 * pause))
            if any(descriptor == _END_DESCRIPTOR for descriptor, _ in events):
                return FINISHED
            if events:
                order = self.control.recv(STOP.size)
                if len(order) < STOP.size:  # the supervisor hung up
                    return STOPPED
                stopped, cause = STOP.unpack(order)
                if stopped == number:
                    return int(cause)

    def _send_pidfds(self, number: int, pids: list[int]) -> None:
        """Give the supervisor descriptors of the children: process ids mean nothing in its namespace."""
        others = [os.pidfd_open(pid) for pid in pids[1:]]
        rights = struct.pack(f"={len(pids)}i", _END_DESCRIPTOR, *others)
        with contextlib.suppress(OSError):
            self.control.sendmsg([WATCH.pack(number)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        for descriptor in others:
            os.close(descriptor)

    def _kill_children(self, pids: list[int]) -> list[int]:
        """Kill the children, and kill and reap the processes that they started, which cannot leave their group.

        Return the children that had not ended by themselves.
        """
        alive = [pid for pid in pids if not _has_ended(pid)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if self.own_groups:
            self._kill_process_groups(pids)
        return alive

    def _kill_process_groups(self, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            while True:  # orphans come to this process, which is their subreaper; the children themselves stay
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
                if found is None or found.si_pid in pids:
                    break
                os.waitpid(found.si_pid, 0)


def _has_ended(pid: int) -> bool:
    """Return whether a child has ended, by itself or killed by another process, or is about to end.

    A child's files are closed a moment before the child can be waited for. A process that notices, such as a grader,
    may end first; this process would then take the child for alive, and its own signal for the reason of the end.
    """
    until = 0.0
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if not has_released_memory(pid) or 0 < until < time.monotonic():
            return False
        until = until or time.monotonic() + _ENDING_SECONDS
        time.sleep(0.001)
    return True


def _limit_cpu(pid: int, cpu_seconds: float) -> None:
    whole = int(cpu_seconds) + 2
    with contextlib.suppress(OSError):  # this limit only backs up our looks at the clock
        resource.prlimit(pid, resource.RLIMIT_CPU, (whole, whole))


def _cpu_left(pids: list[int], cpu_seconds: float) -> float:
    """Return the CPU seconds that are left until the limit, at least 10 ms while any time is left."""
    left = cpu_seconds - sum(_used_cpu_seconds(pid) for pid in pids)
    return max(left, 0.01) if left > 0 else left


def _try_send(control: _socket.socket, message: bytes) -> bool:
    try:
        control.send(message)
    except OSError:
        return False
    return True


def _used_cpu_seconds(pid: int) -> float:
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def main() -> None:
    """Entry point of the zygote's process: ``argv`` holds the control descriptor and the settings as JSON."""
    control = _socket.socket(fileno=int(sys.argv[1]))
    settings = json.loads(sys.argv[2])
    libc.prctl(_PR_SET_NAME, b"lit_rl-zygote", 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        _restore_signal_handling()
        _preload_modules(settings)
        confined = confine_zygote(settings, child.PROGRAM)
        _check_can_serve()
        seed_all_random(_SEED)  # the same for every program, so that verdicts can be repeated
    except OSError as error:
        _try_send(control, f"{'short' if is_shortage(error) else 'failed'}: {error_with_remedy(error)}"[:4000].encode())
        return
    except Exception as error:
        _try_send(control, f"failed: {error}"[:4000].encode())
        return
    moved = os.dup2(control.detach(), _ABOVE_JOBS, inheritable=False)
    zygote = Zygote(_socket.socket(fileno=moved), confined, settings)
    sys.argv[:] = [""]
    gc.collect()
    gc.freeze()
    errors = os.dup2(2, _ABOVE_JOBS + 1, inheritable=False)
    os.closerange(0, _ABOVE_JOBS)
    os.closerange(_ABOVE_JOBS + 2, 1 << 16)  # so that a child finds all that it has to close below OPEN_FILES
    try:
        if _try_send(zygote.control, b"ready"):
            zygote.serve()
    except Exception as error:  # by now, descriptor 2 is a program's standard error
        os.write(errors, f"sandbox: zygote: {type(error).__name__}: {error}\n".encode())
        os._exit(1)


def _restore_signal_handling() -> None:
    """Restore the signal handlers of a new interpreter.

    Signals that ``nohup``, cron or a background job ignores would stay ignored, and would decide a program's verdict.
    """
    ignored_by_python = {signal.SIGPIPE, signal.SIGXFSZ}
    for number in signal.valid_signals() - ignored_by_python:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _check_can_serve() -> None:
    """Make sure now, not in the first job, that this process can open and start what each job needs."""
    require_open_files_limit(0, OPEN_FILES)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _preload_modules(settings: dict[str, Any]) -> None:
    """Import once what programs often use, and set up what programs expect of an interpreter."""
    os.environ.clear()
    os.environ.update(PATH="/usr/bin:/bin", LANG="C.UTF-8", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    os.environ["ONLINE_JUDGE"] = "true"  # as judges tell a program where it runs
    for name in _PRELOADED:
        import_module(name)
    prepare_interpreter()
    beside = {os.path.dirname(path) for path in settings["packages"]}  # folders that these can be imported from
    sys.path[:] = [path for path in sys.path if path] + sorted(beside)
    for name in settings["imports"]:
        import_module(name)
    # Our own modules may be cached as bytecode (parsing leaves memory that every fork copies); a program's may not.
    sys.dont_write_bytecode = True
    child.MODES.update(build=run_build_job, grade=grade, rehearse=rehearse_tests, serve=serve_program_to_tests)
    warm_up_zygote()
