"""Curves and stacked areas as shapes, which the page draws as SVG without a library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lit_rl.run_files.records import Curve
from lit_rl.run_files.row_text import format_number

COLOURS = ("#2166ac", "#d6604d", "#1b7837", "#762a83", "#b35806", "#01665e", "#c51b7d", "#4d4d4d")
"""Colours that most people who do not see all colours can tell apart."""

FRAME = {"width": 360, "height": 224, "left": 66, "right": 350, "top": 10, "bottom": 184}
_MAX_DOTS = 40


class CurveGroup(NamedTuple):
    """Curves of one colour: the runs of a group, one curve for each seed."""

    label: str
    colour: str
    curves: Sequence[Curve]


class PanelShape(NamedTuple):
    """A path of a panel: ``band`` and ``area`` are filled, ``line`` is not; dots are places with tooltips."""

    kind: str
    colour: str
    path: str
    title: str = ""
    dots: Sequence[tuple[str, str, str]] = ()


class ChartPanel(NamedTuple):
    """A panel: its shapes, the names of its axes, and their ticks, each a position and a label."""

    title: str
    x_name: str
    y_name: str
    rows: Sequence[tuple[str, str]]
    columns: Sequence[tuple[str, str]]
    shapes: Sequence[PanelShape]


@dataclass(frozen=True)
class AxisScale:
    """A function from a number to a place on the page, along one axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> str:
        """Return the place of a number."""
        span = (self.high - self.low) or 1.0
        return f"{self.start + (value - self.low) / span * (self.end - self.start):.1f}"


def mean_and_band_panel(title: str, lines: Sequence[CurveGroup], clock: str) -> ChartPanel:
    """Return a panel with the mean of each group's curves, and a band from the lowest to the highest curve."""
    x, y = _axis_scales([point for line in lines for curve in line.curves for point in curve])
    shapes = []
    for line in lines:
        points, dots = min_mean_max_by_count(line.curves), []
        if len(line.curves) > 1:
            outline = [(n, high) for n, _, _, high in points] + [(n, low) for n, low, _, _ in reversed(points)]
            shapes.append(PanelShape("band", line.colour, f"{_curve_path(outline, x, y)}Z"))
        for n, low, middle, high in points if len(points) <= _MAX_DOTS else ():
            several = f" ({format_number(low, 3)} to {format_number(high, 3)})" if len(line.curves) > 1 else ""
            dots.append((x(n), y(middle), f"{line.label}\n{clock} {n}: {format_number(middle, 3)}{several}"))
        shapes.append(
            PanelShape("line", line.colour, _curve_path([(n, mean) for n, _, mean, _ in points], x, y), dots=dots)
        )
    return _build_chart_panel(title, clock, title.rpartition("/")[2].replace("_", " "), shapes, x, y)


def stacked_areas_panel(title: str, shares: Mapping[str, Curve], colours: Mapping[str, str], clock: str) -> ChartPanel:
    """Return a panel with shares that add up to one, on top of each other."""
    counts = sorted({count for curve in shares.values() for count, _ in curve})
    x, y = _axis_scales([(count, 0.0) for count in counts], low=0.0, high=1.0)
    floor, shapes = dict.fromkeys(counts, 0.0), []
    for name, curve in shares.items():
        values = dict(curve)
        top = {count: floor[count] + values.get(count, 0.0) for count in counts}
        outline = [(n, top[n]) for n in counts] + [(n, floor[n]) for n in reversed(counts)]
        shapes.append(PanelShape("area", colours[name], f"{_curve_path(outline, x, y)}Z", name))
        floor = top
    return _build_chart_panel(title, clock, "share of rows", shapes, x, y)


def min_mean_max_by_count(curves: Sequence[Curve]) -> list[tuple[int, float, float, float]]:
    """Return (count, lowest, mean, highest) at each count that all curves have; without one, at every count."""
    at: dict[int, list[float]] = {}
    for curve in curves:
        for count, value in curve:
            at.setdefault(count, []).append(value)
    shared = {count: values for count, values in at.items() if len(values) == len(curves)} or at
    return [(count, min(v), math.fsum(v) / len(v), max(v)) for count, v in sorted(shared.items())]


def axis_ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers from ``low`` to ``high``."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 5)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _axis_scales(
    points: Sequence[tuple[int, float]], low: float | None = None, high: float | None = None
) -> tuple[AxisScale, AxisScale]:
    counts, values = [n for n, _ in points] or [0], [v for _, v in points] or [0.0]
    bottom, top = min(values) if low is None else low, max(values) if high is None else high
    if top == bottom:  # a flat line is in the middle, but at 0 on the ground, since few numbers go below
        top, bottom = (top + 0.5 * abs(top), bottom - 0.5 * abs(bottom)) if top else (1.0, 0.0)
    horizontal = AxisScale(min(counts), max(max(counts), min(counts) + 1), FRAME["left"], FRAME["right"])
    return horizontal, AxisScale(bottom, top, FRAME["bottom"], FRAME["top"])


def _curve_path(points: Sequence[tuple[int, float]], x: AxisScale, y: AxisScale) -> str:
    return "M" + "L".join(f"{x(n)},{y(value)}" for n, value in points) if points else "M0,0"


def _build_chart_panel(
    title: str, x_name: str, y_name: str, shapes: Sequence[PanelShape], x: AxisScale, y: AxisScale
) -> ChartPanel:
    rows = [(y(value), format_number(value, 3)) for value in axis_ticks(y.low, y.high)]
    columns = [(x(value), f"{value:,.0f}") for value in axis_ticks(x.low, x.high) if value == int(value)]
    return ChartPanel(title, x_name, y_name, rows, columns, shapes)
