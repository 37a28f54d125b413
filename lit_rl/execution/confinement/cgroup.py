"""Tier 2: a control group around a worker, with limits on memory and processes as a whole.

Supports both layouts: version 2 where the worker's own group is delegated, and version 1 with its separate
memory and process hierarchies. The supervisor makes the group for a zygote that it has just started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from lit_rl.execution.confinement.limits import MAX_TASKS

_ROOT = Path("/sys/fs/cgroup")
# What the zygote and shared memory take besides the program.
_SLACK_BYTES = 192 << 20
_PREFIX = "lit_rl-"
_ENDING_SECONDS = 10.0  # until the last process of a group has ended, which takes long on a crowded machine


class ControlGroup:
    """A control group that holds one process and all processes that it will fork.

    The constructor also removes empty groups left by supervisors that were killed together with their trainer.
    """

    def __init__(self, pid: int, memory_bytes: int) -> None:
        self._folders: list[Path] = []
        self._num_full = 0
        _remove_leftover_cgroups()
        limits = {"memory": memory_bytes + _SLACK_BYTES, "pids": MAX_TASKS}
        try:
            for parent, files in _own_cgroups_with_limits().items():
                folder = parent / f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}"
                folder.mkdir()
                self._folders.append(folder)
                for name, controller in files.items():
                    (folder / name).write_text(str(limits[controller]))
                with contextlib.suppress(OSError):
                    (folder / "memory.swap.max").write_text("0")
                (folder / "cgroup.procs").write_text(str(pid))
        except BaseException:
            self.remove()
            raise

    def has_hit_memory_limit(self) -> bool:
        """Return whether the memory limit of this group itself was hit since the last call."""
        before, self._num_full = self._num_full, self._count_limit_hits()
        return self._num_full > before

    def _count_limit_hits(self) -> int:
        for folder in self._folders:
            with contextlib.suppress(OSError, ValueError):  # version 1
                return int((folder / "memory.failcnt").read_text())
            with contextlib.suppress(OSError, ValueError):  # version 2
                events = (folder / "memory.events").read_text().split()
                return int(events[events.index("oom") + 1])
        return 0

    def remove(self) -> None:
        """Kill the processes that are left in the group, and remove the group."""
        for folder in self._folders:
            _remove_cgroup(folder)
        self._folders.clear()


def remove_cgroups_of_process(pid: int) -> None:
    """Remove the groups that a supervisor made and could not remove because it was killed."""
    for folder in _find_cgroups(f"{pid}-*"):
        _remove_cgroup(folder)


def _remove_leftover_cgroups() -> None:
    for folder in _find_cgroups("*"):
        if not _is_alive(folder.name.removeprefix(_PREFIX).partition("-")[0]):
            # Only empty groups: the maker may be alive in a process namespace that we cannot see.
            with contextlib.suppress(OSError):
                folder.rmdir()


def _find_cgroups(pattern: str) -> list[Path]:
    with contextlib.suppress(OSError):
        return [folder for parent in _own_cgroups_with_limits() for folder in parent.glob(f"{_PREFIX}{pattern}")]
    return []


def _is_alive(pid: str) -> bool:
    """Return whether a process runs; a zombie has an empty command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def _own_cgroups_with_limits() -> dict[Path, dict[str, str]]:
    """Return this process's own groups, below which new groups are made, each with its limit files and their limits."""
    if (_ROOT / "cgroup.controllers").exists():
        return {_ROOT / _own_cgroup_path(""): {"memory.max": "memory", "pids.max": "pids"}}
    files = {"memory": "memory.limit_in_bytes", "pids": "pids.max"}
    return {_ROOT / kind / _own_cgroup_path(kind): {name: kind} for kind, name in files.items()}


def _remove_cgroup(folder: Path) -> None:
    """Kill a group's processes until the group can be removed, which is when its last process has gone."""
    until = time.monotonic() + _ENDING_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.01)


def _own_cgroup_path(controller: str) -> str:
    """Return this process's group in a hierarchy, relative to the root; version 2's hierarchy has the empty name."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.strip("/")
    raise OSError(f"no control group {controller or 'of version 2'}")
