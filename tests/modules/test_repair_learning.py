"""Training with a second turn learns to repair: more than training without one from as many tokens."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_two_turns_solve_more_than_one_turn_trained_on_as_many_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 0 of benchmarks/repair.py: some minutes on two free cores."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    repair = importlib.import_module("repair")
    monkeypatch.setattr("sys.argv", ["repair", "--seeds", "0", "--folder", str(tmp_path)])
    repair.main()
    written = json.loads((tmp_path / "results.json").read_text())
    before = written["before"]
    trained = {result["turns"]: result for result in written["results"]}
    assert trained[1]["tokens"] == pytest.approx(trained[2]["tokens"], rel=0.03)
    for sampling in ("greedy", "sampled"):
        shares = {turns: result["shares"] for turns, result in trained.items()}
        assert shares[2][f"{sampling}/turn_2"] - shares[1][f"{sampling}/turn_2"] >= 0.15
        gains = [of[f"{sampling}/turn_2"] - of[f"{sampling}/turn_1"] for of in (before, shares[2])]
        assert gains[1] > max(0.1, gains[0])
