"""Plain JSON lines: one object per line, the last one torn at most."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lit_rl.run_files.frames import SURROGATES, Frame, TornFile


def to_json(item: Mapping[str, Any]) -> str:
    """An object as one line. NaN and infinities, which JSON does not have, must have become ``None`` before."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def finite(value: float) -> float | None:
    """A number as JSON can hold it."""
    return value if math.isfinite(value) else None


def append_line(path: Path, item: Mapping[str, Any]) -> None:
    """Append one object, written at once."""
    with path.open("ab") as file:
        file.write(to_json(item).encode(errors=SURROGATES) + b"\n")


def read_lines(path: Path) -> Iterator[Frame]:
    """The objects of a file, each as a frame of its own; a torn last line is skipped with a warning."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            try:
                if not line.endswith(b"\n"):
                    raise ValueError
                item = json.loads(line)
            except ValueError:
                warnings.warn(f"{path}: what was written after byte {end} is torn and is skipped", TornFile, 2)
                return
            end += len(line)
            yield Frame([item], end)
