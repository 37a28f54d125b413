"""Pictures of the experiments: bars, curves and points with their spread over seeds, drawn by matplotlib.

They are white, so that they can be read on a dark page, and hold no date, so that equal results give equal files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import matplotlib
from matplotlib.figure import Figure

Value = float | Sequence[float]
Results = Mapping[str, Sequence[Mapping[str, Value]]]
"""Numbers of each case, one mapping per seed; a sequence is a curve over rollouts."""

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#000000")
"""Okabe and Ito's, which colour-blind readers can tell apart."""

matplotlib.rcParams.update(
    {"font.size": 9, "svg.hashsalt": "lit_rl", "axes.spines.top": False, "axes.spines.right": False}
)


@dataclass(frozen=True)
class Picture:
    """A picture of a part's results.

    Args:
        says: what it shows, for those who cannot see it.
        draw: fills a figure.
        height: of the figure, in inches; it is nine inches wide.
    """

    says: str
    draw: Callable[[Any, Results], None]
    height: float = 3.2

    def write(self, results: Results, path: Path) -> None:
        """Write it as SVG."""
        figure = Figure(figsize=(9, self.height), layout="constrained", facecolor="white")
        self.draw(figure, results)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})


def middle(of_case: Sequence[Mapping[str, Value]], name: str) -> tuple[float, float]:
    """Mean and standard deviation of a number over seeds; nothing was measured: NaN."""
    values = [float(one[name]) for one in of_case if name in one]  # type: ignore[arg-type]
    if not values:
        return float("nan"), 0.0
    return mean(values), stdev(values) if len(values) > 1 else 0.0


def bars(axes: Any, results: Results, numbers: Mapping[str, str], stacked: bool = False) -> None:
    """Horizontal bars, a row per case, one bar per number (label by name) below the other or, stacked, after it."""
    thickness = 0.8 if stacked else 0.8 / len(numbers)
    left = [0.0] * len(results)
    for index, (number, label) in enumerate(numbers.items()):
        found = [middle(of_case, number) for of_case in results.values()]
        rows = [row if stacked else row + (index - (len(numbers) - 1) / 2) * thickness for row in range(len(results))]
        axes.barh(
            rows,
            [value for value, _ in found],
            thickness,
            left=left if stacked else None,
            xerr=None if stacked else [spread for _, spread in found],
            error_kw={"linewidth": 1},
            color=COLOURS[index],
            label=label,
        )
        if stacked:
            left = [begin + value for begin, (value, _) in zip(left, found, strict=True)]
    axes.set_yticks(range(len(results)), list(results))
    axes.invert_yaxis()
    axes.set_xlim(left=0)


def bar_chart(figure: Any, results: Results, numbers: Mapping[str, str], label: str, stacked: bool = False) -> None:
    """A figure of :func:`bars` with a label below and a legend beside."""
    axes = figure.subplots()
    bars(axes, results, numbers, stacked)
    axes.set_xlabel(label)
    figure.legend(loc="outside right upper")


def curves(axes: Any, results: Results, number: str, every: int = 1) -> None:
    """A number, measured every so many rollouts: the mean over seeds, and a band from the lowest to the highest."""
    lines = {label: [one[number] for one in of_case if number in one] for label, of_case in results.items()}
    shown = {label: of_case for label, of_case in lines.items() if of_case}
    for colour, (label, of_case) in zip(cycle(COLOURS), shown.items(), strict=False):
        columns: list[Any] = list(zip(*of_case, strict=False))  # type: ignore[arg-type]
        rollouts = range(every, every * len(columns) + 1, every)
        axes.fill_between(rollouts, list(map(min, columns)), list(map(max, columns)), color=colour, alpha=0.2, lw=0)
        axes.plot(rollouts, list(map(mean, columns)), color=colour, label=label)
    axes.set_xlabel("rollout")


def points(axes: Any, results: Results, across: str, up: str) -> None:
    """A point per case, with the standard deviation over seeds in both directions."""
    for colour, (label, of_case) in zip(cycle(COLOURS), results.items(), strict=False):
        (x, x_spread), (y, y_spread) = middle(of_case, across), middle(of_case, up)
        axes.errorbar(x, y, y_spread, x_spread, fmt="o", capsize=2, color=colour, label=label)
