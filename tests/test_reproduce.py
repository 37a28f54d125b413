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
