"""Which files of the node a program may read: the standard library, shared libraries, named packages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

_VERSION = (f"python{sys.version_info.major}.{sys.version_info.minor}",)
_SITE = ("site-packages", "dist-packages")
_SYSTEM = (
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
)
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def library_folder() -> str:
    """Folder of the standard library of this interpreter."""
    return os.path.realpath(os.path.dirname(os.__file__))


def system_paths() -> list[str]:
    """Shared libraries and time zones, and what lies beside a Python outside the system's folders."""
    beside = [os.path.join(os.path.realpath(sys.base_exec_prefix), "lib")]
    extra = [entry.path for folder in beside if os.path.isdir(folder) for entry in os.scandir(folder)]
    libraries = [path for path in extra if ".so" in os.path.basename(path)]
    return [path for path in (*_SYSTEM, *libraries) if os.path.lexists(path)]


def library_entries() -> list[str]:
    """What stands in the standard library's folders, one by one, without site packages.

    A rule for a folder cannot except a part of it.
    """
    folders = {library_folder(), os.path.realpath(os.path.join(sys.exec_prefix, sys.platlibdir, *_VERSION))}
    return [entry.path for folder in folders for entry in os.scandir(folder) if entry.name not in _SITE]


def site_folders() -> list[str]:
    """Site packages inside the standard library's folder, to be hidden."""
    return [path for name in _SITE if os.path.isdir(path := os.path.join(library_folder(), name))]


def import_folders(packages: Iterable[str]) -> list[str]:
    """Folders that must be on ``sys.path`` for the given package folders and files to be imported."""
    return sorted({os.path.dirname(path) for path in packages})
