"""File rules that a process sets itself, without privileges: Landlock.

Every attempt to open, make, rename or remove a file outside the rules fails. Landlock does not hide that a path exists,
and guards neither modes nor times; the system-call filter and, in tier 1, the mount namespace do so.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

from lit_rl.execution.confinement.kernel import check_libc_result, libc

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on all machines
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE

READ = _READ_FILE | _READ_DIR
RUN = READ | _EXECUTE
DEVICE = _READ_FILE | _WRITE_FILE
WORK = READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE


def landlock_abi_version() -> int:
    """Return the kernel's Landlock version, or 0 if the kernel has no Landlock."""
    return max(0, int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def restrict_file_access(rules: Iterable[tuple[str, int]], newest: int | None = None) -> int:
    """Allow this process and its children the given access beneath the given paths, and nothing else.

    Paths that do not exist are left out. Return the version in force: at most ``newest``, as on an older kernel.
    """
    version = landlock_abi_version() if newest is None else min(newest, landlock_abi_version())
    if not version:
        raise OSError("this kernel has no Landlock: use Linux 5.13 or later with landlock among its LSMs")
    # The kernel refuses a request that holds rights it does not know.
    files = (1 << (13 + (version >= 2) + (version >= 3) + (version >= 5))) - 1
    network = 3 if version >= 4 else 0  # bind and connect: no rule will ever allow one
    scopes = 3 if version >= 6 else 0  # abstract sockets and signals of processes outside
    attributes = struct.pack("=QQQ", files, network, scopes)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = check_libc_result(
        libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0), "landlock_create_ruleset"
    )
    try:
        for path, access in rules:
            _add_path_rule(ruleset, path, access & files)
        check_libc_result(libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)
    return version


def _add_path_rule(ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            access &= _OF_FILES
        rule = struct.pack("=Qi", access, descriptor)
        check_libc_result(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0), f"landlock rule for {path}")
    finally:
        os.close(descriptor)
