"""Plain JSON lines: one object per line; at most the last one is torn."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lit_rl.reports.run_files.frames import SURROGATES, Frame, TornFile


def to_json(item: Mapping[str, Any]) -> str:
    """An object as one line. NaN and infinities, which JSON lacks, must already be ``None``."""
    return json.dumps(item, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def finite(value: float) -> float | None:
    """A number, or ``None`` where JSON cannot hold it."""
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
                warnings.warn(f"{path} is torn: everything after byte {end} is skipped", TornFile, 2)
                return
            end += len(line)
            yield Frame([item], end)
