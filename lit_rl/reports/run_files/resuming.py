"""What happens to the files when a run starts: they are cut where it resumes, so nothing appears twice."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lit_rl.reports.run_files.frames import Frame, read_frames
from lit_rl.reports.run_files.lines import read_lines


def cut_after(path: Path, count: int) -> int:
    """Drop what was recorded after a checkpoint, because the run will repeat it, and any torn end.

    If the run begins at 0 the files are another run's: they are renamed to ``NAME.old``.

    Args:
        path: a file of JSON lines, compressed if it ends in ``.gz``.
        count: rollouts (updates, in a run without rollouts) in the checkpoint.

    Returns:
        the length of the file in bytes, 0 if there is none.
    """
    if not path.exists():
        return 0
    if count == 0:
        os.replace(path, path.with_name(path.name + ".old"))
        return 0
    end = 0
    for frame in _frames(path):
        if frame.items and count_of(frame.items[0]) > count:
            break
        end = frame.end
    os.truncate(path, end)
    return end


def count_of(item: Mapping[str, Any]) -> int:
    """The rollout that a line belongs to, or the update in a run without rollouts."""
    return int(item.get("rollout", item.get("update", 0)))


def _frames(path: Path) -> Iterator[Frame]:
    return read_frames(path) if path.suffix == ".gz" else read_lines(path)
