"""What a zygote does to itself before it serves, so that every program it forks is confined.

Each tier adds to the one below: 0 is a system-call filter, file rules and resource limits; 1 adds namespaces;
2 adds a control group (made by the supervisor, see ``cgroup``). A tier is tried by entering it: if that raises
``OSError``, the supervisor starts a fresh zygote one tier lower.
"""

from __future__ import annotations

import os
import signal
from typing import Any, NamedTuple

from lit_rl.execution.confinement import bpf, kernel, landlock, limits, namespaces, seccomp, visible_files
from lit_rl.execution.confinement.profile import Guards, Profile, confine, nobody

_M_ARENA_MAX = -8


class Confined(NamedTuple):
    """What each child of a confined zygote must still do.

    Args:
        filters: install for Python and for compiled programs; ``None`` only where weak isolation was asked for.
        tasks: limit to apply where the kernel counts the programs' tasks together with the trainer's.
    """

    filters: tuple[bpf.Filter | None, bpf.Filter | None]
    tasks: limits.SharedTasks | None


def isolate(settings: dict[str, Any], exec_descriptor: int) -> Confined:
    """Confine this process.

    Args:
        settings: those of ``spawning.ZygoteSettings``, and ``folder``, the work folder.
        exec_descriptor: descriptor through which compiled programs are executed.

    Raises:
        OSError: if this machine cannot provide the tier.
    """
    tier, folder, user = int(settings["tier"]), str(settings["folder"]), nobody()
    own_tasks = limits.tasks_are_counted_alone(tier >= 1)
    tasks = None if own_tasks else limits.SharedTasks()
    # Only its supervisor ends a zygote, by hanging up: not the signals that a job or a terminal sends to all.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    _share_allocations()
    readable = (*settings["packages"], *settings["readable"])
    if tier >= 1:
        namespaces.enter(user)
        namespaces.build_root(folder, readable, int(settings["work_bytes"]), user)
        folder = namespaces.WORK_FOLDER
    elif os.geteuid() == 0:
        os.chown(folder, user, user)
    confine(_profile(settings, folder, user, readable, own_tasks))
    if not bpf.available():
        return Confined((None, None), tasks)
    processes = bool(settings["executables"])
    if processes:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    own = seccomp.program_filter(processes=processes), seccomp.program_filter(exec_descriptor)
    return Confined(own, tasks)


def _share_allocations() -> None:
    """Allow two malloc arenas: by default each of many threads reserves 64 MiB of the limited address space."""
    if hasattr(kernel.libc, "mallopt"):  # of glibc
        kernel.libc.mallopt(_M_ARENA_MAX, 2)


def _profile(settings: dict[str, Any], folder: str, user: int, readable: tuple[str, ...], own_tasks: bool) -> Profile:
    tier, executables = int(settings["tier"]), tuple(settings["executables"])

    def system_calls(guards: Guards) -> bpf.Filter:
        # Only a compiler may start processes. Above tier 0 all files but the program's own are mounted read-only.
        return seccomp.zygote_filter(bool(executables), guards.truncation or tier != 0)

    return Profile(
        folder=folder,
        user=user,
        rules=_rules(folder, readable, executables),
        limits=limits.of_programs(int(settings["memory_bytes"]), int(settings["output_bytes"]), own_tasks),
        system_calls=system_calls,
        alone=tier >= 1,
        file_rules="none" if tier < 0 else "needed" if tier == 0 else "wanted",
        needs_filter=tier >= 0,
        reads_library_as_root=True,
        landlock_version=settings["landlock_version"],
    )


def _rules(folder: str, also: tuple[str, ...], executables: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    readable = (*visible_files.library_entries(), *visible_files.system_files(), *also)
    rules = [(path, landlock.READ) for path in readable]
    rules += [(path, landlock.RUN) for path in executables]
    rules += [(path, landlock.DEVICE) for path in visible_files.DEVICES]
    return (*rules, (folder, landlock.WORK))
