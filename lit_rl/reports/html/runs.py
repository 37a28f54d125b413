"""What a report knows of each run: numbers, what kind of run it was, and its rollouts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lit_rl.reports.run_files import (
    METRICS_FILE,
    ROLLOUTS_FILE,
    RecordedDiagnosis,
    RecordedRollout,
    read_diagnoses,
    read_lines,
    read_rollouts,
    read_settings,
    recorded_folders,
    short_names,
    without_seeds,
)
from lit_rl.reports.run_files.curves import Curve, recorded_curves

_MEASURE = re.compile(r"val/(?P<sampling>.+?)/(?P<measure>pass@1|reward/mean)")
_KIND = ("method", "model", "lora_rank", "task", "batch_size", "num_samples", "temperature")


@dataclass(frozen=True)
class Run:
    """One run.

    Args:
        name: as its folder is called, without what all runs of the report have in common.
        folder: of its files.
        clock: ``rollout`` or ``update``.
        kind: what it was, of its last start; empty if it was not recorded.
        curves: by name of the number.
        shown: rollouts for the browser.
        endings: how programs ended, in the first and in the last tenth of the recorded rollouts.
        num_recorded: rollouts in the file.
        diagnoses: what was found while it ran.
        settings: by name; empty for a run that was made in Python.
    """

    name: str
    folder: Path
    clock: str
    kind: Mapping[str, Any]
    curves: Mapping[str, Curve]
    shown: Sequence[RecordedRollout] = ()
    endings: tuple[Mapping[str, int], Mapping[str, int]] = field(default_factory=lambda: (Counter(), Counter()))
    num_recorded: int = 0
    diagnoses: Sequence[RecordedDiagnosis] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def measures(self) -> dict[str, str]:
        """By what each sampling of validation is measured, pass@1 or, without programs, the mean reward.

        By the sampling's name, with the task in front where there are several.
        """
        found = [match for name in self.curves if (match := _MEASURE.fullmatch(name))]
        passes = {match["sampling"]: match["measure"] for match in found if match["measure"] == "pass@1"}
        return {match["sampling"]: match["measure"] for match in found} | passes


def read_runs(
    folders: Sequence[str], read_events: Callable[[Path], dict[Path, dict[str, Curve]]], most_rollouts: int
) -> list[Run]:
    """The runs at or below some folders.

    Args:
        folders: as the user gave them.
        read_events: reads curves from the event files below a folder, for runs without plain files.
        most_rollouts: that the browser shows of each run.

    Raises:
        ValueError: nothing was recorded yet.
    """
    found: dict[Path, Run | None] = {}
    for folder in folders:
        recorded = recorded_folders(folder)
        for path in recorded:
            found[path.resolve()] = _recorded(path, most_rollouts)
        if not recorded:
            for path, curves in read_events(Path(folder)).items():
                found[path.resolve()] = Run(str(path), path, "step", {}, curves, settings=read_settings(path))
    runs = [run for run in found.values() if run is not None]
    if not runs:
        raise ValueError(f"nothing was recorded yet in {', '.join(folders)}: look again after the first rollout")
    names = short_names([run.folder for run in runs])
    return [_named(run, name) for run, name in zip(runs, names, strict=True)]


def groups_of(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that differ by their seeds alone stand together; every other run stands for itself."""
    kinds: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        rate = run.curves.get("optimizer/learning_rate", [(0, 0.0)])[0][1]
        settings = frozenset(without_seeds(run.settings).items())
        key = (*(run.kind.get(name) for name in _KIND), rate, run.clock, settings) if run.kind else (run.name,)
        kinds.setdefault(key, []).append(run)
    groups: dict[str, list[Run]] = {}
    for alike in kinds.values():
        seeds = [run.kind.get("seed") for run in alike]
        if len(alike) > 1 and len(set(seeds)) == len(seeds):
            groups[f"{', '.join(run.name for run in alike)} ({len(alike)} seeds)"] = alike
        else:
            groups.update({run.name: [run] for run in alike})
    return groups


def _recorded(folder: Path, most_rollouts: int) -> Run | None:
    """A run from its plain files; ``None`` if there are no numbers yet."""
    curves = recorded_curves(folder)
    if not curves:
        return None
    starts = [frame.items[0] for frame in read_lines(folder / METRICS_FILE) if "start" in frame.items[0]]
    clock = "update" if starts and "update" in starts[-1] else "rollout"
    shown, endings, count = _rollouts(folder, most_rollouts)
    kind, found = starts[-1]["start"] if starts else {}, read_diagnoses(folder)
    return Run(folder.name, folder, clock, kind, curves, shown, endings, count, found, read_settings(folder))


def _rollouts(
    folder: Path, most: int
) -> tuple[list[RecordedRollout], tuple[Mapping[str, int], Mapping[str, int]], int]:
    """Rollouts at equal distances, with the first and the last; endings at the start and at the end."""
    if not (folder / ROLLOUTS_FILE).exists():
        return [], (Counter(), Counter()), 0
    counted = [rollout.endings for rollout in read_rollouts(folder)]
    count = len(counted)
    tenth = max(1, count // 10)
    endings = [sum(map(Counter, part), Counter[str]()) for part in (counted[:tenth], counted[-tenth:])]
    wanted = {round(i * (count - 1) / max(1, most - 1)) for i in range(most)} if count else set()
    shown = [rollout for place, rollout in enumerate(read_rollouts(folder)) if place in wanted]
    return shown, (endings[0], endings[1]), count


def _named(run: Run, name: str) -> Run:
    return replace(run, name=name)
