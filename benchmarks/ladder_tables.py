"""Tables of benchmarks/ladder.py: its cells, differences with intervals, verdicts, and completions side by side."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ARMS = {
    "published": "as published",
    "imitation": "imitation",
    "expert": "expert iteration",
    "grpo": "GRPO",
    "repair": "GRPO with repair",
    "sdpo": "SDPO",
}
ONCE = ("published", "imitation")
"""Arms that a rung has once, whatever the seeds."""
TASKS = {"basics": "basics", "humaneval": "HumanEval", "mbpp": "MBPP+"}
SOURCES = ("model", "humaneval", "mbpp")
"""Arguments that say where something is read from."""
Cell = dict[str, Any]


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def of_arm(arm: str, seeds: Sequence[int]) -> Sequence[int]:
    return (0,) if arm in ONCE else seeds


def passes(cell: Cell, task: str) -> dict[str, float]:
    """1 for each problem that was solved, else 0, by id."""
    return {name: float(row["verdict"] == "passed") for name, row in cell[task]["answers"].items()}


def share(cell: Cell, task: str) -> float:
    return statistics.mean(passes(cell, task).values())


def paired(cells: Sequence[Cell], start: Cell, task: str) -> str:
    """Mean difference from the start over the same problems, seeds averaged, with its 95% interval (normal)."""
    before = passes(start, task)
    after = [passes(cell, task) for cell in cells]
    differences = [statistics.mean(one[name] for one in after) - before[name] for name in before]
    mean = statistics.mean(differences)
    half = 1.96 * statistics.stdev(differences) / len(differences) ** 0.5
    return f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]"


def row(*cells: Any) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def tables(rung: Path, seeds: Sequence[int] = (0, 1, 2)) -> str:
    """Markdown: the cells, what changed with intervals, verdicts, and five completions of each arm."""
    cells = {(cell["arm"], cell["seed"]): cell for cell in map(read, sorted(rung.glob("*_*.json")))}
    settings = read(rung / "settings.json")
    arms = [arm for arm in ARMS if arm != "imitation" or settings["imitation"]]
    lines = [row("after", "seed", "rollouts", "sampled tokens", "CPU s", *TASKS.values(), "CPU s of measuring")]
    lines.append("|---" * 9 + "|")
    for arm in arms:
        for seed in of_arm(arm, seeds):
            cell = cells.get((arm, seed), {})
            spent = cell.get("training")
            counted = ["", "", ""]
            if spent:
                rollouts = "" if arm == "imitation" else spent["rollouts"]
                counted = [rollouts, spent["tokens"], f"{spent['cpu_seconds']:.0f}"]
            found = [f"{share(cell, task):.3f}" if task in cell else "not run" for task in TASKS]
            cost = sum(cell[task]["cpu_seconds"] for task in TASKS if task in cell)
            lines.append(row(ARMS[arm], "" if arm in ONCE else seed, *counted, *found, f"{cost:.0f}" if cost else ""))
    imitation = [("imitation", "basics")] if settings["imitation"] else []
    since = [*imitation, *(("published", task) for task in TASKS)]
    heads = [f"{TASKS[task]}, since {'imitation' if base == 'imitation' else 'publication'}" for base, task in since]
    lines += ["", row("change", "seeds", *heads), "|---" * (len(since) + 2) + "|"]
    for arm in arms[1:]:
        done = [cells[arm, seed] for seed in of_arm(arm, seeds) if (arm, seed) in cells]
        found = []
        for base, task in since:
            of, start = [cell for cell in done if task in cell], cells.get((base, 0), {})
            some = f" ({len(of)} of {len(done)} seeds)" if len(of) < len(done) else ""
            found.append("" if arm == base else paired(of, start, task) + some if of and task in start else "not run")
        lines.append(row(ARMS[arm], ", ".join(str(cell["seed"]) for cell in done) or "none", *found))
    measured = {arm: cells[arm, 0] for arm in arms if "basics" in cells.get((arm, 0), {})}
    for task, title in TASKS.items():
        of = {arm: cell for arm, cell in measured.items() if task in cell}
        if not of:
            continue
        counts = [Counter(answer["verdict"] for answer in cell[task]["answers"].values()) for cell in of.values()]
        lines += ["", row(f"verdicts on {sum(counts[0].values())} of {title}, seed 0", *(ARMS[arm] for arm in of))]
        lines.append("|---" * (len(of) + 1) + "|")
        for verdict in sorted(sum(counts, Counter()), key=lambda name: -counts[0][name]):
            lines.append(row(verdict.replace("_", " "), *(count[verdict] for count in counts)))
    given = " ".join(f"--{key.replace('_', '-')} {value}" for key, value in settings.items() if key not in SOURCES)
    days = sorted({cell["date"] for cell in cells.values()})
    with_ = sorted({f"{name} {number}" for cell in cells.values() for name, number in cell["versions"].items()})
    lines += [
        "",
        f"Settings: `{given}`. Seen {' and '.join(dict.fromkeys((days[0], days[-1])))} with {', '.join(with_)}.",
    ]
    return "\n".join([*lines, *completions(measured)]) + "\n"


def completions(measured: Mapping[str, Cell], count: int = 5) -> list[str]:
    """Answers of every arm to the same problems, spread over the training task's."""
    if not measured:
        return []
    names = list(next(iter(measured.values()))["basics"]["answers"])
    lines = []
    for name in names[:: max(1, len(names) // count)][:count]:
        lines += ["", f"`{name}`, seed 0:", "", "```text"]
        for arm, cell in measured.items():
            answer = cell["basics"]["answers"][name]
            text = answer["text"].replace("```", "'''").strip()
            lines += [f"--- {ARMS[arm]} ({answer['verdict'].replace('_', ' ')})", text]
        lines.append("```")
    return lines
