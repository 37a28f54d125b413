"""``lit-rl report RUN...``: a table and a page of what was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from jsonargparse import ArgumentParser

from lit_rl.errors import UsageError
from lit_rl.reports.improvement import learning_verdict
from lit_rl.reports.runs import Run, add_recorded_rollouts, read_runs
from lit_rl.run_files.records import Curve
from lit_rl.run_files.row_text import escape_controls, format_number
from lit_rl.run_files.settings import CONFIG_FILE, settings_that_differ
from lit_rl.signature_check import PositiveInt, check_and_convert

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
"""Metrics listed by default; a validation's mean reward is listed only if that validation has no pass@k."""


def report_on_runs(arguments: Sequence[str]) -> None:
    """Print whether runs learned, what Diagnostics found, which settings differ, and metrics; write a page on request.

    Each folder at or below RUN with a metrics.jsonl counts as one run.
    """
    parser = ArgumentParser(prog="lit-rl report", description=report_on_runs.__doc__, exit_on_error=False)
    parser.add_argument("runs", nargs="+", type=str, help="folders of runs")
    parser.add_argument("--metrics", type=str, help="names or patterns such as 'val/*', with commas between them")
    parser.add_argument("--html", type=str, help="write a page with curves, verdicts, tables and rollouts to this file")
    parser.add_argument("--rollouts", type=int, default=25, help="rollouts of each run that the page shows")
    parsed = parser.parse_args(list(arguments))
    check_and_convert(parsed.rollouts, PositiveInt, "rollouts")
    runs = read_runs(parsed.runs)
    # Names between commas; brackets and quotes around them, as in YAML, are allowed.
    names = (parsed.metrics or "").strip("[] ").split(",")
    metrics = None if parsed.metrics is None else [name for part in names if (name := part.strip(" '\""))]
    chosen = curves_by_folder(runs, metrics)
    answers = [f"{run.name}  {learning_verdict(run)}" for run in runs]
    diagnoses: list[str] = []
    for run in runs:
        diagnoses += [f"{run.folder}  {one.rule}, {when}: {one.message}" for one, when in run.last_diagnosis_per_rule]
        if not run.diagnoses and run.has_diagnostics:
            diagnoses.append(f"{run.folder}  no diagnosis")
    print(escape_controls("\n".join([*answers, *diagnoses, *describe_differing_settings(runs), curve_table(chosen)])))
    if parsed.html:
        from lit_rl.reports.html import write_html_report

        write_html_report([add_recorded_rollouts(run, parsed.rollouts) for run in runs], parsed.html, metrics)
        print(f"page: {parsed.html}")


def curves_by_folder(runs: Sequence[Run], wanted: Sequence[str] | None) -> dict[str, dict[str, Curve]]:
    """Return the wanted curves of each run by its folder, or the curves of the default metrics if none are named."""
    names = DEFAULT_METRICS if wanted is None else wanted
    chosen = {
        str(run.folder): {
            name: run.curves[name] for pattern in names for name in sorted(run.curves) if fnmatchcase(name, pattern)
        }
        for run in runs
    }
    if not any(chosen.values()):
        known = sorted({name for run in runs for name in run.curves})
        wanted_first = "".join(names[:1])
        inside = [name for name in known if wanted_first in name]
        near = inside or get_close_matches(wanted_first, known, n=3, cutoff=0.5) or known
        shown = ", ".join(near[:12]) + (", ..." if len(near) > 12 else "")
        raise UsageError(f"no metric is called {', '.join(names)}; choose from: {shown}")
    for of_run in chosen.values() if wanted is None else ():
        passes = [name.partition("/pass@")[0] for name in of_run if "/pass@" in name]
        for name in [name for name in of_run if name.removesuffix("/reward/mean") in passes]:
            del of_run[name]
    return chosen


def describe_differing_settings(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the settings that differ between runs, one line for each setting."""
    found = settings_that_differ({run.name: run.settings for run in runs})
    without = [run.name for run in runs if not run.settings]
    width = max(map(len, found), default=0)
    yield from ["what differs:"] if found else []
    for setting, of_runs in found.items():
        values = "; ".join(f"{value} in {', '.join(names)}" for value, names in of_runs.items())
        yield f"  {setting:{width}}  {values}"
    if without and len(runs) > 1:
        yield f"settings not compared, since no {CONFIG_FILE} can be read beside the numbers: {', '.join(without)}"


def curve_table(runs: Mapping[str, Mapping[str, Curve]]) -> str:
    """Return a table of the first, best (largest) and last value of each curve, as text."""
    rows: list[tuple[str, ...]] = [("run", "metric", "points", "first", "largest", "last")]
    for run, curves in runs.items():
        for name, curve in curves.items():
            values = [value for _, value in curve]
            numbers = map(format_number, (values[0], max(values), values[-1]))
            rows.append((str(run), name, str(len(curve)), *numbers))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
