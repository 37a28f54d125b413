"""The script that measures lit_rl on a GPU runs to its end where there is none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("device", "ratio", "update", "sampling")


@pytest.mark.slow
def test_the_gpu_script_measures_a_tiny_model_on_the_cpu(tmp_path: Path) -> None:
    command = [sys.executable, "benchmarks/gpu.py", "--folder", str(tmp_path), "--device", "cpu", "--tiny"]
    command += ["--patience", "20", "--parts", *PARTS]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-2000:]

    found = json.loads((tmp_path / "gpu.json").read_text())
    rows = [row for part in PARTS for row in found[part]]
    assert all(found[part] for part in PARTS), found
    assert not [row for row in rows if row.get("failed") or "left out" in row], rows
    first_ratios = [row for row in found["ratio"] if row["old read in"] == "the update's micro-batches"]
    assert first_ratios
    assert all(row["mean |log ratio|"] == 0.0 for row in first_ratios)
