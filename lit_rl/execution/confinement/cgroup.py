"""Tier 2: a control group around a worker, with limits on memory and processes as a whole.

Both layouts are known: version 2 where the worker's own group is delegated, and version 1 with its separate
memory and process hierarchies. Made by the supervisor, for a zygote that it has just started.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
# What the zygote and shared memory take besides the program.
_SLACK_BYTES = 192 << 20
_MOST_TASKS = 512


class ControlGroup:
    """A group that holds one process and all it will fork.

    Args:
        pid: the process.
        memory_bytes: limit of one program's memory and files; some is added for the zygote.

    Raises:
        OSError: if no group can be made or limited here.
    """

    def __init__(self, pid: int, memory_bytes: int) -> None:
        self._folders: list[Path] = []
        try:
            if (_ROOT / "cgroup.controllers").exists():
                self._make_version_2(pid, memory_bytes + _SLACK_BYTES)
            else:
                self._make_version_1(pid, memory_bytes + _SLACK_BYTES)
        except BaseException:
            self.remove()
            raise

    def _make_version_2(self, pid: int, memory_bytes: int) -> None:
        folder = self._make(_ROOT / _own_path("")) if _own_path("") else self._make(_ROOT)
        (folder / "memory.max").write_text(str(memory_bytes))
        (folder / "pids.max").write_text(str(_MOST_TASKS))
        with contextlib.suppress(OSError):
            (folder / "memory.swap.max").write_text("0")
        (folder / "cgroup.procs").write_text(str(pid))

    def _make_version_1(self, pid: int, memory_bytes: int) -> None:
        for controller, limit, value in (
            ("memory", "memory.limit_in_bytes", memory_bytes),
            ("pids", "pids.max", _MOST_TASKS),
        ):
            folder = self._make(_ROOT / controller / _own_path(controller))
            (folder / limit).write_text(str(value))
            (folder / "cgroup.procs").write_text(str(pid))

    def _make(self, parent: Path) -> Path:
        folder = parent / f"lit_rl-{os.getpid()}-{os.urandom(4).hex()}"
        folder.mkdir()
        self._folders.append(folder)
        return folder

    def remove(self) -> None:
        """Kill what is left in it and remove it."""
        for folder in self._folders:
            _remove(folder)
        self._folders.clear()


def remove_groups_of(pid: int) -> None:
    """Remove the groups that a supervisor made and could not remove because it was killed."""
    for folder in _ROOT.glob(f"**/lit_rl-{pid}-*") if os.access(_ROOT, os.W_OK) else ():
        _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError):
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.01)


def _own_path(controller: str) -> str:
    """This process's group in a hierarchy, relative to its root; version 2 has the empty name."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.strip("/")
    raise OSError(f"no control group of the kind {controller or 'version 2'!r}")
