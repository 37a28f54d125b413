"""JSON lines in compressed frames: one gzip member per rollout, each readable without those after it.

A file of members is an ordinary gzip file: ``zcat rollouts.jsonl.gz | jq`` and ``pandas.read_json`` read it.
"""

from __future__ import annotations

import gzip
import json
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SURROGATES = "backslashreplace"
"""A lone surrogate, which a program's text may contain, becomes its JSON escape and is read back unchanged."""

_CHUNK = 1 << 16
_GZIP = zlib.MAX_WBITS | 16


class TornFile(UserWarning):
    """The end of a file could not be read: the process was killed while it wrote."""


class Frame(NamedTuple):
    """The lines of one write.

    Args:
        items: one per line.
        end: byte of the file after the frame.
    """

    items: list[dict[str, Any]]
    end: int


def append_frame(path: Path, lines: Sequence[str]) -> int:
    """Append lines as one frame, written at once.

    Returns:
        bytes of the frame.
    """
    data = gzip.compress("".join(f"{line}\n" for line in lines).encode(errors=SURROGATES), compresslevel=6, mtime=0)
    with path.open("ab") as file:
        file.write(data)
    return len(data)


def read_frames(path: Path) -> Iterator[Frame]:
    """The whole frames of a file, in order; the rest of a torn file is skipped with a warning."""
    end = 0
    with path.open("rb") as file:
        left = b""
        while left := left or file.read(_CHUNK):
            member, parts = zlib.decompressobj(_GZIP), []
            start = end
            try:
                while not member.eof and left:
                    parts.append(member.decompress(left))
                    end += len(left) - len(member.unused_data)
                    left = member.unused_data if member.eof else file.read(_CHUNK)
                if not member.eof:
                    raise EOFError
                items = [json.loads(line) for line in b"".join(parts).splitlines()]
            except (zlib.error, EOFError, ValueError):
                warnings.warn(f"{path} is torn: everything after byte {start} is skipped", TornFile, 2)
                return
            yield Frame(items, end)
