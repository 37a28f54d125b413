"""Read files that somebody else may have made: only regular files, and only as much as their size allows.

A name in the folder of a run may lead to a device or a pipe, which never end. A gzip file may expand to a thousand
times its size, and YAML whose aliases repeat lists may expand to far more.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import yaml

from lit_rl.errors import UsageError

_FREE_BYTES = 64 << 20
_MAX_TIMES = 50
_MAX_VALUES = 1 << 20


def open_regular_file(path: Path) -> BinaryIO:
    """Open a regular file to read its bytes; a device, a pipe or a folder raises UsageError."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file: remove it, or put a regular file there")
    return path.open("rb")


def max_unpacked_bytes(packed_bytes: int) -> int:
    """Return the largest number of bytes to which a gzip file may expand: 64 MiB plus 50 times its size."""
    return _FREE_BYTES + _MAX_TIMES * packed_bytes


def decompression_bomb_error(path: Path) -> UsageError:
    """Return the error for a file that expands to more than :func:`max_unpacked_bytes`."""
    return UsageError(
        f"{path} expands to more than {_FREE_BYTES >> 20} MiB and {_MAX_TIMES} times its size, like a "
        "decompression bomb: unpack it with gunzip if you trust it"
    )


def open_text_or_gzip(path: Path, encoding: str) -> TextIO:
    """Open a regular file to read its text; a gzip file is unpacked while it is read."""
    file = open_regular_file(path)
    return io.TextIOWrapper(
        io.BufferedReader(_BoundedGzipReader(path, file)) if path.suffix == ".gz" else file, encoding
    )


def load_bounded_yaml(text: str) -> Any:
    """Return the value of a YAML text; raise UsageError if aliases repeat its parts into a million values."""
    value = yaml.safe_load(text)
    if _count_yaml_values(value, {}) > _MAX_VALUES:
        raise UsageError(f"YAML with aliases holds more than {_MAX_VALUES:,} values: write aliases out, or use fewer")
    return value


def _count_yaml_values(value: Any, counts: dict[int, int]) -> int:
    if id(value) not in counts:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        counts[id(value)] = 1 + sum(_count_yaml_values(part, counts) for part in parts)
    return counts[id(value)]


class _BoundedGzipReader(io.RawIOBase):
    """A reader of a gzip file that raises after as many bytes as the file's size allows."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._packed = path, file
        self._file = gzip.GzipFile(fileobj=file, mode="rb")
        self._left = max_unpacked_bytes(path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise decompression_bomb_error(self._path)
        return count

    def close(self) -> None:
        self._packed.close()
        super().close()
