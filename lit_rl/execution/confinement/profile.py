"""Confining a process before untrusted code runs in it: the one way for programs, compilers and builds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Literal, NamedTuple

from lit_rl.execution.confinement import kernel, landlock, limits
from lit_rl.execution.confinement.bpf import Filter, available

_FIRST_USER, _NUM_USERS = 61184, 4000
_CAP_DAC_READ_SEARCH = 1 << 2
SCOPED_SIGNALS = 6
"""First version of Landlock that keeps signals from processes outside."""

_GUARDED_TRUNCATION = 3


class Guards(NamedTuple):
    """What already guards a process, so that its system-call filter need not.

    Args:
        signals: whether its signals reach only processes that are confined with it.
        truncation: whether file rules cover truncation.
    """

    signals: bool
    truncation: bool


class Profile(NamedTuple):
    """What a process, and everything that it starts, may still do.

    Args:
        folder: where it works.
        user: who it becomes, if it is root.
        rules: paths, each with what is allowed there (see ``landlock``); nothing is allowed elsewhere.
        limits: resource limits, for ``limits.lower``.
        system_calls: builds its system-call filter.
        alone: its process namespace holds no other process.
        file_rules: ``needed``: fail without them; ``wanted``: something else hides the files already; ``none``.
        needs_filter: fail on a machine for which no filter can be built.
        reads_library_as_root: as root, keep the right to read past permissions if the interpreter's library needs it.
        landlock_version: the newest version of Landlock to use, ``None`` for the kernel's.
    """

    folder: str
    user: int
    rules: tuple[tuple[str, int], ...]
    limits: tuple[tuple[int, int], ...]
    system_calls: Callable[[Guards], Filter]
    alone: bool
    file_rules: Literal["needed", "wanted", "none"] = "needed"
    needs_filter: bool = True
    reads_library_as_root: bool = False
    landlock_version: int | None = None


def nobody() -> int:
    """User id for untrusted code: one that nobody owns if this process is root, else its own."""
    # This range is the one that systemd hands out for a service's lifetime.
    return _FIRST_USER + os.getpid() % _NUM_USERS if os.geteuid() == 0 else os.geteuid()


def confine(profile: Profile) -> None:
    """Give up for good what the profile does not name; children and what they execute inherit it.

    Enter namespaces before: that takes privileges which are given up here.

    Raises:
        OSError: if something that the profile needs is not available here.
    """
    _be_killed_first()
    _give_up_privileges(profile)
    os.chdir(profile.folder)
    limits.lower(profile.limits)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    # What /proc shows of this process belongs to root from now on: a neighbour of the same user can open neither its
    # descriptors nor its memory. A process still opens its own.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    # Die with the process that started this one. Set again, because a change of user clears it.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    version = _set_file_rules(profile)
    if available():
        guards = Guards(profile.alone or version >= SCOPED_SIGNALS, version >= _GUARDED_TRUNCATION)
        profile.system_calls(guards).install()
    elif profile.needs_filter:
        raise OSError(f"no table of system calls for {kernel.MACHINE}")


def become(user: int) -> None:
    """Change all ids to ``user``; needs root."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _be_killed_first() -> None:
    """Have the kernel kill the program, not the trainer, when the node or the job runs out of memory."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # worth having, not worth failing for


def _give_up_privileges(profile: Profile) -> None:
    """Become the profile's user without capabilities; a user that is not root only drops what it has.

    One capability, reading past permissions, is kept if the interpreter lies in a folder that only root may enter.
    File rules and the filter still bound what can be read.
    """
    if os.geteuid() != 0:
        kernel.drop_capabilities()
        return
    kernel.empty_bounding_set()
    kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
    become(profile.user)
    reads = profile.reads_library_as_root and not os.access(os.__file__, os.R_OK, effective_ids=True)
    kernel.set_capabilities(_CAP_DAC_READ_SEARCH if reads else 0)


def _set_file_rules(profile: Profile) -> int:
    """Set the file rules; return the version of Landlock in force, 0 if there is none."""
    if profile.file_rules == "none":
        return 0
    try:
        return landlock.restrict_self(profile.rules, profile.landlock_version)
    except OSError:
        if profile.file_rules == "needed":
            raise
        return 0
