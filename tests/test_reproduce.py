"""The documents' experiments: the page shows the tables that the script writes, and cases measure what they show."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "experiments.md"
NAMES = ("worlds", "code", "pretrained", "lengths", "groups", "mixed", "robots", "places", "sorting")


@pytest.fixture(scope="module")
def parts() -> Iterator[dict[str, Any]]:
    """Parts of the benchmark by name."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from reproductions import PARTS

    yield PARTS
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.mark.parametrize("name", ["worlds", "sorting"])
def test_a_case_measures_what_its_table_shows(parts: dict[str, Any], name: str, tmp_path: Path) -> None:
    case = parts[name].cases[0]
    numbers = partial(case.run, max_rollouts=2)(0, tmp_path)
    assert set(parts[name].columns) <= set(numbers)


@pytest.fixture(scope="module")
def errands(parts: dict[str, Any]) -> list[Any]:
    """Problems of the part on places, which take seconds to make."""
    from reproductions.places import task

    found: list[Any] = task(0).problems("train")[:400]
    return found


def test_each_errand_has_a_mistake_that_ends_as_its_family_says(errands: list[Any]) -> None:
    """One errand with its mistake, the other without: the program fails as that mistake fails, and as no other does."""
    from reproductions.places import mistaken
    from reproductions.robot_tasks import one_program

    from lit_rl.execution import Sandbox

    intended = {  # by a part of the errand's program
        "number += 1": "python_error",
        'found = "missing"': "python_error",
        "prefers": "robot_execution_error",
        "place(": "robot_execution_error",
        "is away": "completion_error",
        "is not needed": "completion_error",
    }
    submissions, wanted = [], []
    for problem in errands[:12]:
        programs = problem.fields["errands"]
        for i, program in enumerate(programs):
            changed = [mistaken(one) if j == i else one for j, one in enumerate(programs)]
            submissions.append((one_program(changed), problem.check))
            wanted.append([verdict for said, verdict in intended.items() if said in program][-1])
    with Sandbox(num_workers=2) as sandbox:
        outcomes = sandbox.judge_many(submissions)
    assert [str(outcome.robot_verdict) for outcome in outcomes] == wanted
    assert set(wanted) == set(intended.values())
