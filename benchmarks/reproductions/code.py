"""Document 000, section 4: masked lines of a numerical code, filled in four ways; build, run and compare."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from lit_rl.data import CodeCompletion
from lit_rl.data.numerical.code_completion import SHIPPED_PLACES, split_lines
from lit_rl.execution import Sandbox
from reproductions.part import Case, Numbers, Part
from reproductions.pictures import Picture, Results, bars

COLUMNS = {
    "nothing": "filled with nothing",
    "line_before": "with the line before once more",
    "not_cpp": "with what is not C++",
    "masked": "with the masked lines",
}


def run(seed: int, folder: Path, place: str) -> Numbers:
    """Total score of one place by what stands there; nothing is sampled, so all seeds are alike."""
    task = CodeCompletion()
    number = next(n for n, one in enumerate(SHIPPED_PLACES) if one.name == place)
    problem = task.problems("validation")[number]
    before, _, _ = split_lines(task.tree / SHIPPED_PLACES[number].file, SHIPPED_PLACES[number])
    texts = {"nothing": "\n", "line_before": before[-1] + "\n", "not_cpp": "not C++\n", "masked": problem.reference}
    with Sandbox() as sandbox:
        outcomes = sandbox.judge_many([(str(texts[name]), problem.check) for name in COLUMNS])
    return {name: outcome.scores["total"] for name, outcome in zip(COLUMNS, outcomes, strict=True)}


def draw(figure: Any, results: Results) -> None:
    """Scores of each place by what it was filled with."""
    axes = figure.subplots()
    bars(axes, results, COLUMNS)
    axes.set_xlabel("score")
    figure.legend(loc="outside right upper")


PART = Part(
    name="code",
    cases=tuple(
        Case(
            f"{place.file}, lines {place.first_line} to {place.last_line}", partial(run, place=place.name), seeded=False
        )
        for place in SHIPPED_PLACES
    ),
    columns=COLUMNS,
    digits=dict.fromkeys(COLUMNS, 4),
    picture=Picture("Score of each place by what it was filled with", draw, height=4),
)
