"""Resource limits of programs, compilers and builds, and advice for limits that this process has reached."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import struct
from collections.abc import Callable, Iterable

from lit_rl.execution.confinement.kernel import bare_setrlimit, libc

# Address space beyond the stated memory: thread stacks (128 MiB is common in contests), malloc arenas and
# mapped libraries are reserved, not used. Whether a program *used* too much is decided by its peak resident memory.
ADDRESS_SLACK = 384 << 20
_CODE_RANGE = 512 << 20  # Node 24 makes this range writable as it starts, for machine code
OPEN_FILES = 64
MAX_TASKS = 512
"""Processes and threads of one worker together."""

_PENDING_SIGNALS = 256
_OFFSET_OF_TASKS = 80  # in ``struct sysinfo`` of 64 bits, as a number of 16 bits
_MAX_COUNTED = 1 << 16
_FILES = (errno.EMFILE, errno.ENFILE)


def program_limits(
    memory_bytes: int, output_bytes: int, own_tasks: bool, reserves: bool
) -> tuple[tuple[int, int], ...]:
    """Return the limits that every program of a worker inherits from its zygote, for :func:`lower_rlimits`.

    Args:
        memory_bytes: memory of one program.
        output_bytes: longest file.
        own_tasks: whether the kernel counts this worker's tasks apart, by a user or user namespace of its own.
        reserves: limit private memory that can be written to, and not address space, since runtimes reserve more
            address space than they use.
    """
    slack = ADDRESS_SLACK + _CODE_RANGE if reserves else ADDRESS_SLACK
    limits = [
        (resource.RLIMIT_DATA if reserves else resource.RLIMIT_AS, memory_bytes + slack),
        (resource.RLIMIT_FSIZE, output_bytes),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        # Queued signals are counted per user, too.
        (resource.RLIMIT_SIGPENDING, _PENDING_SIGNALS),
        *((which, 0) for which in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE)),
    ]
    if reserves:  # the supervisor limits its own address space, which its children would inherit
        limits.append((resource.RLIMIT_AS, resource.RLIM_INFINITY))
    return (*limits, (resource.RLIMIT_NPROC, MAX_TASKS)) if own_tasks else tuple(limits)


def lower_rlimits(limits: Iterable[tuple[int, int]]) -> None:
    """Lower the limits of this process and all its children; never raise a hard limit."""
    for which, value in limits:
        _, hard = resource.getrlimit(which)
        if hard != resource.RLIM_INFINITY:
            value = hard if value == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def are_threads_counted_alone(namespaces: bool) -> bool:
    """Return whether the kernel will count the tasks of a confined process apart from its trainer's.

    It does so for another user, which this process becomes if it is root, and, since Linux 5.14, in a user
    namespace of its own. Older kernels count a user's tasks together across namespaces.
    """
    version = [int(number) for number in re.findall(r"\d+", os.uname().release)[:2]]
    return os.geteuid() == 0 or (namespaces and version >= [5, 14])


class SharedThreadLimit:
    """A limit on tasks for programs whose user is the trainer's: the kernel counts all tasks of that user together.

    A program may make :data:`MAX_TASKS` more than the machine had a moment ago, and never takes the last quarter
    of what the user may have. The zygote is not limited: it must be able to fork when the user has many tasks.
    ``apply()`` limits a child.
    """

    def __init__(self) -> None:
        limits = [
            resource.getrlimit(resource.RLIMIT_NPROC)[0],
            _read_number("/proc/sys/kernel/threads-max", r"(\d+)", 0),
        ]
        known = [limit for limit in limits if limit not in (resource.RLIM_INFINITY, 0)]
        self._highest = min(known, default=1 << 22) * 3 // 4
        # ``sysinfo`` counts tasks in 16 bits: on machines with more of them, only the last quarter is kept free.
        self._can_count = num_machine_threads() < _MAX_COUNTED // 2
        self._answer = ctypes.create_string_buffer(256)
        self._limit = ctypes.create_string_buffer(16)
        limit = self._limit

        # Not a method: it runs in every fork, where each attribute lookup copies memory.
        def apply() -> None:
            bare_setrlimit(resource.RLIMIT_NPROC, limit)

        self.apply: Callable[[], None] = apply
        self.update()

    def update(self) -> None:
        """Count the machine's tasks again; call about once a second."""
        value = self._highest
        if self._can_count:
            libc.sysinfo(self._answer)
            (tasks,) = struct.unpack_from("=H", self._answer, _OFFSET_OF_TASKS)
            value = min(value, tasks + MAX_TASKS)
        struct.pack_into("=QQ", self._limit, 0, value, value)


def num_machine_threads() -> int:
    """Return the number of all processes and threads of the machine, from a line such as ``0.0 0.1 0.0 2/345 999``."""
    return _read_number("/proc/loadavg", r"/(\d+)", _MAX_COUNTED)


def _read_number(path: str, pattern: str, otherwise: int) -> int:
    """Return the first group of a pattern in a file of the kernel as a number, or ``otherwise``."""
    try:
        with open(path) as file:
            found = re.search(pattern, file.read())
    except OSError:
        return otherwise
    return int(found[1]) if found else otherwise


def is_shortage(error: BaseException) -> bool:
    """Return whether an error means that the machine, or this user's share of it, is used up."""
    return isinstance(error, OSError) and error.errno in (*_FILES, errno.EAGAIN)


def error_with_remedy(error: OSError) -> str:
    """Return one line for an error: the exhausted resource, its limit and a remedy; other errors stay as they are."""
    if not is_shortage(error) or "ulimit" in str(error):
        return (error.strerror if "ulimit" in str(error) else None) or str(error)
    if error.errno in _FILES:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"no further file can be opened, the limit is {soft}: raise it with ulimit -n"
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    shown = "unlimited" if limit == resource.RLIM_INFINITY else limit
    return (
        f"no further process or thread can be started, this user's limit is {shown}: raise it with ulimit -u, "
        "end other processes, or use fewer workers"
    )


def require_open_files_limit(num_wanted: int, num_each: int) -> None:
    """Check that this process can open ``num_wanted`` more files, and each process it starts ``num_each`` in all."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    num_open = len(os.listdir("/proc/self/fd")) if num_wanted else 0
    needed = max(num_open + num_wanted, num_each)
    if soft != resource.RLIM_INFINITY and soft < needed:
        raise OSError(
            errno.EMFILE,
            f"{needed} files must be open at a time, but the limit is {soft}: raise it with ulimit -n {needed}",
        )
