"""One self-contained HTML file: no style, script, font or picture is loaded from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lit_rl.reports.html.charts import COLOURS, FRAME, ChartPanel, CurveGroup, mean_and_band_panel, stacked_areas_panel
from lit_rl.reports.improvement import format_share_with_interval, learning_verdict, validation_changes
from lit_rl.reports.runs import Run, group_runs_by_settings
from lit_rl.run_files.records import Curve, RecordedRollout, RecordedRow
from lit_rl.run_files.row_text import KINDS, outcome_sections, token_values_by_column, verdict_and_cause_text
from lit_rl.run_files.settings import settings_that_differ

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
"""Names of the metrics that a report begins with, as far as a run has them."""

_HERE = Path(__file__).parent
_NO_TERMS = ("reward/mean", "reward/std", "reward/p10", "reward/p90", "reward/invalid_fraction")
_VERDICT = re.compile(r"verdict/(.+)_fraction")
# Pale, since they fill areas; runs have strong colours.
_VERDICT_COLOURS = {
    "passed": "#a1d99b",
    "wrong_answer": "#fdd0a2",
    "exception": "#fc9272",
    "syntax_error": "#bcbddc",
    "timed_out": "#fee391",
    "out_of_memory": "#fbb4d9",
    "output_limit": "#80cdc1",
    "no_program": "#d0d0d0",
    "infrastructure_failure": "#969696",
}


def write_html_report(runs: Sequence[Run], file: str | Path, metrics: Sequence[str] | None = None) -> None:
    """Write the report."""
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_html_report(runs, metrics), "utf-8", "replace")


def render_html_report(runs: Sequence[Run], metrics: Sequence[str] | None = None) -> str:
    """Return the page as text."""
    templates = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    shares = {run.name: found for run in runs if (found := _verdict_share_curves(run))}
    return templates.get_template("page.html.jinja").render(
        runs=runs,
        style=Markup((_HERE / "page.css").read_text("utf-8")),
        script=Markup((_HERE / "page.js").read_text("utf-8")),
        frame=FRAME,
        answer=learning_verdict,
        measured=_validation_table,
        ending_shares=_ending_shares,
        differences=settings_that_differ({run.name: run.settings for run in runs}),
        judged=list(shares),
        verdicts=[
            stacked_areas_panel(f"verdicts of {name}", of_run, _VERDICT_COLOURS, "rollout")
            for name, of_run in shares.items()
        ],
        verdict_colours={
            name: colour for name, colour in _VERDICT_COLOURS.items() if any(name in one for one in shares.values())
        },
        data={
            "kinds": {name: {"signed": kind.signed, "says": kind.says} for name, kind in KINDS.items()},
            "runs": [
                {
                    "name": run.name,
                    "recorded": run.num_recorded,
                    "judged": run.name in shares,
                    "rollouts": [_rollout_page_data(one) for one in run.shown],
                }
                for run in runs
                if run.shown
            ],
        },
        **_curve_panels(runs, metrics),
    )


# -- numbers --------------------------------------------------------------------------------------------------


def _verdict_share_curves(run: Run) -> dict[str, Curve]:
    """Return the curves of the verdicts that occurred, in the order in which they are drawn."""
    found = {match[1]: curve for name, curve in run.curves.items() if (match := _VERDICT.fullmatch(name))}
    return {name: found[name] for name in _VERDICT_COLOURS if any(share > 0 for _, share in found.get(name, []))}


def _validation_table(run: Run) -> list[tuple[str, ...]]:
    """Return the table of runs and their validation: one row for each way of sampling."""
    rank = run.kind.get("lora_rank")
    model = str(run.kind.get("model", "")) + (f" (LoRA {rank})" if rank else "")
    what = (run.name, model, str(run.kind.get("method", "")), str(run.kind.get("seed", "")))
    length = f"{max(count for curve in run.curves.values() for count, _ in curve)} {run.clock}s"
    rows: list[tuple[str, ...]] = []
    for sampling, measure in (run.validation_metric_names or {"": ""}).items():
        curve = run.curves.get(f"val/{sampling}/{measure}", [])
        tasks, tokens = (
            run.curves.get(f"val/{sampling}/{name}", [(0, None)])[-1][1]
            for name in ("num_problems", "completion/length")
        )
        numbers = ("", "", "", "", "")
        if curve:
            (_, first), (_, last), best = curve[0], curve[-1], max(curve, key=lambda point: point[1])
            passed = "" if tasks is None or measure != "pass@1" else f"{last * tasks:.4g} of {tasks:.0f}"
            at_best = f"{best[1]:.3f} ({run.clock} {best[0]})"
            count = tasks if measure == "pass@1" else None
            ends = (format_share_with_interval(value, count) for value in (first, last))
            numbers = (next(ends), at_best, next(ends), passed, "" if tokens is None else f"{tokens:.1f}")
        rows.append((*what, sampling, measure, length, *numbers))
    return rows


def _curve_panels(runs: Sequence[Run], metrics: Sequence[str] | None) -> dict[str, Any]:
    """Return the panels of the overview, of the reward's terms, and of all other metrics."""
    groups = group_runs_by_settings(runs)
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(groups)}
    known = sorted({name for run in runs for name in run.curves})
    wanted = OVERVIEW if metrics is None else metrics
    first = list(dict.fromkeys(n for pattern in wanted for n in known if fnmatchcase(n, pattern)))
    if metrics is None:
        passes = {name.removesuffix("/pass@1") for name in first if name.endswith("/pass@1")}
        first = [name for name in first if name.removesuffix("/reward/mean") not in passes]
    terms = [n for n in known if n.startswith("reward/") and n not in (*first, *_NO_TERMS)]
    others = [n for n in known if n not in first and n not in terms and not _VERDICT.fullmatch(n)]
    learned = [one.name for run in runs for one in validation_changes(run)[:1]]
    main = first if metrics is not None else [n for n in dict.fromkeys((*learned, "reward/mean")) if n in known]
    clocks = {run.clock for run in runs}
    clock = clocks.pop() if len(clocks) == 1 else "step"

    def panel(name: str) -> ChartPanel:
        found = {label: [run.curves[name] for run in alike if name in run.curves] for label, alike in groups.items()}
        return mean_and_band_panel(
            name, [CurveGroup(label, colours[label], curves) for label, curves in found.items() if curves], clock
        )

    return {
        "colours": colours,
        "has_bands": any(len(alike) > 1 for alike in groups.values()),
        "main": list(map(panel, main)),
        "overview": [panel(name) for name in first if name not in main],
        "terms": list(map(panel, terms)),
        "others": list(map(panel, others)),
    }


def _ending_shares(run: Run) -> list[tuple[str, tuple[float, ...]]]:
    """Return the shares of the endings at the beginning of a run and at its end, most frequent first."""
    first, last = run.endings
    names = sorted({*first, *last}, key=lambda name: -first.get(name, 0) - last.get(name, 0))
    return [(name, tuple(part.get(name, 0) / max(1, sum(part.values())) for part in (first, last))) for name in names]


# -- rollouts -------------------------------------------------------------------------------------------------


def _rollout_page_data(rollout: RecordedRollout) -> dict[str, Any]:
    groups = [rollout.rows_of_group(number) for number in sorted({row.group for row in rollout.rows})]
    return {
        "number": rollout.number,
        "rows": rollout.num_rows,
        "seconds": dict(rollout.seconds),
        "groups": [
            {"task": rows[0].task_id, "prompt": rows[0].prompt_text, "rows": [_row_page_data(row) for row in rows]}
            for rows in groups
        ],
    }


def _row_page_data(row: RecordedRow) -> dict[str, Any]:
    values = {kind: token_values_by_column(row, kind) for kind in KINDS}
    return {
        "row": row.row,
        "reward": row.reward,
        "verdict": row.verdict,
        "ending": verdict_and_cause_text(row),
        "terms": dict(row.terms),
        "words": outcome_sections(row),
        "turns": [
            {
                "start": turn.start,
                "pieces": turn.token_texts() or [turn.text],
                "message": turn.message,
                "verdict": str(turn.outcome["verdict"]),
                "stop": turn.stop_reason,
            }
            for turn in row.turns
        ],
        "failing": [
            row.turns[-1].start + number
            for number, (start, end) in enumerate(row.turns[-1].spans)
            if row.failing and start < row.failing[1] and end > row.failing[0]
        ],
        "values": {
            kind: [None if (v := found.get(i)) is None else float(f"{v:.4g}") for i in range(max(found) + 1)]
            for kind, found in values.items()
            if found
        },
    }
