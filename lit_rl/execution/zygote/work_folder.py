"""Emptying and measuring a folder that a program had to itself."""

from __future__ import annotations

import os
import stat

_MOST_FILES = 8192


def empty_folder(path: str) -> None:
    """Remove everything in a folder, whatever modes, names and depth it has.

    Folders found inside folders are first moved to the top, so that no path grows long and nothing recurses.
    The program that made them must be dead.
    """
    with os.scandir(path) as entries:
        if next(entries, None) is None:
            return
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        names = os.listdir(top)
        while names:
            _remove(top, names.pop(), names)
    finally:
        os.close(top)


def _remove(top: int, name: str, names: list[str]) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return
    os.chmod(name, 0o700, dir_fd=top)
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for entry in os.listdir(folder):
            if stat.S_ISDIR(os.stat(entry, dir_fd=folder, follow_symlinks=False).st_mode):
                os.chmod(entry, 0o700, dir_fd=folder)
                moved = f".{len(names)}-{os.fstat(folder).st_ino}"
                os.rename(entry, moved, src_dir_fd=folder, dst_dir_fd=top)
                names.append(moved)
            else:
                os.unlink(entry, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)


def folder_is_full(path: str, most_bytes: int) -> bool:
    """Whether all files beneath take more than ``most_bytes``, or are too many."""
    folders, num_files, num_bytes = [path], 0, 0
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    num_files += 1
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        num_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:  # it changes while we look, and may be closed to us
            continue
        if num_files > _MOST_FILES or num_bytes > most_bytes:
            return True
    return False
