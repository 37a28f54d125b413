"""Files of the node that programs and compilers may read: the standard library, libraries, named packages, headers."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

_SITE = ("site-packages", "dist-packages")
LIBRARY_FOLDERS = (
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
)
# Only libraries and objects are shown of these folders, which also hold Python packages that programs must not see.
_LIBRARY_FILES = re.compile(r".*\.(so(\..*)?|[ao])")
_HEADERS = ("/usr/include", "/usr/local/include", "/usr/libexec/gcc", "/usr/local/libexec/gcc")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
# Visible subfolders of a library folder, besides those of a machine type: for compilers, the C library and locales.
_SUBFOLDERS = ("gcc", "gconv", "locale", "ossl-modules", "terminfo")
# Not /dev/zero: memory that is mapped from it counts towards no limit.
DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")


def stdlib_folder() -> str:
    """Return the folder of this interpreter's standard library."""
    return os.path.realpath(os.path.dirname(os.__file__))


def visible_system_files() -> list[str]:
    """List libraries, locales and time zones one by one, because a rule for a folder cannot exclude a part of it."""
    beside = os.path.join(os.path.realpath(sys.base_exec_prefix), "lib")
    folders = {path for path in (*LIBRARY_FOLDERS, beside) if os.path.isdir(path) and not os.path.islink(path)}
    found = [entry.path for folder in sorted(folders) for entry in os.scandir(folder) if _is_visible_to_programs(entry)]
    return [*found, *(path for path in _FILES if os.path.lexists(path))]


def _is_visible_to_programs(entry: os.DirEntry[str]) -> bool:
    if entry.is_dir():
        return "-linux-" in entry.name or entry.name in _SUBFOLDERS
    return _LIBRARY_FILES.fullmatch(entry.name) is not None


def header_folders() -> list[str]:
    """List the folders of headers and compiler parts, which compilers read besides the files that programs read."""
    return [path for path in _HEADERS if os.path.isdir(path)]


def stdlib_entries() -> list[str]:
    """List the entries of the standard library's folders, without site packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = {stdlib_folder(), os.path.realpath(os.path.join(sys.exec_prefix, sys.platlibdir, version))}
    return [entry.path for folder in folders for entry in os.scandir(folder) if entry.name not in _SITE]


def site_packages_folders() -> list[str]:
    """List the site-package folders inside the standard library's folder, which are to be hidden."""
    return [path for name in _SITE if os.path.isdir(path := os.path.join(stdlib_folder(), name))]


def paths_without_hidden(paths: Iterable[str], hidden: Iterable[str]) -> list[str]:
    """Return paths that show the given paths without the hidden paths.

    A file rule cannot exclude a part of a folder, so folders above what is hidden are replaced by their entries.
    """
    hidden = [os.path.realpath(path) for path in hidden]
    found, left = [], [os.path.realpath(path) for path in paths]
    while left:
        path = left.pop()
        if any(is_path_inside(path, folder) for folder in hidden):
            continue
        if not any(is_path_inside(folder, path) for folder in hidden):
            found.append(path)
        elif os.access(path, os.R_OK):  # what links lead to has a rule of its own, or is not to be seen
            left += [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
    return found


def is_path_inside(path: str, folder: str) -> bool:
    """Return whether a path is a folder or lies in it; both without links."""
    return os.path.commonpath((path, folder)) == folder
