"""Older weights sampled the rows of one rank: all ranks compute ratios together, and none waits for another."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.runs import build, fit, policy
from support.ill_runs import Around
from support.ranks import on_ranks
from support.small_runs import EvenBytes

from lit_rl.modules import GRPO, Objective
from lit_rl.types import Experience, Generation

ROWS = 4
"""Of a problem, and so of a rank."""


class BehindOnOneRank(Around):
    """Says of rank 0's rows that older weights sampled them, once there are older ones; alone, of the same rows."""

    shares_weights = False

    def change(self, generation: Generation) -> Generation:
        version, first_rank = generation.weights_version, os.environ.get("RANK", "0") == "0"
        is_old = first_rank and version > 0 and generation.row < ROWS
        return replace(generation, weights_version=version - is_old)


class Watched(GRPO):
    """Notes of each rollout whether its ratios are all 1, and how far the old log-probabilities are the sampler's."""

    def make_experience(self, *args: Any) -> Experience:
        experience = super().make_experience(*args)
        old, rows = experience.old_logprobs, experience.completions
        trained = self.rows_to_train(experience.row_mask, experience.advantages)
        sampled = None if old is None else bool((old == rows.sampler_logprobs.to(old.dtype))[trained].all())
        self.seen: list[tuple[bool, bool | None, int]] = getattr(self, "seen", [])
        self.seen.append((self.on_policy, sampled, int(trained.sum())))
        return experience


def run(tokenizer: str, strategy: str, folder: Path, devices: int) -> Any:
    options = {
        "engine": BehindOnOneRank(),
        "objective": Objective(correction=None),
        "rewards": [EvenBytes()],
        "epochs": 1,
        "max_rollouts": 3,
    }
    module = build(Watched, policy(tokenizer), **options)
    return fit(module, strategy, folder, devices=devices), module.seen  # type: ignore[attr-defined]


@pytest.mark.parametrize("strategy", [pytest.param("ddp", marks=pytest.mark.slow), "fsdp2"])
def test_rows_of_older_weights_on_one_rank_are_learned_from_as_by_one_process(
    byte_tokenizer: str, tmp_path: Path, strategy: str
) -> None:
    """A rank that decided by its own rows would leave the other alone in a forward pass, where shards hang."""
    (first, of_first), (second, of_second) = on_ranks(run, byte_tokenizer, strategy, tmp_path, 2)
    alone, _ = run(byte_tokenizer, "auto", tmp_path, 1)
    for name, value in alone.items():
        assert np.array_equal(first[name], second[name])
        assert np.abs(first[name] - value).max() < 1e-8
    on_policy = [on for on, _, _ in of_first]
    assert on_policy == [on for on, _, _ in of_second] and on_policy == [True, False, False]
    behind = [sampled for _, sampled, rows in of_first[1:] if rows]
    ahead = [sampled for _, sampled, rows in of_second[1:] if rows]
    assert behind and all(behind)
    assert ahead and not any(ahead)  # float64 by the training forward, float32 by the sampler
