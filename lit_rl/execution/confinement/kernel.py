"""System calls that Python has no function for, made through the C library."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
# For code that runs in every fork, where each page that is touched must be copied. This ``fork`` is the C function
# (-1 on failure): ``os.fork`` also re-creates the locks of threads in each child, and a zygote has no threads.
# ``PyDLL`` calls neither release the interpreter's lock nor keep ``errno``.
_bare = ctypes.PyDLL(None)
fork, bare_prctl, bare_setrlimit = _bare.fork, _bare.prctl, _bare.setrlimit
_set_mask, _no_signals = _bare.sigprocmask, ctypes.create_string_buffer(128)
_SIG_SETMASK = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP = 1, 4, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NAME = 36, 15
PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 8, 38, 24

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE, MS_NOATIME = 4096, 16384, 1 << 18, 1024
MNT_DETACH = 2

MACHINE = os.uname().machine
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPABILITY_VERSION_3 = 0x20080522


def check_libc_result(result: int, what: str) -> int:
    """Return the result of a call, or raise its error as an ``OSError`` that says what was tried."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, *arguments: int) -> None:
    """Call ``prctl`` with unsigned long arguments."""
    padded = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    check_libc_result(libc.prctl(option, *padded), f"prctl {option}")


def unblock_signals() -> None:
    """Block no signal from now on."""
    _set_mask(_SIG_SETMASK, _no_signals, None)


def has_released_memory(pid: int) -> bool:
    """Return whether a process has given its memory back, as an exiting process does before its files are closed.

    Return False if the kernel does not say so. A first thread that ended before the others has no memory, either.
    """
    byte = ctypes.create_string_buffer(1)
    here, nowhere = (ctypes.c_size_t * 2)(ctypes.addressof(byte), 1), (ctypes.c_size_t * 2)(0, 1)
    one, no_flags = ctypes.c_ulong(1), ctypes.c_ulong(0)
    result = libc.process_vm_readv(pid, here, one, nowhere, one, no_flags)
    return result < 0 and ctypes.get_errno() == errno.ESRCH


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Call ``mount``, with the file system type as ``kind``."""
    arguments = source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    check_libc_result(libc.mount(*arguments), f"mount {kind or source} on {target}")


def pivot_root(new: str, old: str) -> None:
    """Make ``new`` the root; the old root appears at ``old``."""
    check_libc_result(libc.syscall(_PIVOT_ROOT[MACHINE], new.encode(), old.encode()), "pivot_root")


def set_user(user: int) -> None:
    """Change all ids to ``user``; needs root."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def set_oom_score(score: int) -> None:
    """Set the OOM score: when memory runs out, the kernel kills this process before the trainer."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # not worth failing for
        file.write(str(score))


def clear_bounding_set() -> None:
    """Forbid executed programs to gain capabilities; without the privilege to do so, fail silently."""
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break


def set_capabilities(mask: int) -> None:
    """Make ``mask`` the effective and permitted capabilities, and nothing inheritable."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    check_libc_result(libc.capset(header, data), "capset")
