"""The runs at or below some folders, as reports show them: numbers, settings, diagnoses and rollouts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lit_rl.errors import UsageError
from lit_rl.run_files.files import METRICS_FILE, ROLLOUTS_FILE, read_metrics, read_rollouts
from lit_rl.run_files.records import Curve, Diagnosis, RecordedRollout
from lit_rl.run_files.settings import read_settings, setting_texts_by_name, settings_without_seeds

_MEASURE = re.compile(r"val/(?P<sampling>.+?)/(?P<measure>pass@1|reward/mean)")
_KIND = ("method", "model", "lora_rank", "task", "batch_size", "num_samples", "temperature")


@dataclass(frozen=True)
class Run:
    """One run; ``clock`` is ``rollout`` or ``update``.

    ``name`` is the folder's name without the parts that all runs of the report share, ``kind`` describes the last start
    of the run, and ``settings`` has its settings by name. ``endings`` counts how programs ended, in the first and in
    the last tenth of the recorded rollouts; ``shown`` has the rollouts for the page.
    """

    name: str
    folder: Path
    clock: str
    kind: Mapping[str, Any]
    curves: Mapping[str, Curve]
    diagnoses: Sequence[Diagnosis]
    settings: Mapping[str, str]
    shown: Sequence[RecordedRollout] = ()
    endings: tuple[Mapping[str, int], Mapping[str, int]] = field(default_factory=lambda: (Counter(), Counter()))
    num_recorded: int = 0

    @property
    def has_diagnostics(self) -> bool:
        """True if :class:`lit_rl.callbacks.Diagnostics` was on at the run's last start."""
        return bool(self.kind.get("diagnosed"))

    @property
    def last_diagnosis_per_rule(self) -> list[tuple[Diagnosis, str]]:
        """The last diagnosis of each rule and when its diagnoses held, in the order of each rule's first diagnosis."""
        episodes: dict[str, list[Diagnosis]] = {}
        for one in self.diagnoses:
            episodes.setdefault(one.rule, []).append(one)
        found = []
        for of_rule in episodes.values():
            times = [one.rollouts_text for one in of_rule]
            several = times if len(times) < 4 else [times[0], "...", times[-1]]
            found.append((of_rule[-1], times[0] if len(times) == 1 else f"{len(times)} times: {', '.join(several)}"))
        return found

    @property
    def validation_metric_names(self) -> dict[str, str]:
        """Metric of each validation sampling: pass@1 or, without programs, the mean reward.

        The keys are names of samplings, with the task in front if there are several tasks.
        """
        found = [match for name in self.curves if (match := _MEASURE.fullmatch(name))]
        passes = {match["sampling"]: match["measure"] for match in found if match["measure"] == "pass@1"}
        return {match["sampling"]: match["measure"] for match in found} | passes


def find_run_folders(run: str | Path) -> list[Path]:
    """Return the folders with metrics at or below a folder, one per run: a resumed run stays in its folder."""
    files = sorted(Path(run).rglob(METRICS_FILE))
    if not files:
        raise FileNotFoundError(f"no {METRICS_FILE} at or below {run}: give the folder that a run logs to")
    return [file.parent for file in files]


def read_runs(folders: Sequence[str]) -> list[Run]:
    """Read the runs at or below some folders, each once, without their rollouts."""
    paths: dict[Path, Path] = {}
    for path in (path for folder in folders for path in find_run_folders(folder)):
        paths.setdefault(path.resolve(), path)
    runs = []
    for folder in paths.values():
        recorded = read_metrics(folder)
        if recorded.curves:
            kind, recorded_settings = recorded.start, recorded.start.get("settings")
            settings = read_settings(folder) or setting_texts_by_name(
                recorded_settings if isinstance(recorded_settings, Mapping) else {}
            )
            runs.append(Run(folder.name, folder, recorded.clock, kind, recorded.curves, recorded.diagnoses, settings))
    if not runs:
        raise UsageError(f"no numbers yet in {', '.join(folders)}: try again after the first rollout")
    names = run_labels([run.folder.resolve() for run in runs])
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def add_recorded_rollouts(run: Run, most: int) -> Run:
    """Return a run with its endings and with evenly spaced rollouts, the first and the last among them."""
    if not (run.folder / ROLLOUTS_FILE).exists():
        return run
    counted = [rollout.endings for rollout in read_rollouts(run.folder)]
    count = len(counted)
    tenth = max(1, count // 10)
    first, last = (sum(map(Counter, part), Counter[str]()) for part in (counted[:tenth], counted[-tenth:]))
    wanted = {round(i * (count - 1) / max(1, most - 1)) for i in range(most)} if count else set()
    shown = [rollout for place, rollout in enumerate(read_rollouts(run.folder)) if place in wanted]
    return replace(run, shown=shown, endings=(first, last), num_recorded=count)


def group_runs_by_settings(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Group runs that differ only by their seeds; every other run is a group of its own."""
    kinds: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        rate = run.curves.get("optimizer/learning_rate", [(0, 0.0)])[0][1]
        settings = frozenset(settings_without_seeds(run.settings).items())
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


def run_labels(folders: Sequence[Path]) -> list[str]:
    """Return names for folders, without the parents that all of them share."""
    parts = [folder.absolute().parts for folder in folders]
    if len(parts) == 1:
        return ["/".join(parts[0][-2:])]
    common = 0
    while common < min(map(len, parts)) - 1 and len({part[: common + 1] for part in parts}) == 1:
        common += 1
    names = [list(part[common:]) for part in parts]
    while all(len(name) > 1 for name in names) and len({name[-1] for name in names}) == 1:
        names = [name[:-1] for name in names]  # drop version_0 from each
    return ["/".join(name) for name in names]
