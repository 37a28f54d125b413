"""The process around one build or run: confines itself, runs a shell command, leaves nothing behind.

Unlike the programs of a zygote, a build needs processes of its own: a make, compilers, linkers. So here processes
are allowed, and everything else is not: files outside a list can be neither read nor executed and only the
working copy can be written (Landlock), there is no network and no process outside can be seen (namespaces, where
the machine has them), and a system-call filter refuses what no build needs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import struct
import sys
import time
from typing import Any, NoReturn

from lit_rl.execution.confinement import kernel, landlock, namespaces
from lit_rl.execution.confinement.system_calls import NUMBERS, REFUSED

TIMED_OUT = 200
"""Exit status of the box after its time limit."""

NOT_CONFINED = 201
"""Exit status if the box could not be made; the reason is in its report."""

_PR_SET_CHILD_SUBREAPER = 36
# What a build may do beyond a program: start processes and groups of them. Without capabilities a user id can
# only be set to what it is, and make does that for every child.
_ALLOWED_HERE = {
    *("fork", "vfork", "execve", "setsid", "setpgid", "personality", "memfd_create", "sync", "syncfs"),
    *("setxattr", "lsetxattr", "fsetxattr", "splice", "tee", "vmsplice", "mlock", "munlock", "setpriority"),
    *("sched_setscheduler", "sched_setparam", "mknod", "mknodat"),
    *("setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid"),
}
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_RET_ALLOW, _RET_KILL, _RET_EPERM = 0x7FFF0000, 0x80000000, 0x00050001


def main() -> None:
    """Entry point: settings as JSON in ``argv[1]``; exits as the command did, see :data:`TIMED_OUT`."""
    settings = json.loads(sys.argv[1])
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() == 1:  # the supervisor ended before the line above
        os._exit(1)
    signal.signal(signal.SIGTERM, _end)
    try:
        status = _run(settings)
    except SystemExit:
        status = TIMED_OUT
    os._exit(status)


def _end(signum: int, frame: object) -> NoReturn:
    raise SystemExit(TIMED_OUT)  # on the way out every descendant is killed


def _run(settings: dict[str, Any]) -> int:
    # Inherited by the children, which report through it why they could not be confined.
    report = os.open(settings["report"], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + settings["seconds"]
    pid = os.fork()
    if pid == 0:
        _become_command(settings, report)
    try:
        return _wait(pid, deadline)
    finally:
        _kill_all()


def _wait(pid: int, deadline: float) -> int:
    watched = os.pidfd_open(pid)
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return TIMED_OUT
            if _ready(watched, left):
                _, status = os.waitpid(pid, 0)
                return os.waitstatus_to_exitcode(status) & 0xFF
    finally:
        os.close(watched)


def _ready(descriptor: int, seconds: float) -> bool:
    import select

    return bool(select.select([descriptor], [], [], seconds)[0])


def _kill_all() -> None:
    """Kill and reap every descendant: orphans come to this process, for it is their reaper."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            children = [int(pid) for pid in file.read().split()]
        if not children:
            return
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _become_command(settings: dict[str, Any], report: int) -> NoReturn:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        if settings["namespaces"]:
            _enter_namespaces(int(settings["user"]))
        _confine(settings)
    except Exception as error:
        os.write(report, f"{type(error).__name__}: {error}".encode())
        os._exit(NOT_CONFINED)
    os.close(report)
    os.execve("/bin/sh", ["/bin/sh", "-c", settings["command"]], settings["environment"])


def _enter_namespaces(user: int) -> None:
    """New process, network, IPC and host-name spaces; go on as the first process in there."""
    if os.geteuid() == 0:
        try:
            namespaces.enter_as_root()
        except OSError:
            _become(user)
            namespaces.enter_as_user()
    else:
        namespaces.enter_as_user()
    pid = os.fork()
    if pid:
        # The process outside hands on how the one inside ended, and ends with it.
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _confine(settings: dict[str, Any]) -> None:
    if os.geteuid() == 0:
        _become(int(settings["user"]))
    kernel.drop_capabilities()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    for which, value in (
        (resource.RLIMIT_AS, settings["memory_bytes"]),
        (resource.RLIMIT_FSIZE, settings["file_bytes"]),
        (resource.RLIMIT_CPU, settings["cpu_seconds"]),
        # Processes are counted by user: where that is the trainer's own, its processes would be counted too.
        (resource.RLIMIT_NPROC, settings["processes"] if settings["own_user"] else resource.RLIM_INFINITY),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            value = hard if value == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(which, (value, value))
    os.chdir(settings["folder"])
    os.umask(0o077)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    rules = [(path, landlock.RUN) for path in settings["readable"]]
    rules += [(path, landlock.DEVICE) for path in ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")]
    landlock.restrict_self([*rules, (settings["folder"], landlock.WORK | landlock.RUN)])
    install_filter()


def install_filter() -> None:
    """Refuse system calls that no build needs. The others are bounded by file rules, namespaces and limits."""
    if kernel.MACHINE not in _ARCHITECTURE:
        raise OSError(f"no table of system calls for {kernel.MACHINE}")
    numbers = NUMBERS[kernel.MACHINE]
    refused = sorted(numbers[name] for name in set(REFUSED) - _ALLOWED_HERE if name in numbers)
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, _ARCHITECTURE[kernel.MACHINE]), (0x06, 0, 0, _RET_KILL), (0x20, 0, 0, 0)]
    if kernel.MACHINE == "x86_64":
        code += [(0x35, 0, 1, 0x40000000), (0x06, 0, 0, _RET_KILL)]
    for number in refused:
        code += [(0x15, 0, 1, number), (0x06, 0, 0, _RET_EPERM)]
    code.append((0x06, 0, 0, _RET_ALLOW))
    packed = b"".join(struct.pack("=HBBI", *part) for part in code)
    buffer = ctypes.create_string_buffer(packed, len(packed))
    program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(buffer)), 16)
    kernel.check(kernel.libc.prctl(kernel.PR_SET_SECCOMP, 2, program, 0, 0), "seccomp filter")
