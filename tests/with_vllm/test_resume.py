"""Runs on real vLLM that are killed and go on, and two ranks with an engine each: processes of their own."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.vllm_run import processes, said


def weights(folder: Path) -> dict[str, Any]:
    with np.load(folder / "weights.npz") as found:
        return dict(found)


def logged(folder: Path, rank: int = 0) -> Any:
    return json.loads((folder / f"rank{rank}.json").read_text())


def apart(first: dict[str, Any], second: dict[str, Any]) -> float:
    assert first.keys() == second.keys()
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_a_run_killed_while_it_samples_ends_with_the_weights_of_one_that_was_not(
    byte_tokenizer: str, tmp_path: Path, lora: bool
) -> None:
    """Colocated: by SIGKILL in the sixth rollout, saved after the fourth, to the last bit."""
    told = {"engine": "VLLM", "rollouts": 7, "tokenizer": byte_tokenizer, "lora": lora}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert processes(whole, **told) == [0], said(whole)
    assert processes(killed, kill_in=5, **told) == [-signal.SIGKILL], said(killed)
    assert not (killed / "weights.npz").exists()
    assert (killed / "run" / "last.ckpt").resolve().name == "rollout_000004.ckpt"
    assert processes(killed, **told) == [0], said(killed)
    assert apart(weights(killed), weights(whole)) == 0.0
    after, before = logged(killed), logged(whole)
    assert (after["arrivals"], before["arrivals"]) == (3, 7)
    rewards = [one["reward/mean"] for one in before["logged"]]
    assert [one["reward/mean"] for one in after["logged"]] == rewards[4:]
    assert len(set(rewards)) > 3, "the weights did not move enough to tell"


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_two_ranks_with_shards_and_an_engine_each_learn_what_one_process_learns(
    byte_tokenizer: str, tmp_path: Path, lora: bool
) -> None:
    """The same rows from the same streams; sums over two ranks are in another order, in float32."""
    told = {"engine": "VLLM", "rollouts": 4, "tokenizer": byte_tokenizer, "lora": lora}
    alone, two = tmp_path / "alone", tmp_path / "two"
    assert processes(alone, **told) == [0], said(alone)
    assert processes(two, 2, **told) == [0, 0], said(two)
    assert apart(weights(alone), weights(two)) < 1e-4
    for rank in range(2):
        found = logged(two, rank)
        assert found["arrivals"] == 4 and found["bytes"] == logged(alone)["bytes"]
        assert all(one["sampling/logprob_gap/max"] < 1e-4 for one in found["logged"])
    rewards = [one["reward/mean"] for one in logged(alone)["logged"]]
    np.testing.assert_allclose([one["reward/mean"] for one in logged(two)["logged"]], rewards, rtol=1e-6)
