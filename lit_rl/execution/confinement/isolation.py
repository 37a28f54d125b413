"""What a zygote does to itself before it serves, so that every program it forks is confined.

Tiers, each with what the lower ones have: 0 a system-call filter, file rules and resource limits; 1
namespaces; 2 a control group (made by the supervisor, see ``cgroup``). A tier is tried by doing it; what
fails is an
``OSError`` with the reason, and the supervisor starts a fresh zygote one tier lower.
"""

from __future__ import annotations

import os
import signal
from typing import Any, NoReturn

from lit_rl.execution.confinement import kernel, landlock, namespaces, seccomp, visible_files
from lit_rl.execution.confinement.limits import set_limits
from lit_rl.execution.program_side import child

# Users in this range belong to nobody: it is the one systemd hands out for a service's lifetime.
_FIRST_USER, _NUM_USERS = 61184, 4000
_CAP_DAC_READ_SEARCH = 1 << 2


def isolate(settings: dict[str, Any]) -> tuple[seccomp.Filter | None, seccomp.Filter | None]:
    """Confine this process; what each child has still to install, for Python and for compiled programs.

    Args:
        settings: those of ``spawning.ZygoteSettings``, and ``folder``, the work folder.

    Raises:
        OSError: if the tier cannot be had here.
    """
    tier, folder = int(settings["tier"]), str(settings["folder"])
    readable = (*settings["packages"], *settings["readable"])
    executables = tuple(settings["executables"])
    _be_killed_first()
    user = _FIRST_USER + os.getpid() % _NUM_USERS if os.geteuid() == 0 else os.geteuid()
    if tier >= 1:
        _enter_namespaces(folder, readable, int(settings["work_bytes"]), user)
        folder = namespaces.BOX
    elif os.geteuid() == 0:
        os.chown(folder, user, user)
    _give_up_privileges(user)
    os.chdir(folder)
    set_limits(int(settings["memory_bytes"]), int(settings["output_bytes"]))
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if tier < 0:
        return _filters(executables) if seccomp.available() else (None, None)
    try:
        landlock.restrict_self(_rules(folder, readable, executables), settings["landlock_version"])
    except OSError:
        if tier == 0:  # above, the mount namespace hides the files
            raise
    if not seccomp.available():
        raise OSError(f"no table of system calls for {kernel.MACHINE}")
    return _filters(executables)


def _be_killed_first() -> None:
    """When the node or the job runs out of memory, the program goes, not the trainer."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # worth having, not worth failing for


def _enter_namespaces(folder: str, readable: tuple[str, ...], work_bytes: int, user: int) -> None:
    if os.geteuid() == 0:
        try:
            namespaces.enter_as_root()
        except OSError:  # root of a container, without the capability: as an ordinary user would
            _give_up_privileges(user)
            namespaces.enter_as_user()
    else:
        namespaces.enter_as_user()
    pid = os.fork()
    if pid:
        _wait_for(pid)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    namespaces.build_root(folder, readable, work_bytes, user)


def _wait_for(pid: int) -> NoReturn:
    """The process outside: it lives as long as the first process of the new process namespace."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.closerange(3, 1 << 16)
    os.waitpid(pid, 0)
    os._exit(0)


def _give_up_privileges(user: int) -> None:
    """Become ``user`` without capabilities; a user that is not root only drops what it has.

    One is kept where the interpreter lies in a folder that only root may enter: to read past permissions.
    File rules and the filter still bound what can be read.
    """
    if os.geteuid() != 0:
        kernel.drop_capabilities()
        return
    for capability in range(64):
        if kernel.libc.prctl(kernel.PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break
    kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    kernel.set_capabilities(0 if _library_is_readable() else _CAP_DAC_READ_SEARCH)


def _library_is_readable() -> bool:
    return os.access(os.__file__, os.R_OK, effective_ids=True)


def _rules(folder: str, also: tuple[str, ...], executables: tuple[str, ...]) -> list[tuple[str, int]]:
    readable = (*visible_files.library_entries(), *visible_files.system_paths(), *also)
    rules = [(path, landlock.READ) for path in readable]
    rules += [(path, landlock.RUN) for path in executables]
    rules += [(path, landlock.DEVICE) for path in visible_files.DEVICES]
    return [*rules, (folder, landlock.WORK)]


def _filters(executables: tuple[str, ...]) -> tuple[seccomp.Filter, seccomp.Filter]:
    """Install the zygote's filter; those of its children. Processes are for a compiler only."""
    processes = bool(executables)
    if processes:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    seccomp.zygote_filter(processes).install()
    return seccomp.program_filter(processes=processes), seccomp.program_filter(child.PROGRAM)
