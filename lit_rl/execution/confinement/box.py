"""Shell commands in a box: builds, and runs of what was built.

The box is a process that confines itself, runs a command, and leaves nothing behind; ``main`` is its entry point, and
``run_boxed`` is the supervisor's side.

A build starts processes of its own (make, compilers, linkers), so the box allows new processes, unlike a zygote. All
else is refused. Landlock lets only listed files be read or executed, and only the working copy be written. Namespaces,
where the machine has them, hide the network and outside processes. A separate system-call filter refuses what no build
needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from lit_rl.execution.confinement import kernel, landlock, limits, namespaces, seccomp, visible_files
from lit_rl.execution.confinement.profile import ConfinementProfile, confine, untrusted_user_id
from lit_rl.execution.spawning import start_process
from lit_rl.execution.zygote.work_folder import folder_is_full

TIMED_OUT = 200
"""Exit status of the box after its time limit."""

NOT_CONFINED = 201
"""Exit status if the box could not be made; the reason is in its report."""

_OPEN_FILES = 1024
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
TOOLCHAIN = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc/alternatives", "/etc/ld.so.cache")
"""Paths that a build may read and execute: programs, libraries and headers, but no user's files."""

LOG_BYTES = 1 << 16
_POLL_SECONDS = 0.02
_MEASURE_SECONDS = 0.1


def main() -> None:
    """Entry point: take settings as JSON from ``argv[1]``; exit as the command did, or see :data:`TIMED_OUT`."""
    settings = json.loads(sys.argv[1])
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() == 1:  # the supervisor ended before the line above
        os._exit(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TIMED_OUT))  # on the way out every descendant is killed
    try:
        status = _run_command(settings)
    except SystemExit:
        status = TIMED_OUT
    os._exit(status)


def _run_command(settings: dict[str, Any]) -> int:
    # Inherited by the children, which report through it why they could not be confined.
    report = os.open(settings["report"], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    pid = os.fork()
    if pid == 0:
        _become_command(settings, report)
    try:
        if not select.select([os.pidfd_open(pid)], [], [], settings["seconds"])[0]:
            return TIMED_OUT
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF
    finally:
        _kill_descendants()


def _kill_descendants() -> None:
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
        profile = _make_confinement_profile(settings, user)
        if settings["namespaces"]:
            namespaces.fork_into_namespaces(user)
        confine(profile)
        os.umask(0o077)
    except Exception as error:
        os.write(report, f"{type(error).__name__}: {error}".encode())
        os._exit(NOT_CONFINED)
    os.close(report)
    os.execve("/bin/sh", ["/bin/sh", "-c", settings["command"]], settings["environment"])


def _make_confinement_profile(settings: dict[str, Any], user: int) -> ConfinementProfile:
    alone = bool(settings["namespaces"])
    # Counted once: a build ends before the machine's number of tasks changes much.
    others = 0 if limits.are_threads_counted_alone(alone) else limits.num_machine_threads()
    rules = [
        (path, landlock.RUN) for path in visible_files.paths_without_hidden(settings["readable"], settings["hidden"])
    ]
    rules += [(path, landlock.DEVICE) for path in _DEVICES]
    rules.append((settings["folder"], landlock.WORK | landlock.RUN))

    return ConfinementProfile(
        folder=settings["folder"],
        user=user,
        rules=tuple(rules),
        limits=(
            (resource.RLIMIT_AS, settings["memory_bytes"]),
            (resource.RLIMIT_FSIZE, settings["file_bytes"]),
            (resource.RLIMIT_CPU, settings["cpu_seconds"]),
            (resource.RLIMIT_NOFILE, _OPEN_FILES),
            (resource.RLIMIT_NPROC, settings["processes"] + others),
            (resource.RLIMIT_CORE, 0),
        ),
        system_calls=seccomp.compiler_seccomp_filter,
        alone=alone,
        landlock_version=settings["landlock_version"],
    )


class BoxError(RuntimeError):
    """A box could not be set up: the machine's fault or ours, never the command's."""


@dataclass(frozen=True)
class BoxLimits:
    """Limits of one command.

    Args:
        seconds: wall seconds, after which everything is killed.
        memory_bytes: address space of one process.
        file_bytes: longest file.
        folder_bytes: most bytes of all files in the working folder, measured while the command runs and at its end; a
            command that exceeds the limit is stopped, and has no exit status.
        folder_files: most files and folders in the working folder.
        processes: most processes of the box's user at a time.
    """

    seconds: float
    memory_bytes: int = 4 << 30
    file_bytes: int = 256 << 20
    folder_bytes: int = 2 << 30
    folder_files: int = 1 << 17
    processes: int = 256


@dataclass(frozen=True)
class BoxReport:
    """Result of a command: its exit status, ``None`` if a limit ended the command, and the end of what it printed."""

    status: int | None
    log: str
    timed_out: bool
    wall_seconds: float


def run_boxed(
    command: str,
    folder: str | Path,
    limits: BoxLimits,
    *,
    readable: Sequence[str] = (),
    hidden: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    namespaces: bool | None = None,
    landlock_version: int | None = None,
) -> BoxReport:
    """Run a shell command that can write ``folder`` and read the toolchain, and nothing else.

    Args:
        command: for ``/bin/sh -c``.
        folder: working folder, also HOME and TMPDIR.
        limits: time, memory, files.
        readable: further folders to read and execute from.
        hidden: folders and files that cannot be read, even where the toolchain or ``readable`` contains them.
        environment: further environment variables.
        namespaces: whether to use namespaces; ``None`` uses them if the machine has them.
        landlock_version: behave as a kernel with this version of Landlock, for tests.

    Raises:
        BoxError: if this machine cannot confine commands.
    """
    work_folder = str(Path(folder).resolve())
    settings = {
        "command": command,
        "folder": work_folder,
        **asdict(limits),
        "cpu_seconds": int(limits.seconds * (os.cpu_count() or 1)) + 1,
        "readable": [*TOOLCHAIN, *readable],
        "hidden": list(hidden),
        "environment": {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": work_folder,
            "TMPDIR": work_folder,
            "LC_ALL": "C",
            **(environment or {}),
        },
        "user": untrusted_user_id(),
        "landlock_version": landlock_version,
    }
    fault = ""
    for with_namespaces in (True, False) if namespaces is None else (namespaces,):
        with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as own:
            reason = Path(own, "report")
            job = json.dumps({**settings, "namespaces": with_namespaces, "report": str(reason)})
            process = start_process("confinement.box", [job], log=log.fileno())
            report = _watch_until_end(process, log.fileno(), work_folder, limits)
            fault = reason.read_text(errors="replace") if reason.exists() else ""
        if not (report.status == NOT_CONFINED and fault):
            return report
    raise BoxError(f"commands cannot be confined on this machine: {fault}")


def _watch_until_end(process: subprocess.Popen[bytes], log: int, folder: str, limits: BoxLimits) -> BoxReport:
    """Wait for the box; end it when its folder is full, or when the result is no longer awaited."""
    started = time.monotonic()
    measure_at = started + _MEASURE_SECONDS
    parent = os.getppid()
    full = False
    while process.poll() is None:
        now = time.monotonic()
        if now > measure_at:
            full = full or folder_is_full(folder, limits.folder_bytes, limits.folder_files)
            measure_at = time.monotonic() + max(_MEASURE_SECONDS, 10 * (time.monotonic() - now))
        if full or os.getppid() != parent or now - started > limits.seconds + 10:
            process.terminate() if now - started < limits.seconds + 15 else process.kill()
        time.sleep(min(_POLL_SECONDS, max(0.002, (now - started) / 10)))
    if os.getppid() != parent:
        raise SystemExit(0)  # so that no further command is run
    full = full or folder_is_full(folder, limits.folder_bytes, limits.folder_files)  # filled since the last look
    status: int | None = process.returncode
    wall_seconds = time.monotonic() - started
    # A command can return the status TIMED_OUT itself, but not after its time is over: it is killed then.
    timed_out = status == TIMED_OUT and not full and wall_seconds >= limits.seconds
    if status is None or timed_out or status < 0 or full:
        status = None
    printed = os.pread(log, LOG_BYTES, max(0, os.fstat(log).st_size - LOG_BYTES)).decode("utf-8", "replace")
    return BoxReport(status, printed, timed_out, wall_seconds)
