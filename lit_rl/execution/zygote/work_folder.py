"""Functions that empty and measure a folder that a program had to itself, whatever the program put there."""

from __future__ import annotations

import contextlib
import os
import stat
import time

_MAX_FILES = 8192
_TRIES = 4
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def clear_folder(path: str, seconds: float = 60.0) -> None:
    """Remove everything in a folder, whatever modes, names and depth it has.

    One folder is open at a time, and the way up is ``..``: no path grows long, nothing recurses, nothing is
    renamed (which file rules may forbid) and no name is needed that a program could have taken. The program must
    be dead. Raise OSError if a part of the content stays, or after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    os.chmod(path, 0o700)
    here = os.open(path, _FOLDER)
    above: list[tuple[str, list[str]]] = []  # the way down: each folder's name, and its siblings still to visit
    try:
        folders = _remove_files_list_folders(here)
        while True:
            if time.monotonic() > deadline:
                raise OSError("the work folder takes too long to empty")
            if folders:
                above.append((folders.pop(), folders))
                here = _move_descriptor_to_folder(here, above[-1][0])
                folders = _remove_files_list_folders(here)
            elif above:
                name, folders = above.pop()
                here = _move_descriptor_to_folder(here, "..")
                os.rmdir(name, dir_fd=here)
            else:
                return
    finally:
        os.close(here)


def _move_descriptor_to_folder(here: int, name: str) -> int:
    """Open the folder ``name`` in place of the folder that is open as ``here``; return the descriptor."""
    if name != "..":
        os.chmod(name, 0o700, dir_fd=here)
    inside = os.open(name, _FOLDER, dir_fd=here)
    os.dup2(inside, here, inheritable=False)  # the caller closes this number, whatever happens
    os.close(inside)
    return here


def _remove_files_list_folders(folder: int) -> list[str]:
    folders = []
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return folders


def folder_is_full(path: str, max_bytes: int, max_files: int = _MAX_FILES) -> bool:
    """Return whether a folder holds more than ``max_bytes``, or more than ``max_files`` files and folders.

    The program may be running. Whatever is gone or closed when we come is counted at the next look. Folders that are
    moved each time we are in them hide something, and count as full.
    """
    for _ in range(_TRIES):
        try:
            is_full = _exceeds_folder_limits(os.open(path, _FOLDER), [max_files, max_bytes])
        except OSError:
            return False
        if is_full is not None:
            return is_full
    return True


def _exceeds_folder_limits(here: int, left: list[int]) -> bool | None:
    """Return whether the folder open as ``here`` exceeds the files and bytes in ``left``; close it.

    Return ``None`` if a folder was moved while we were in it.
    """
    above: list[tuple[int, list[str]]] = []  # the way down: each folder's number, and its subfolders still to visit
    try:
        folders = _deduct_and_list_folders(here, left)
        while min(left) >= 0:
            if folders:
                name = folders.pop()
                try:
                    inside = os.open(name, _FOLDER, dir_fd=here)
                except OSError:  # the running program removed it, or closed it to us
                    _make_folder_readable(here, name)
                    continue
                above.append((os.fstat(here).st_ino, folders))
                os.close(here)
                here = inside
                folders = _deduct_and_list_folders(here, left)
            elif above:
                inode, folders = above.pop()
                with contextlib.suppress(OSError):
                    if os.fstat(_move_descriptor_to_folder(here, "..")).st_ino == inode:
                        continue
                return None
            else:
                return False
        return True
    finally:
        os.close(here)


def _deduct_and_list_folders(folder: int, left: list[int]) -> list[str]:
    """List the folders in a folder; deduct the number and size of everything in it from ``left``."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            left[0] -= 1
            if left[0] < 0:
                break
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                else:
                    left[1] -= entry.stat(follow_symlinks=False).st_blocks * 512
    return folders


def _make_folder_readable(here: int, name: str) -> None:
    """Make a folder readable again that a program of this user closed; never follow a link."""
    try:
        folder = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    except OSError:
        return
    try:
        if not os.fstat(folder).st_mode & stat.S_IRUSR:
            os.chmod(f"/proc/self/fd/{folder}", 0o700)
    except OSError:
        pass
    finally:
        os.close(folder)
