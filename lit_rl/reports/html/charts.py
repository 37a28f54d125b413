"""Curves and stacked areas as SVG, drawn here: the page must not need a library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from lit_rl.reports.run_files.curves import Curve

COLOURS = ("#2166ac", "#d6604d", "#1b7837", "#762a83", "#b35806", "#01665e", "#c51b7d", "#4d4d4d")
"""Told apart by most people who do not see all colours."""

WIDTH, HEIGHT = 360, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 10, 26


@dataclass(frozen=True)
class Line:
    """Curves of one colour: the runs of a group.

    Args:
        label: for the tooltip.
        colour: of the line.
        curves: one for each seed.
    """

    label: str
    colour: str
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Scale:
    """From a number to a place on the page, along one axis."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a number."""
        span = (self.high - self.low) or 1.0
        return self.start + (value - self.low) / span * (self.end - self.start)


def chart(title: str, lines: Sequence[Line], clock: str) -> str:
    """One panel: the mean of each group's curves, and the band between its lowest and its highest."""
    points = [point for line in lines for curve in line.curves for point in curve]
    x, y = _scales(points)
    drawn = []
    for line in lines:
        band = spread(line.curves)
        if len(line.curves) > 1:
            outline = [(n, high) for n, _, _, high in band] + [(n, low) for n, low, _, _ in reversed(band)]
            drawn.append(f'<path class="band" fill="{line.colour}" d="{_path(outline, x, y)}Z"/>')
        mean = [(n, middle) for n, _, middle, _ in band]
        drawn.append(f'<path class="line" stroke="{line.colour}" d="{_path(mean, x, y)}"/>')
        radius = 2.5 if len(mean) <= 40 else 0
        for n, low, middle, high in band if radius else []:
            several = f" ({_number(low)} to {_number(high)})" if len(line.curves) > 1 else ""
            said = escape(f"{line.label}\n{clock} {n}: {_number(middle)}{several}")
            drawn.append(
                f'<circle cx="{x(n):.1f}" cy="{y(middle):.1f}" r="{radius}" fill="{line.colour}">'
                f"<title>{said}</title></circle>"
            )
    return _panel(title, drawn, x, y)


def spread(curves: Sequence[Curve]) -> list[tuple[int, float, float, float]]:
    """(count, lowest, mean, highest) at each count that all curves have, or any if they have none in common."""
    at: dict[int, list[float]] = {}
    for curve in curves:
        for count, value in curve:
            at.setdefault(count, []).append(value)
    shared = {count: values for count, values in at.items() if len(values) == len(curves)} or at
    return [(count, min(v), math.fsum(v) / len(v), max(v)) for count, v in sorted(shared.items())]


def areas(title: str, shares: Mapping[str, Curve], colours: Mapping[str, str]) -> str:
    """One panel: shares that add up to one, on top of each other.

    Args:
        title: of the panel.
        shares: by name, from the bottom up.
        colours: by name.
    """
    counts = sorted({count for curve in shares.values() for count, _ in curve})
    x, y = _scales([(count, 0.0) for count in counts], low=0.0, high=1.0)
    floor = dict.fromkeys(counts, 0.0)
    drawn = []
    for name, curve in shares.items():
        values = dict(curve)
        top = {count: floor[count] + values.get(count, 0.0) for count in counts}
        outline = [(n, top[n]) for n in counts] + [(n, floor[n]) for n in reversed(counts)]
        drawn.append(f'<path fill="{colours[name]}" d="{_path(outline, x, y)}Z"><title>{escape(name)}</title></path>')
        floor = top
    return _panel(title, drawn, x, y)


def legend(colours: Mapping[str, str]) -> str:
    """Names beside their colours."""
    items = (f'<li><i style="background:{colour}"></i>{escape(name)}</li>' for name, colour in colours.items())
    return f'<ul class="legend">{"".join(items)}</ul>'


def _scales(
    points: Sequence[tuple[int, float]], low: float | None = None, high: float | None = None
) -> tuple[Scale, Scale]:
    counts, values = [n for n, _ in points] or [0], [v for _, v in points] or [0.0]
    bottom, top = min(values) if low is None else low, max(values) if high is None else high
    if top == bottom:  # a line in the middle; one at 0 on the ground, since most numbers are never below
        top, bottom = (top + 0.5 * abs(top), bottom - 0.5 * abs(bottom)) if top else (1.0, 0.0)
    horizontal = Scale(min(counts), max(max(counts), min(counts) + 1), _LEFT, WIDTH - _RIGHT)
    return horizontal, Scale(bottom, top, HEIGHT - _BOTTOM, _TOP)


def _path(points: Sequence[tuple[int, float]], x: Scale, y: Scale) -> str:
    return "M" + "L".join(f"{x(n):.1f},{y(value):.1f}" for n, value in points) if points else "M0,0"


def _panel(title: str, drawn: Sequence[str], x: Scale, y: Scale) -> str:
    marks = []
    for value in ticks(y.low, y.high):
        marks.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        marks.append(f'<text x="{_LEFT - 5}" y="{y(value) + 3.5:.1f}" text-anchor="end">{_number(value)}</text>')
    for value in ticks(x.low, x.high):
        if value == int(value):
            marks.append(f'<text x="{x(value):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{int(value)}</text>')
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f'<g class="marks">{"".join(marks)}</g>{"".join(drawn)}</svg></figure>'
    )


def ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers between two others."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 5)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value:.3g}"
