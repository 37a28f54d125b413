"""Reading AMReX plotfiles: a folder with a text ``Header`` and, per level, boxes of cells in binary files.

Reads only what a comparison needs, with the standard library alone, and carefully: the program that wrote the files
may want to stall or mislead its reader.

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

ReadBytes = Callable[[str], bytes]
"""From a path inside the plotfile's folder to the file's content; may raise OSError."""

_BOX = re.compile(r"\(\(([-\d,]+)\) \(([-\d,]+)\) \(([-\d,]+)\)\)")
_FAB = re.compile(
    rb"FAB \(\(8, \([\d ]+\)\),\((\d+), \(([\d ]+)\)\)\)"
    rb"(\(\([-\d,]+\) \([-\d,]+\) \([-\d,]+\)\)) (\d+)\n"
)
_FAB_ON_DISK = re.compile(r"FabOnDisk: (\S+) (\d+)")
_LONGEST_FAB_HEADER = 512


class PlotfileError(ValueError):
    """Not a plotfile, or not a whole one."""


@dataclass(frozen=True)
class Box:
    """Cells from ``low`` to ``high``, both included, in each direction."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def num_cells(self) -> int:
        """Number of cells in it."""
        return math.prod(high - low + 1 for low, high in zip(self.low, self.high, strict=True))


@dataclass(frozen=True)
class Variable:
    """One variable on all levels.

    Args:
        boxes: per level, the boxes in the order of the file.
        values: per level and box, the cells, first direction fastest.
    """

    boxes: tuple[tuple[Box, ...], ...]
    values: tuple[tuple[array.array[float], ...], ...]


def read_variable(read: ReadBytes, name: str, most_bytes: int = 64 << 20) -> Variable:
    """One variable of a plotfile.

    Args:
        read: reads a file of the plotfile's folder.
        name: name of the variable in the header.
        most_bytes: most binary data to read, in bytes.

    Raises:
        PlotfileError: a file is missing, broken or too long, or there is no such variable.
    """
    try:
        names, levels = read_header(read("Header").decode("ascii", "replace"))
        if name not in names:
            raise PlotfileError(f"no variable {name!r} among {names}")
        found = [_read_level(read, path, names.index(name), len(names), most_bytes) for path in levels]
    except (OSError, ValueError, IndexError, OverflowError, MemoryError) as error:
        if isinstance(error, PlotfileError):
            raise
        raise PlotfileError(f"broken plotfile: {type(error).__name__}: {error}") from None
    return Variable(tuple(boxes for boxes, _ in found), tuple(values for _, values in found))


def read_header(text: str) -> tuple[list[str], list[str]]:
    """Names of the variables, and per level the path of its cells, such as ``Level_0/Cell``.

    Raises:
        PlotfileError: not a header.
    """
    lines = text.split("\n")
    if not lines[0].startswith(("HyperCLaw-V", "NavierStokes-V")):
        raise PlotfileError(f"a plotfile's header begins with HyperCLaw-V1.1, got {lines[0][:40]!r}")
    num_variables = int(lines[1])
    if not 0 < num_variables <= 10_000:
        raise PlotfileError(f"{num_variables} variables")
    names = [line.strip() for line in lines[2 : 2 + num_variables]]
    finest_level = int(lines[2 + num_variables + 2])
    paths = [line.strip() for line in lines[2 + num_variables :] if re.fullmatch(r"Level_\d+/\w+", line.strip())]
    if len(paths) != finest_level + 1:
        raise PlotfileError(f"{finest_level + 1} levels announced, {len(paths)} listed")
    return names, paths


def _read_level(
    read: ReadBytes, path: str, component: int, num_components: int, most_bytes: int
) -> tuple[tuple[Box, ...], tuple[array.array[float], ...]]:
    text = read(f"{path}_H").decode("ascii", "replace")
    boxes = tuple(_box(found.groups()) for found in _BOX.finditer(text))
    arrays = [(name, int(offset)) for name, offset in _FAB_ON_DISK.findall(text)]
    if not boxes or len(boxes) != len(arrays):
        raise PlotfileError(f"{path}_H lists {len(boxes)} boxes and {len(arrays)} arrays")
    if sum(box.num_cells for box in boxes) * 8 * num_components > most_bytes:
        raise PlotfileError(f"{path} has more than {most_bytes} bytes of data")
    folder = path.rsplit("/", 1)[0]
    files: dict[str, bytes] = {}
    values = []
    for box, (name, offset) in zip(boxes, arrays, strict=True):
        if "/" in name:
            raise PlotfileError(f"{name!r} is outside the level's folder")
        if name not in files:
            files[name] = read(f"{folder}/{name}")
        values.append(_read_fab(files[name], offset, box, component))
    return boxes, tuple(values)


def _read_fab(content: bytes, offset: int, box: Box, component: int) -> array.array[float]:
    head = _FAB.match(content, offset, offset + _LONGEST_FAB_HEADER)
    if head is None:
        raise PlotfileError(f"no array at byte {offset}")
    width, order, shape, num_components = int(head[1]), head[2].split(), head[3].decode(), int(head[4])
    found = _BOX.fullmatch(shape)
    if found is None or _box(found.groups()) != box or component >= num_components or width not in (4, 8):
        raise PlotfileError(f"the array at byte {offset} is not the one announced")
    start = head.end() + component * box.num_cells * width
    data = content[start : start + box.num_cells * width]
    if len(data) != box.num_cells * width:
        raise PlotfileError(f"the array at byte {offset} is cut short")
    cells: array.array[float] = array.array("d" if width == 8 else "f")
    cells.frombytes(data)
    # The order lists byte positions: ascending is most significant first.
    if (order[0] == b"1") != (sys.byteorder == "big"):
        cells.byteswap()
    return cells


def _box(groups: Sequence[str]) -> Box:
    low, high, kind = (tuple(int(part) for part in group.split(",")) for group in groups)
    if not len(low) == len(high) == len(kind) or any(b < a for a, b in zip(low, high, strict=True)):
        raise PlotfileError(f"not a box: {groups}")
    return Box(low, high)


def similarity(found: Variable, reference: Variable) -> float:
    """How close a variable is to its reference: ``max(0, 1 - |found - reference| / |reference|)``, L2 norms.

    Returns:
        0 to 1; 0 if shapes differ or a value is not finite. Only zeros match a reference of zeros.
    """
    if found.boxes != reference.boxes:
        return 0.0
    difference = norm = 0.0
    for ours, theirs in zip(_cells(found), _cells(reference), strict=True):
        difference += math.fsum((a - b) * (a - b) for a, b in zip(ours, theirs, strict=True))
        norm += math.fsum(b * b for b in theirs)
    if not math.isfinite(difference):
        return 0.0
    if norm == 0.0:
        return float(difference == 0.0)
    return max(0.0, 1.0 - math.sqrt(difference / norm))


def _cells(variable: Variable) -> list[array.array[float]]:
    return [cells for level in variable.values for cells in level]
