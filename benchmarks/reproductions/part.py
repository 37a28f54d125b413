"""A part of ``benchmarks/reproduce.py``: cases to run, and a table made of their numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from reproductions.pictures import Picture, Results, Value

Numbers = Mapping[str, Value]
"""Measurements of a case by name: numbers, which can be averaged over seeds, and curves with one value per rollout."""


@dataclass(frozen=True)
class Case:
    """One run, a row of the table.

    Args:
        run: takes a seed and a folder of its own, in a process of its own; returns what was measured.
        theirs: what the document reports for it, by the names of the numbers.
        seeded: whether another seed gives other numbers; else it runs with the first seed only.
    """

    name: str
    run: Callable[[int, Path], Numbers]
    theirs: Mapping[str, float] | None = None
    seeded: bool = True


@dataclass(frozen=True)
class Part:
    """An experiment of one of the documents, and ours beside it.

    Args:
        name: on the command line, and of its marks on the page.
        columns: headings of the table, by the numbers' names; others are not shown.
        prepare: makes what all cases begin with, once, in the folder that holds theirs.
        digits: of these numbers, by their names; 2 where nothing is said.
        needs: a Python package that holds its model, and that the development environment lacks.
        below: a second table.
        hours: runs only when it is named.
    """

    name: str
    cases: tuple[Case, ...]
    columns: Mapping[str, str]
    prepare: Callable[[Path], object] | None = None
    digits: Mapping[str, int] | None = None
    picture: Picture | None = None
    needs: str | None = None
    below: Callable[[Results], str] | None = None
    hours: bool = False

    def table(self, results: Mapping[str, Sequence[Numbers]]) -> str:
        """Markdown: a row per case, means and standard deviations over its seeds; the document's in brackets.

        A number that not every seed has, such as the rollouts until a goal, says how many have it. One without a
        deviation comes from one seed.
        """
        lines = ["| | " + " | ".join(self.columns.values()) + " |", "|---" * (len(self.columns) + 1) + "|"]
        for case in self.cases:
            of_case = results.get(case.name, [])
            cells = [self._cell(case, name, of_case) for name in self.columns]
            lines.append(f"| {case.name} | " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"

    def _cell(self, case: Case, name: str, numbers: Sequence[Numbers]) -> str:
        digits = (self.digits or {}).get(name, 2)
        values = [float(one[name]) for one in numbers if name in one]  # type: ignore[arg-type]
        text = spread(values, digits)
        if 0 < len(values) < len(numbers):
            text += f" in {len(values)} of {len(numbers)}"
        theirs = (case.theirs or {}).get(name)
        return text if theirs is None else f"{text} ({theirs:.{digits}f})"


def spread(values: Sequence[float], digits: int) -> str:
    """Mean and standard deviation; a dash if nothing was measured."""
    if not values:
        return "-"
    return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


class Store:
    """Results by part, case and seed, a line of JSON each, so that an interrupted run goes on."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self.lines = {(line["part"], line["case"], line["seed"]): line for line in lines}

    def add(self, part: str, case: str, seed: int, cpu_seconds: float, numbers: Numbers) -> None:
        """Append a result."""
        line = {"part": part, "case": case, "seed": seed, "cpu_seconds": round(cpu_seconds, 1), "numbers": numbers}
        self.lines[part, case, seed] = line
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def of_part(self, part: Part, seeds: Iterable[int]) -> dict[str, list[Numbers]]:
        """Numbers by case, in the order of the seeds."""
        found = {}
        for case in part.cases:
            keys = [(part.name, case.name, seed) for seed in sorted(seeds)]
            found[case.name] = [self.lines[key]["numbers"] for key in keys if key in self.lines]
        return {case: numbers for case, numbers in found.items() if numbers}

    def cpu_seconds(self, part: Part) -> float:
        """CPU seconds of all cases of a part."""
        return sum(line["cpu_seconds"] for line in self.lines.values() if line["part"] == part.name)
