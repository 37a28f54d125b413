"""The documents' experiments: the page shows the tables that the script writes, and cases measure what they show."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


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


def test_the_ladders_differences_are_paired_by_problem_after_a_mean_over_seeds(parts: dict[str, Any]) -> None:
    """Means of 3 problems over 2 seeds: .25, .5, .5 and .75, .75, 1; differences of .5, .25, .5."""
    before = [{"sampled_by_problem": [0.0, 0.5, 1.0]}, {"sampled_by_problem": [0.5, 0.5, 0.0]}]
    after = [{"sampled_by_problem": [1.0, 0.5, 1.0]}, {"sampled_by_problem": [0.5, 1.0, 1.0]}]
    text = parts["ladder"].below({"imitation": before, "GRPO, 11 steps": before, "other": after})
    mean = 1.25 / 3
    variance = (2 * (0.5 - mean) ** 2 + (0.25 - mean) ** 2) / 2
    half = 1.96 * (variance / 3) ** 0.5
    assert text.splitlines()[2:] == [f"| other | {mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}] |"]


@pytest.mark.parametrize("named", [[], ["ladder"]])
def test_a_part_of_hours_runs_only_where_it_is_named(
    parts: dict[str, Any], named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import reproduce

    ran: list[str] = []
    monkeypatch.setattr(reproduce, "find_spec", lambda _: True)
    monkeypatch.setattr(reproduce, "run", lambda chosen, *_: ran.extend(part.name for part in chosen))
    monkeypatch.setattr(reproduce, "write", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["reproduce.py", *named])
    reproduce.main()
    assert ran == (named or [name for name in parts if name != "ladder"])
