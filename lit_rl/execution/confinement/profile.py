"""Confinement of a process before untrusted code runs in it, the same for programs, compilers and builds.

A zygote is confined in tiers, each of which adds to the tier below: 0 is a system-call filter, file rules and resource
limits; 1 adds namespaces; 2 adds a control group (made by the supervisor, see ``cgroup``). A tier is tried by entering
it: if that raises ``OSError``, the supervisor starts a fresh zygote one tier lower.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from lit_rl.execution.confinement import kernel, landlock, limits, namespaces, seccomp, visible_files
from lit_rl.execution.confinement.system_calls import NUMBERS

_FIRST_USER, _NUM_USERS = 61184, 4000
_CAP_DAC_READ_SEARCH = 1 << 2
# First versions of Landlock that keep signals from processes outside, and that cover truncation.
_SCOPED_SIGNALS, _GUARDED_TRUNCATION = 6, 3
_M_ARENA_MAX = -8
_HAS_FILTERS = kernel.MACHINE in NUMBERS  # of system calls


class ConfinementProfile(NamedTuple):
    """Permissions of a process and of everything that it starts.

    Args:
        folder: where the process works.
        user: the user that the process becomes, if it is root.
        rules: paths, each with what is allowed there (see ``landlock``); nothing is allowed elsewhere.
        limits: resource limits, for ``limits.lower_rlimits``.
        system_calls: builds the system-call filter, given what it need not guard: whether the signals of a process
            reach only processes that are confined with it, and whether file rules cover truncation.
        alone: whether the process namespace holds no other process.
        file_rules: ``needed``: fail without file rules; ``wanted``: something else hides the files already; ``none``:
            neither file rules nor the filter are needed.
        reads_library_as_root: as root, keep the right to read past permissions if the interpreter's library needs it.
        landlock_version: the newest version of Landlock to use, ``None`` for the kernel's.
    """

    folder: str
    user: int
    rules: tuple[tuple[str, int], ...]
    limits: tuple[tuple[int, int], ...]
    system_calls: Callable[[bool, bool], seccomp.SeccompFilter]
    alone: bool
    file_rules: Literal["needed", "wanted", "none"] = "needed"
    reads_library_as_root: bool = False
    landlock_version: int | None = None


def untrusted_user_id() -> int:
    """Return the user id for untrusted code: an id without an owner if this process is root, else its own id."""
    # This range is the one that systemd hands out for a service's lifetime.
    return _FIRST_USER + os.getpid() % _NUM_USERS if os.geteuid() == 0 else os.geteuid()


def confine(profile: ConfinementProfile) -> None:
    """Give up for good every right that the profile does not name; children and executed programs inherit this.

    Enter namespaces before calling this function: entering takes privileges that are given up here.
    """
    kernel.set_oom_score(1000)
    _give_up_privileges(profile)
    os.chdir(profile.folder)
    limits.lower_rlimits(profile.limits)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    # What /proc shows of this process belongs to root from now on: a neighbour of the same user can open neither its
    # descriptors nor its memory. A process still opens its own.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    # Die with the process that started this one. Set again, because a change of user clears it.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    version = _enforce_file_rules(profile)
    if _HAS_FILTERS:
        keeps_signals = profile.alone or version >= _SCOPED_SIGNALS
        profile.system_calls(keeps_signals, version >= _GUARDED_TRUNCATION).install()
    elif profile.file_rules != "none":
        raise OSError(f"no table of system calls for {kernel.MACHINE}")


def _give_up_privileges(profile: ConfinementProfile) -> None:
    """Become the profile's user without capabilities; a user that is not root only drops what it has.

    One capability, reading past permissions, is kept if the interpreter lies in a folder that only root may enter.
    File rules and the filter still bound what can be read.
    """
    kernel.clear_bounding_set()
    reads = False
    if os.geteuid() == 0:
        kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
        kernel.set_user(profile.user)
        reads = profile.reads_library_as_root and not os.access(os.__file__, os.R_OK, effective_ids=True)
    kernel.set_capabilities(_CAP_DAC_READ_SEARCH if reads else 0)


def _enforce_file_rules(profile: ConfinementProfile) -> int:
    """Set the file rules; return the version of Landlock in force, 0 if there is none."""
    if profile.file_rules == "none":
        return 0
    try:
        return landlock.restrict_file_access(profile.rules, profile.landlock_version)
    except OSError:
        if profile.file_rules == "needed":
            raise
        return 0


class ChildConfinement(NamedTuple):
    """Confinement that each child of a confined zygote still has to apply: filters for Python and compiled programs.

    ``tasks`` is a limit, if the kernel counts the programs' tasks together with the trainer's.
    """

    filters: tuple[seccomp.SeccompFilter | None, seccomp.SeccompFilter | None]
    tasks: limits.SharedThreadLimit | None


def confine_zygote(settings: dict[str, Any], exec_descriptor: int) -> ChildConfinement:
    """Confine this process, a zygote; return the confinement that each child still has to apply.

    ``settings`` are those of ``spawning.ZygoteSettings``, plus ``folder``, the work folder. Compiled programs are
    executed through ``exec_descriptor``. Raise OSError if this machine cannot provide the tier.
    """
    tier, folder, user = int(settings["tier"]), str(settings["folder"]), untrusted_user_id()
    own_tasks = limits.are_threads_counted_alone(tier >= 1)
    tasks = None if own_tasks else limits.SharedThreadLimit()
    # Only its supervisor ends a zygote, by hanging up; signals that a job or a terminal sends to all processes do not.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    if hasattr(kernel.libc, "mallopt"):  # of glibc, where by default each thread reserves 64 MiB of address space
        kernel.libc.mallopt(_M_ARENA_MAX, 2)
    readable = (*settings["packages"], *settings["readable"])
    if tier >= 1:
        namespaces.fork_into_namespaces(user)
        namespaces.replace_root(folder, readable, int(settings["work_bytes"]), user)
        folder = namespaces.WORK_FOLDER
    elif os.geteuid() == 0:
        os.chown(folder, user, user)
    confine(_make_confinement_profile(settings, folder, user, readable, own_tasks))
    if not _HAS_FILTERS:
        return ChildConfinement((None, None), tasks)
    processes = bool(settings["processes"])
    if processes:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    own = seccomp.program_seccomp_filter(processes=processes), seccomp.program_seccomp_filter(exec_descriptor)
    return ChildConfinement(own, tasks)


def _make_confinement_profile(
    settings: dict[str, Any], folder: str, user: int, readable: tuple[str, ...], own_tasks: bool
) -> ConfinementProfile:
    tier, executables = int(settings["tier"]), tuple(settings["executables"])
    read = (*visible_files.stdlib_entries(), *visible_files.visible_system_files(), *readable)
    rules = [(path, landlock.READ) for path in read]
    rules += [(path, landlock.RUN) for path in executables]
    rules += [(path, landlock.DEVICE) for path in visible_files.DEVICES]
    return ConfinementProfile(
        folder=folder,
        user=user,
        rules=(*rules, (folder, landlock.WORK)),
        limits=limits.program_limits(
            int(settings["memory_bytes"]), int(settings["output_bytes"]), own_tasks, bool(settings["reserves"])
        ),
        # Only a compiler may start processes. Above tier 0 all files but the program's own are mounted read-only.
        system_calls=lambda _, truncation: seccomp.zygote_seccomp_filter(
            bool(settings["processes"]), truncation or tier != 0
        ),
        alone=tier >= 1,
        file_rules="none" if tier < 0 else "needed" if tier == 0 else "wanted",
        reads_library_as_root=True,
        landlock_version=settings["landlock_version"],
    )
