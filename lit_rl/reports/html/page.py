"""One HTML file with everything in it: no style, script, font or picture is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from html import escape
from importlib.resources import files
from pathlib import Path

from lit_rl.reports.html.browser import as_script, data_of
from lit_rl.reports.html.charts import COLOURS, Line, areas, chart, legend
from lit_rl.reports.html.runs import Run, groups_of
from lit_rl.reports.html.tables import table_of_diagnoses, table_of_differences, table_of_endings, table_of_runs

OVERVIEW = (
    "val/*pass@1",
    "val/*reward/mean",
    "val/*loss",
    "reward/mean",
    "execution/pass_rate",
    "completion/length",
    "completion/truncated_fraction",
    "group/zero_advantage_fraction",
    "policy/entropy",
    "policy/kl_to_reference",
    "policy/approximate_kl",
    "policy/ratio_max",
    "policy/gradient_norm",
    "loss",
    "sft/loss",
    "dpo/loss",
    "dpo/accuracy",
    "time/tokens_per_second",
)
"""Numbers that a report begins with; those that a run has."""

_NO_TERMS = ("reward/mean", "reward/std", "reward/p10", "reward/p90", "reward/invalid_fraction")
_VERDICT = re.compile(r"verdict/(.+)_fraction")
_VERDICT_COLOURS = {
    "passed": "#1b7837",
    "wrong_answer": "#f4a582",
    "exception": "#d6604d",
    "syntax_error": "#762a83",
    "timed_out": "#b35806",
    "out_of_memory": "#c51b7d",
    "output_limit": "#01665e",
    "no_program": "#969696",
    "infrastructure_failure": "#252525",
}


def write_page(runs: Sequence[Run], file: str | Path, metrics: Sequence[str] | None = None) -> None:
    """Write the report.

    Args:
        runs: at least one.
        file: where to.
        metrics: patterns of the numbers that it begins with.
    """
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(runs, OVERVIEW if metrics is None else metrics), "utf-8", "replace")


def page(runs: Sequence[Run], wanted: Sequence[str]) -> str:
    """The page as a text."""
    title = f"lit-rl: {', '.join(run.name for run in runs)}"
    ended = "".join(table_of_endings(run) for run in runs if run.endings[0])
    sections = [
        _section("Runs", table_of_runs(runs)),
        _section("What differs", table_of_differences(runs)),
        _section("Diagnoses", table_of_diagnoses(runs)),
        *_curves(runs, wanted),
        _section("Verdicts over time", _verdicts(runs)),
        _section("How programs ended", f'<div class="row">{ended}</div>' if ended else ""),
        _section("Rollouts", '<div id="browser"></div>' if any(run.shown for run in runs) else ""),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_resource('page.css')}</style></head><body>"
        f"<h1>{escape(title)}</h1>{''.join(sections)}"
        f'<script type="application/json" id="data">{as_script(data_of(runs))}</script>'
        f"<script>{_resource('page.js')}</script></body></html>\n"
    )


def _curves(runs: Sequence[Run], wanted: Sequence[str]) -> list[str]:
    """The overview, the terms of the reward, and all other numbers behind a click."""
    groups = groups_of(runs)
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(groups)}
    known = sorted({name for run in runs for name in run.curves})
    first = list(dict.fromkeys(n for pattern in wanted for n in known if fnmatchcase(n, pattern)))
    if wanted is OVERVIEW:
        passes = {name.removesuffix("/pass@1") for name in first if name.endswith("/pass@1")}
        first = [name for name in first if name.removesuffix("/reward/mean") not in passes]
    terms = [n for n in known if n.startswith("reward/") and n not in (*first, *_NO_TERMS)]
    rest = [n for n in known if n not in first and n not in terms and not _VERDICT.fullmatch(n)]
    clocks = {run.clock for run in runs}
    clock = clocks.pop() if len(clocks) == 1 else "step"

    def charts(names: Sequence[str]) -> str:
        panels = (chart(name, _lines(name, groups, colours), clock) for name in names)
        return _grid("".join(panels)) if names else ""

    band = "<p>A band goes from the lowest to the highest of its seeds; the line is their mean.</p>"
    seeds = band if any(len(alike) > 1 for alike in groups.values()) else ""
    others = f"<details><summary>All other numbers ({len(rest)})</summary>{charts(rest)}</details>"
    return [
        _section("Learning curves", legend(colours) + seeds + charts(first)),
        _section("Parts of the reward, unweighted", charts(terms)),
        others if rest else "",
    ]


def _lines(name: str, groups: Mapping[str, Sequence[Run]], colours: Mapping[str, str]) -> list[Line]:
    found = {label: [run.curves[name] for run in alike if name in run.curves] for label, alike in groups.items()}
    return [Line(label, colours[label], curves) for label, curves in found.items() if curves]


def _verdicts(runs: Sequence[Run]) -> str:
    """The share of each verdict, one panel for each run; nothing where none was recorded."""
    charts: list[str] = []
    seen: set[str] = set()
    for run in runs:
        found = {match[1]: curve for name, curve in run.curves.items() if (match := _VERDICT.fullmatch(name))}
        shares = {name: found[name] for name in _VERDICT_COLOURS if any(share > 0 for _, share in found.get(name, []))}
        seen |= set(shares)
        charts += [areas(run.name, shares, _VERDICT_COLOURS)] if shares else []
    colours = {name: colour for name, colour in _VERDICT_COLOURS.items() if name in seen}
    return legend(colours) + _grid("".join(charts)) if charts else ""


def _grid(content: str) -> str:
    return f'<div class="grid">{content}</div>'


def _section(title: str, content: str) -> str:
    """A section, or nothing where there is nothing to show."""
    return f"<section><h2>{escape(title)}</h2>{content}</section>" if content else ""


def _resource(name: str) -> str:
    return files("lit_rl.reports.html").joinpath(name).read_text("utf-8")
