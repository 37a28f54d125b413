"""Shell commands in a box: builds, and runs of what was built. The supervisor's side; see ``box``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lit_rl.execution.confinement.box import NOT_CONFINED, TIMED_OUT
from lit_rl.execution.confinement.profile import nobody
from lit_rl.execution.spawning import entry_code
from lit_rl.execution.zygote.work_folder import folder_is_full

TOOLCHAIN = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc/alternatives", "/etc/ld.so.cache")
"""What a build may read and execute: programs, libraries and headers, but no user's files."""

LOG_BYTES = 1 << 16
_POLL_SECONDS = 0.02
_MEASURE_SECONDS = 0.1


class BoxError(RuntimeError):
    """A box could not be set up: the machine's fault or ours, never the command's."""


@dataclass(frozen=True)
class BoxLimits:
    """What one command may use.

    Args:
        seconds: wall seconds, then everything is killed.
        memory_bytes: address space of one process.
        file_bytes: longest file.
        folder_bytes: all files in the working folder together, looked at again and again.
        folder_files: number of files and folders in it.
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
    """How a command ended.

    Args:
        status: its exit status; ``None`` if a limit ended it.
        log: the last bytes of what it printed, stdout and stderr together.
        timed_out: whether that was the time limit.
        wall_seconds: wall time.
    """

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
        environment: further variables.
        namespaces: require them or do without; ``None`` uses them where the machine has them.
        landlock_version: behave as a kernel with this version of Landlock, for tests.

    Raises:
        BoxError: if this machine cannot confine commands.
    """
    work_folder = str(Path(folder).resolve())
    settings = {
        "command": command,
        "folder": work_folder,
        "seconds": limits.seconds,
        "cpu_seconds": int(limits.seconds * (os.cpu_count() or 1)) + 1,
        "memory_bytes": limits.memory_bytes,
        "file_bytes": limits.file_bytes,
        "processes": limits.processes,
        "readable": [*TOOLCHAIN, *readable],
        "hidden": list(hidden),
        "environment": {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": work_folder,
            "TMPDIR": work_folder,
            "LC_ALL": "C",
            **(environment or {}),
        },
        "user": nobody(),
        "landlock_version": landlock_version,
    }
    said = ""
    for with_namespaces in (True, False) if namespaces is None else (namespaces,):
        with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as own:
            reason = Path(own, "report")
            process = _start({**settings, "namespaces": with_namespaces, "report": str(reason)}, log.fileno())
            report = _watch(process, log.fileno(), work_folder, limits)
            said = reason.read_text(errors="replace") if reason.exists() else ""
        if not (report.status == NOT_CONFINED and said):
            return report
    raise BoxError(f"commands cannot be confined on this machine: {said}")


def _start(settings: Mapping[str, object], log: int) -> subprocess.Popen[bytes]:
    code = entry_code("confinement.box")
    interpreter = getattr(sys, "_base_executable", None) or sys.executable
    return subprocess.Popen(
        [interpreter, "-s", "-S", "-P", "-B", "-X", "utf8", "-c", code, json.dumps(settings)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env={},
        start_new_session=True,
        cwd="/",
    )


def _watch(process: subprocess.Popen[bytes], log: int, folder: str, limits: BoxLimits) -> BoxReport:
    """Wait for the box; end it when its folder is full, or when nobody waits for the result any more."""
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
        raise SystemExit(0)  # lest the next command be run
    status: int | None = process.returncode
    wall_seconds = time.monotonic() - started
    # A command may end with that status, too, but not so late.
    timed_out = status == TIMED_OUT and not full and wall_seconds >= limits.seconds
    if status is None or timed_out or status < 0 or full:
        status = None
    return BoxReport(status, _tail(log), timed_out, wall_seconds)


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, LOG_BYTES, max(0, size - LOG_BYTES)).decode("utf-8", "replace")
