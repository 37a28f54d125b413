"""Results that every processor gives: metrics of runs in float64, and verdicts of benchmark programs.

A change that is meant to move them renews them with ``python benchmarks/reference.py --renew``, which needs
``$LIT_RL_DATA``. On one machine ``python benchmarks/reference.py COMMIT`` compares more, bit for bit.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / "same_results"
METRICS = json.loads((KEPT / "metrics.json").read_text())
VERDICTS = json.loads((KEPT / "verdicts.json").read_text())


@pytest.fixture
def references(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("name", [*METRICS, "resume"])
def test_a_run_in_float64_logs_what_it_logged_before(references: Any, models: Path, name: str) -> None:
    """``resume`` is ``grpo`` in two starts."""
    rows = METRICS.get(name, METRICS["grpo"])
    runs = references("references.runs")
    if not (models / "policy").exists():
        runs.write_models(models, wide=True)
    length = max(row["step"] for row in rows)
    found = runs.in_process(name, models, length=length, wide=True)
    assert "error" not in found, found["error"]
    for row, kept in zip(found["metrics"], rows, strict=True):
        measured = {key: value for key, value in row.items() if "sampling/" not in key}
        assert measured == pytest.approx(kept, rel=1e-9, abs=1e-13), f"step {row['step']}"


def test_programs_of_the_benchmarks_get_the_verdicts_they_got_before(references: Any, real_data: Path) -> None:
    verdicts = references("references.verdicts")
    found = verdicts.judged(lambda name, problems: [one for one in problems if one.task_id in VERDICTS[name]])
    assert found == VERDICTS
