"""Where a run's plain files are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

METRICS_FILE = "metrics.jsonl"
ROLLOUTS_FILE = "rollouts.jsonl.gz"


def recorded_folders(run: str | Path, file: str = METRICS_FILE) -> list[Path]:
    """Folders at or below a folder that hold such a file, in order of their names."""
    return [found.parent for found in sorted(Path(run).rglob(file))]


def newest_recorded(run: str | Path) -> Path:
    """The folder at or below a folder in which rollouts were recorded last.

    Raises:
        FileNotFoundError: there is none.
    """
    found = recorded_folders(run, ROLLOUTS_FILE)
    if not found and recorded_folders(run):
        raise FileNotFoundError(
            f"no rollout is recorded at or below {run}: the first is not done yet, the run has none, as one of SFT or "
            f"DPO, or RunRecord keeps no rows (max_megabytes: 0); lit-rl report {run} has its numbers"
        )
    if not found:
        raise FileNotFoundError(
            f"no {ROLLOUTS_FILE} at or below {run}: give the folder that a run logged to; RunRecord writes the file "
            "with the first rollout"
        )
    return max(found, key=lambda folder: (folder / ROLLOUTS_FILE).stat().st_mtime)


def short_names(folders: Sequence[Path]) -> list[str]:
    """Names of folders without the parents that all have in common."""
    parts = [folder.absolute().parts for folder in folders]
    if len(parts) == 1:
        return ["/".join(parts[0][-2:])]
    common = 0
    while common < min(map(len, parts)) - 1 and len({part[: common + 1] for part in parts}) == 1:
        common += 1
    names = [list(part[common:]) for part in parts]
    while all(len(name) > 1 for name in names) and len({name[-1] for name in names}) == 1:
        names = [name[:-1] for name in names]  # version_0 of each
    return ["/".join(name) for name in names]
