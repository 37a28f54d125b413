"""The numbers of a run as curves."""

from __future__ import annotations

from pathlib import Path

from lit_rl.reports.run_files.folders import METRICS_FILE
from lit_rl.reports.run_files.lines import read_lines

Curve = list[tuple[int, float]]
"""(rollouts or updates done, value), in order."""

_NO_METRICS = ("rollout", "update", "time", "start", "diagnosis")


def recorded_curves(folder: str | Path) -> dict[str, Curve]:
    """Every number that a run recorded, by name."""
    curves: dict[str, dict[int, float]] = {}
    for frame in read_lines(Path(folder) / METRICS_FILE):
        (item,) = frame.items
        for name, value in item.items():
            if name not in _NO_METRICS and value is not None:
                curves.setdefault(name, {})[item["rollout" if "rollout" in item else "update"]] = value
    return {name: sorted(points.items()) for name, points in curves.items()}
