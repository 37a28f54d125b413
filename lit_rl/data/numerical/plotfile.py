"""Reading AMReX plotfiles: a folder with a text ``Header`` and, per level, boxes of cells in binary files.

This module reads only what a comparison needs, with the standard library alone. It reads carefully, since the program
that wrote the files may want to stall or mislead the reader.

Source:
    the format as AMReX writes it (``HyperCLaw-V1.1``): https://amrex-codes.github.io/amrex/docs_html/IO.html
"""

from __future__ import annotations

import array
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

ReadBytes = Callable[[str, int, int], bytes]
"""Function of a path inside the plotfile's folder, an offset and the most bytes to return; may raise OSError."""

MAX_HEADER_LENGTH = 1 << 20
_MAX_LIST_LENGTH = 16 << 20  # of the boxes of a level
_MAX_BOXES = 1 << 16
_INDEX = r"\((-?\d{1,9}(?:,-?\d{1,9}){0,2})\)"
_BOX = re.compile(rf"\({_INDEX} {_INDEX} {_INDEX}\)")
_FAB = re.compile(
    rb"FAB \(\(8, \([\d ]+\)\),\((\d+), \(([\d ]+)\)\)\)"
    rb"(\(\([-\d,]+\) \([-\d,]+\) \([-\d,]+\)\)) (\d+)\n"
)
_FAB_ON_DISK = re.compile(r"FabOnDisk: ([^\s/]{1,255}) (\d{1,18})\b")  # no path: only files of the level's folder
_MAX_FAB_HEADER_LENGTH = 512
_CHUNK = 4096  # cells that are compared at a time


@dataclass(frozen=True)
class CellBox:
    """Cells from ``low`` to ``high``, both included, in each direction."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def num_cells(self) -> int:
        """Number of cells in the box."""
        return math.prod(high - low + 1 for low, high in zip(self.low, self.high, strict=True))


@dataclass(frozen=True)
class MultiLevelField:
    """One variable on all levels.

    Args:
        boxes: per level, the boxes in the order of the file.
        values: per level and box, the cells, first direction fastest.
    """

    boxes: tuple[tuple[CellBox, ...], ...]
    values: tuple[tuple[array.array[float], ...], ...]


class _BudgetedReader:
    """Files of a plotfile, read within one budget of bytes and boxes for all of its levels."""

    def __init__(self, read: ReadBytes, max_bytes: int) -> None:
        self.read, self._left, self.boxes_left = read, max_bytes, _MAX_BOXES

    def read_text_file(self, path: str, longest: int) -> str:
        longest = min(longest, self._left)
        content = self.read(path, 0, longest + 1)
        if len(content) > longest:
            raise ValueError(f"{path} is longer than {longest} bytes")
        self._left -= len(content)
        return content.decode("ascii", "replace")

    def read_array_bytes(self, path: str, offset: int, num_bytes: int) -> bytes:
        if num_bytes > self._left or len(content := self.read(path, offset, num_bytes)) != num_bytes:
            raise ValueError(f"{path} is cut short at byte {offset}, or too much data is left to read")
        self._left -= num_bytes
        return content


def read_plotfile_field(read: ReadBytes, name: str, max_bytes: int = 64 << 20) -> MultiLevelField:
    """Read one variable of a plotfile, from at most ``max_bytes`` of texts and all levels together.

    An OSError, ValueError, LookupError or OverflowError means that the plotfile is broken.
    """
    files = _BudgetedReader(read, max_bytes)
    names, levels = parse_plotfile_header(files.read_text_file("Header", MAX_HEADER_LENGTH))
    found = [_read_level(files, path, names.index(name)) for path in levels]
    return MultiLevelField(tuple(boxes for boxes, _ in found), tuple(values for _, values in found))


def parse_plotfile_header(text: str) -> tuple[list[str], list[str]]:
    """Return the names of the variables, and per level the path of its cells, such as ``Level_0/Cell``."""
    lines = text.split("\n")
    num_variables = int(lines[1])
    names = [line.strip() for line in lines[2 : 2 + num_variables]]
    finest_level = int(lines[2 + num_variables + 2])
    paths = [line.strip() for line in lines[2 + num_variables :] if re.fullmatch(r"Level_\d+/\w+", line.strip())]
    if not len(paths) == len(set(paths)) == finest_level + 1:
        raise ValueError(f"the header announces {finest_level + 1} levels but lists {len(paths)}, such as {paths[:2]}")
    return names, paths


def _read_level(
    files: _BudgetedReader, path: str, component: int
) -> tuple[tuple[CellBox, ...], tuple[array.array[float], ...]]:
    text = files.read_text_file(f"{path}_H", _MAX_LIST_LENGTH)
    # Boxes and arrays are counted before any is built.
    listed = [sum(1 for _ in pattern.finditer(text)) for pattern in (_BOX, _FAB_ON_DISK)]
    files.boxes_left -= listed[0]
    if not listed[0] or listed[0] != listed[1] or files.boxes_left < 0:
        raise ValueError(f"{path}_H lists {listed[0]} boxes and {listed[1]} arrays")
    boxes = tuple(_parse_box(found.groups()) for found in _BOX.finditer(text))
    folder = path.rsplit("/", 1)[0]
    arrays = zip(boxes, _FAB_ON_DISK.findall(text), strict=True)
    return boxes, tuple(
        _read_fab(files, f"{folder}/{name}", int(offset), box, component) for box, (name, offset) in arrays
    )


def _read_fab(files: _BudgetedReader, path: str, offset: int, box: CellBox, component: int) -> array.array[float]:
    # Outside the budget of bytes: there are at most as many such reads as boxes.
    head = _FAB.match(files.read(path, offset, _MAX_FAB_HEADER_LENGTH))
    found = head and _BOX.fullmatch(head[3].decode())
    if not (
        head and found and _parse_box(found.groups()) == box and component < int(head[4]) and head[1] in (b"4", b"8")
    ):
        raise ValueError(f"the array at byte {offset} of {path} is not the one that {path}_H describes")
    width, order = int(head[1]), head[2].split()
    cells: array.array[float] = array.array("d" if width == 8 else "f")
    start = offset + head.end() + component * box.num_cells * width
    cells.frombytes(files.read_array_bytes(path, start, box.num_cells * width))
    # The order lists byte positions: ascending is most significant first.
    if (order[0] == b"1") != (sys.byteorder == "big"):
        cells.byteswap()
    return cells


def _parse_box(groups: Sequence[str]) -> CellBox:
    low, high, kind = (tuple(int(part) for part in group.split(",")) for group in groups)
    if not len(low) == len(high) == len(kind) or any(b < a for a, b in zip(low, high, strict=True)):
        raise ValueError(f"a box has its low and high corners in the wrong order, or in different dimensions: {groups}")
    return CellBox(low, high)


def field_similarity(found: MultiLevelField, reference: MultiLevelField) -> float:
    """Compare a variable with its reference: ``max(0, 1 - |found - reference| / |reference|)``, L2 norms.

    Returns:
        0 to 1; 0 if shapes differ or a value is not finite. Only zeros match a reference of zeros.
    """
    if found.boxes != reference.boxes:
        return 0.0
    distance = norm = 0.0
    for ours, theirs in zip(chain(*found.values), chain(*reference.values), strict=True):
        for start in range(0, len(theirs), _CHUNK):
            expected = theirs[start : start + _CHUNK]
            # dist and hypot scale what they add up, so that no square overflows.
            distance = math.hypot(distance, math.dist(ours[start : start + _CHUNK], expected))
            norm = math.hypot(norm, *expected)
    if not math.isfinite(distance) or not math.isfinite(norm):
        return 0.0
    if norm == 0.0:
        return float(distance == 0.0)
    return max(0.0, 1.0 - distance / norm)
