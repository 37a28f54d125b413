"""Tables of a report, as HTML. Every text from outside is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lit_rl.reports.html.runs import Run
from lit_rl.reports.run_files import differences
from lit_rl.reports.run_files.curves import Curve


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts, which are escaped."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def table_of_runs(runs: Sequence[Run]) -> str:
    """What each run is, and what validation measured of it: one row for each way of sampling."""
    heads = ("run", "model", "method", "seed", "sampling", "measured", "length of run", "first", "best", "last",
             "passed of tasks", "mean length, tokens")  # fmt: skip
    rows = []
    for run in runs:
        what = (run.name, _model(run), str(run.kind.get("method", "")), str(run.kind.get("seed", "")))
        length = f"{max(count for curve in run.curves.values() for count, _ in curve)} {run.clock}s"
        for sampling, measure in (run.measures or {"": ""}).items():
            rows.append((*what, sampling, measure, length, *_measured(run, sampling, measure)))
    return table(heads, rows)


def table_of_differences(runs: Sequence[Run]) -> str:
    """The settings that differ between runs, a row for each value; nothing where none differs."""
    rows = [
        ("" if number else one.name, value, ", ".join(names))
        for one in differences({run.name: run.settings for run in runs})
        for number, (value, names) in enumerate(one.runs.items())
    ]
    return table(("setting", "value", "runs"), rows) if rows else ""


def _model(run: Run) -> str:
    rank = run.kind.get("lora_rank")
    return str(run.kind.get("model", "")) + (f" (LoRA {rank})" if rank else "")


def _measured(run: Run, sampling: str, measure: str) -> tuple[str, ...]:
    """First, best and last of what is measured; passed of tasks and mean length at the last."""
    curve = run.curves.get(f"val/{sampling}/{measure}", [])
    if not curve:
        return ("", "", "", "", "")
    last = curve[-1][1]
    best = max(curve, key=lambda point: point[1])
    tasks = _last(run.curves.get(f"val/{sampling}/num_problems", []))
    length = _last(run.curves.get(f"val/{sampling}/completion/length", []))
    passed = "" if tasks is None or measure != "pass@1" else f"{last * tasks:.4g} of {tasks:.0f}"
    return (
        f"{curve[0][1]:.3f}",
        f"{best[1]:.3f} ({run.clock} {best[0]})",
        f"{last:.3f}",
        passed,
        "" if length is None else f"{length:.1f}",
    )


def table_of_diagnoses(runs: Sequence[Run]) -> str:
    """What was found wrong with each run, what it speaks of behind a click; nothing where nobody watched."""
    rows = []
    for run in runs:
        for one in run.diagnoses:
            details = (
                f"<details><summary>more</summary><pre>{escape(one.details)}</pre></details>" if one.details else ""
            )
            cells = "".join(f"<td>{escape(text)}</td>" for text in (run.name, one.when, one.rule))
            rows.append(f'<tr>{cells}<td class="said">{escape(one.message)}{details}</td></tr>')
        if not run.diagnoses and run.kind.get("diagnosed"):
            rows.append(f"<tr><td>{escape(run.name)}</td><td></td><td>none</td><td></td></tr>")
    heads = "".join(f"<th>{text}</th>" for text in ("run", "when", "diagnosis", "what is wrong and what to do"))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>" if rows else ""


def _last(curve: Curve) -> float | None:
    return curve[-1][1] if curve else None


def table_of_endings(run: Run) -> str:
    """How programs ended at the beginning of a run and at its end, most frequent first."""
    first, last = run.endings
    names = sorted({*first, *last}, key=lambda name: -first.get(name, 0) - last.get(name, 0))
    sums = [max(1, sum(part.values())) for part in (first, last)]
    rows = []
    for name in names:
        cells = []
        for part, total in zip((first, last), sums, strict=True):
            share = part.get(name, 0) / total
            bar = f'<i class="bar" style="width:{100 * share:.1f}%"></i>'
            cells.append(f'<td class="share">{bar}<span>{share:.1%}</span></td>')
        rows.append(f"<tr><td>{escape(name)}</td>{''.join(cells)}</tr>")
    heads = "".join(f"<th>{escape(text)}</th>" for text in ("how programs ended", "first tenth", "last tenth"))
    return (
        f"<div><h3>{escape(run.name)}</h3><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
