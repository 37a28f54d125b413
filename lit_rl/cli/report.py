"""``lit-rl report RUN...``: a table, a picture and a page of what was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from lit_rl.reports.run_files import (
    CONFIG_FILE,
    METRICS_FILE,
    differences,
    read_diagnoses,
    read_settings,
    recorded_folders,
    short_names,
    was_watched,
)
from lit_rl.reports.run_files.curves import recorded_curves

DEFAULT_METRICS = (
    "val/*pass@*",
    "val/*reward/mean",
    "val/*loss",
    "reward/mean",
    "execution/pass_rate",
    "sft/loss",
    "dpo/loss",
    "dpo/accuracy",
    "completion/length",
)
"""What is listed unless metrics are named; the mean reward of a validation only where it has no pass@k."""

Curve = list[tuple[int, float]]
"""(step, value) in order of steps; of a step that was repeated after a resume, the last value counts."""


def report(arguments: Sequence[str]) -> None:
    """Print a run's metrics, what differs between runs, and what Diagnostics found; draw curves; write a page.

    Each folder with TensorBoard event files at or below RUN counts as one run; without such files, each with a
    metrics.jsonl.
    """
    parser = ArgumentParser(prog="lit-rl report", description=report.__doc__, exit_on_error=False)
    parser.add_argument("runs", nargs="+", type=str, help="folders of runs")
    parser.add_argument("--metrics", type=str, help="names or patterns such as 'val/*', with commas between them")
    parser.add_argument("--picture", type=str, help="write the curves to this PNG file (needs the extra `plots`)")
    parser.add_argument("--html", type=str, help="write a page with curves, verdicts, tables and rollouts to this file")
    parser.add_argument("--rollouts", type=int, default=25, help="rollouts of each run that the page shows")
    parsed = parser.parse_args(list(arguments))
    require_files(html=parsed.html, picture=parsed.picture)
    curves = {str(folder): read_curves(folder) for run in parsed.runs for folder in folders_of(run)}
    chosen = choose(curves, DEFAULT_METRICS if parsed.metrics is None else names_in(parsed.metrics))
    if parsed.metrics is None:
        chosen = {run: without_rewards_beside_passes(of_run) for run, of_run in chosen.items()}
    print(as_table(chosen))
    for line in (*differing(parsed.runs), *diagnosed(parsed.runs)):
        print(line)
    if parsed.picture:
        draw(chosen, parsed.picture)
        print(f"picture: {parsed.picture}")
    if parsed.html:
        from lit_rl.reports.html import read_runs, write_page

        runs = read_runs(parsed.runs, read_events, parsed.rollouts)
        write_page(runs, parsed.html, None if parsed.metrics is None else names_in(parsed.metrics))
        print(f"page: {parsed.html}")


def require_files(html: str | None, picture: str | None) -> None:
    """Check, before anything is read, that what is written to are no folders.

    Raises:
        ValueError: one is.
    """
    for option, file, name in (("html", html, "report.html"), ("picture", picture, "report.png")):
        if file is not None and Path(file).is_dir():
            raise ValueError(f"--{option} {file} is a folder: give a file, such as {Path(file) / name}")


def folders_of(run: str | Path) -> list[Path]:
    """Folders of event files at or below a folder, one for each run: a resumed run stays in its own.

    Raises:
        FileNotFoundError: there is no event file and no metrics.jsonl.
    """
    files = sorted(Path(run).rglob("events.out.tfevents.*")) or sorted(Path(run).rglob(METRICS_FILE))
    if not files:
        raise FileNotFoundError(f"no TensorBoard event files below {run}: give the folder that a run logged to")
    return list(dict.fromkeys(file.parent for file in files))


def read_curves(run: str | Path) -> dict[str, Curve]:
    """All scalar metrics of the run that logged below a folder.

    Raises:
        FileNotFoundError: there is no event file.
    """
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    curves: dict[str, dict[int, float]] = {}
    for folder in folders_of(run):
        if not any(folder.glob("events.out.tfevents.*")):
            curves |= {name: dict(curve) for name, curve in recorded_curves(folder).items()}
            continue
        accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        accumulator.Reload()
        for name in accumulator.Tags()["scalars"]:
            points = curves.setdefault(name, {})
            # By the time of writing: the names of files of the same second say nothing about their order.
            events = sorted(accumulator.Scalars(name), key=lambda event: event.wall_time)
            points.update((event.step, event.value) for event in events)
    return {name: sorted(points.items()) for name, points in curves.items() if name != "epoch"}


def read_events(run: Path) -> dict[Path, dict[str, Curve]]:
    """Curves of the runs below a folder that have event files only."""
    return {folder: read_curves(folder) for folder in folders_of(run)}


def names_in(text: str) -> list[str]:
    """Names separated by commas; brackets and quotes around them, as in YAML, are allowed."""
    return [name for part in text.strip("[] ").split(",") if (name := part.strip(" '\""))]


def choose(curves: Mapping[str, Mapping[str, Curve]], wanted: Sequence[str]) -> dict[str, dict[str, Curve]]:
    """The wanted curves of each run.

    Raises:
        ValueError: no run recorded anything, or none recorded what was asked for; the message says what there is.
    """
    chosen = {run: select(of_run, wanted) for run, of_run in curves.items()}
    known = sorted({name for of_run in curves.values() for name in of_run})
    if not known:
        raise ValueError(f"nothing was recorded yet in {', '.join(curves)}: look again after the first rollout")
    if not any(chosen.values()):
        near = get_close_matches(wanted[0], known, n=3, cutoff=0.5) or known
        shown = ", ".join(near[:12]) + (", ..." if len(near) > 12 else "")
        raise ValueError(f"no metric is called {', '.join(wanted)}; there are: {shown}")
    return chosen


def select(curves: Mapping[str, Curve], wanted: Sequence[str]) -> dict[str, Curve]:
    """The curves whose name matches one of the patterns, in the order of the patterns."""
    from fnmatch import fnmatchcase

    return {name: curves[name] for pattern in wanted for name in sorted(curves) if fnmatchcase(name, pattern)}


def without_rewards_beside_passes(curves: Mapping[str, Curve]) -> dict[str, Curve]:
    """The curves without the mean reward of validations that have pass@k."""
    passes = {name.partition("/pass@")[0] for name in curves if "/pass@" in name}
    return {name: curve for name, curve in curves.items() if name.removesuffix("/reward/mean") not in passes}


def differing(runs: Sequence[str]) -> Iterator[str]:
    """The settings that differ between runs, a line for each."""
    folders = list(dict.fromkeys(folder.resolve() for run in runs for folder in recorded_folders(run)))
    labels = short_names(folders) if folders else []
    settings = {label: read_settings(folder) for label, folder in zip(labels, folders, strict=True)}
    found, without = differences(settings), [label for label, of_run in settings.items() if not of_run]
    width = max((len(one.name) for one in found), default=0)
    yield from ["what differs:"] if found else []
    for one in found:
        values = "; ".join(f"{value} in {', '.join(names)}" for value, names in one.runs.items())
        yield f"  {one.name:{width}}  {values}"
    if without and len(settings) > 1:
        yield f"settings not compared, since no {CONFIG_FILE} can be read beside the numbers: {', '.join(without)}"


def diagnosed(runs: Sequence[str]) -> Iterator[str]:
    """What was found wrong with each recorded run, a line for each; that nothing was, where somebody watched."""
    for folder in dict.fromkeys(folder for run in runs for folder in recorded_folders(run)):
        found = read_diagnoses(folder)
        yield from (f"{folder}  {one.line()}" for one in found)
        if not found and was_watched(folder):
            yield f"{folder}  no diagnosis"


def as_table(runs: Mapping[str, Mapping[str, Curve]]) -> str:
    """First, best (largest) and last value of each curve, as text."""
    rows: list[tuple[str, ...]] = [("run", "metric", "points", "first", "largest", "last")]
    for run, curves in runs.items():
        for name, curve in curves.items():
            values = [value for _, value in curve]
            numbers = (f"{value:.4g}" for value in (values[0], max(values), values[-1]))
            rows.append((str(run), name, str(len(curve)), *numbers))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def draw(runs: Mapping[str, Mapping[str, Curve]], file: str | Path) -> None:
    """Write one panel per metric, one line per run.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; the message names the extra.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a picture needs matplotlib: pip install 'lit-rl[plots]'") from error
    names = list(dict.fromkeys(name for curves in runs.values() for name in curves))
    figure: Any = Figure(figsize=(5 * min(3, max(1, len(names))), 3.2 * -(-len(names) // 3)), layout="constrained")
    FigureCanvasAgg(figure)
    for i, name in enumerate(names):
        axes = figure.add_subplot(-(-len(names) // 3), min(3, len(names)), i + 1)
        for run, curves in runs.items():
            if name in curves:
                axes.plot(*zip(*curves[name], strict=True), marker="." if len(curves[name]) < 20 else "", label=run)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
    if len(runs) > 1 and names:
        figure.axes[0].legend(fontsize=8)
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
