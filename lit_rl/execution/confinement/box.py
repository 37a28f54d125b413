"""The process around one build or run: confines itself, runs a shell command, leaves nothing behind.

A build starts processes of its own (make, compilers, linkers), so unlike in a zygote they are allowed here. All
else is refused: files outside a list can be neither read nor executed and only the working copy can be written
(Landlock); there is no network and no outside process is visible (namespaces, where the machine has them); a
separate system-call filter refuses what no build needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any, NoReturn

from lit_rl.execution.confinement import kernel, landlock, limits, namespaces, seccomp, visible_files
from lit_rl.execution.confinement.bpf import Filter
from lit_rl.execution.confinement.profile import Guards, Profile, confine

TIMED_OUT = 200
"""Exit status of the box after its time limit."""

NOT_CONFINED = 201
"""Exit status if the box could not be made; the reason is in its report."""

_OPEN_FILES = 1024
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


def main() -> None:
    """Entry point: settings as JSON in ``argv[1]``; exits as the command did, see :data:`TIMED_OUT`."""
    settings = json.loads(sys.argv[1])
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
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
    return bool(select.select([descriptor], [], [], seconds)[0])


def _kill_all() -> None:
    """Kill and reap every descendant, orphans included: this process is their subreaper."""
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
        user = int(settings["user"])
        profile = _profile(settings, user)
        if settings["namespaces"]:
            namespaces.enter(user)
        confine(profile)
        os.umask(0o077)
    except Exception as error:
        os.write(report, f"{type(error).__name__}: {error}".encode())
        os._exit(NOT_CONFINED)
    os.close(report)
    os.execve("/bin/sh", ["/bin/sh", "-c", settings["command"]], settings["environment"])


def _profile(settings: dict[str, Any], user: int) -> Profile:
    alone = bool(settings["namespaces"])
    own_tasks = limits.tasks_are_counted_alone(alone)
    rules = [(path, landlock.RUN) for path in visible_files.without(settings["readable"], settings["hidden"])]
    rules += [(path, landlock.DEVICE) for path in _DEVICES]
    rules.append((settings["folder"], landlock.WORK | landlock.RUN))

    def system_calls(guards: Guards) -> Filter:
        return seccomp.build_filter(guards.signals, guards.truncation)

    return Profile(
        folder=settings["folder"],
        user=user,
        rules=tuple(rules),
        limits=(
            (resource.RLIMIT_AS, settings["memory_bytes"]),
            (resource.RLIMIT_FSIZE, settings["file_bytes"]),
            (resource.RLIMIT_CPU, settings["cpu_seconds"]),
            (resource.RLIMIT_NOFILE, _OPEN_FILES),
            (resource.RLIMIT_NPROC, limits.tasks_of_builds(settings["processes"], own_tasks)),
            (resource.RLIMIT_CORE, 0),
        ),
        system_calls=system_calls,
        alone=alone,
        landlock_version=settings["landlock_version"],
    )
