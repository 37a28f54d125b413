"""Rows of older weights on two ranks: sampled ahead, through a crash, and on one rank alone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.runs import build, fit, policy, sgd, trainer_of, whole_weights
from support.ill_runs import Around
from support.late_verdicts import Counting, Late, PassedAndEven, Programs
from support.ranks import on_ranks
from support.saved_runs import CrashAt
from support.small_runs import EvenBytes

from lit_rl.callbacks import Checkpointing
from lit_rl.math.losses import TruncatedWeights
from lit_rl.modules import GRPO, Objective
from lit_rl.types import Experience, Generation


def run(tokenizer: str, strategy: str, folder: Path, devices: int, *others: Any) -> tuple[dict[str, Any], int]:
    """Start or go on, four problems a rollout on any number of ranks: an epoch has three rollouts."""
    engine = Counting()
    module = build(
        GRPO,
        policy(tokenizer),
        objective=Objective(correction=TruncatedWeights()),
        staleness=1,
        sandbox=Late,
        engine=engine,
        rewards=[PassedAndEven()],
        epochs=1,
        optimizer=sgd,
        max_rollouts=5,
    )
    callback = Checkpointing(str(folder), 1)
    trainer = trainer_of(strategy, folder, devices, callbacks=[callback, *others])
    trainer.fit(module, Programs(batch_size=4 // devices), ckpt_path=callback.lock_and_resolve_checkpoint(trainer))
    return whole_weights(module), engine.sessions


@pytest.mark.parametrize(
    ("strategy", "stops"),
    [pytest.param("ddp", (2, 3), marks=pytest.mark.slow), ("fsdp2", (3,))],
    ids=["ddp", "fsdp2"],
)
def test_two_ranks_learn_what_one_process_learns_and_resume_to_the_last_bit(
    byte_tokenizer: str, tmp_path: Path, strategy: str, stops: tuple[int, ...]
) -> None:
    """An epoch ends after the third rollout."""
    alone, _ = run(byte_tokenizer, "auto", tmp_path / "alone", 1)

    def on_two() -> Any:
        whole, _ = run(byte_tokenizer, strategy, tmp_path / "whole", 2)
        for stop in stops:
            with pytest.raises(InterruptedError):
                run(byte_tokenizer, strategy, tmp_path / "a", 2, CrashAt(stop))
        again, sessions = run(byte_tokenizer, strategy, tmp_path / "a", 2)
        return whole, all(np.array_equal(again[name], whole[name]) for name in whole), sessions

    for whole, same, sessions in on_ranks(on_two, seconds=180):
        assert same and sessions == 1
        assert max(float(np.abs(whole[name] - alone[name]).max()) for name in alone) < 1e-10


def test_rows_sampled_ahead_are_dealt_out_again_to_another_number_of_ranks(byte_tokenizer: str, tmp_path: Path) -> None:
    """Two ranks crash, then one process, then two end it: none samples again what the one before had sampled."""
    whole, _ = run(byte_tokenizer, "auto", tmp_path / "whole", 1)

    def go_on(strategy: str, devices: int, stop: int) -> Any:
        try:
            return run(byte_tokenizer, strategy, tmp_path / "a", devices, CrashAt(stop))
        except InterruptedError:
            return None

    assert on_ranks(go_on, "ddp", 2, 2) == [None, None]
    assert go_on("auto", 1, 3) is None
    for found, sessions in on_ranks(go_on, "ddp", 2, -1, seconds=180):
        assert sessions == 1
        assert max(float(np.abs(found[name] - whole[name]).max()) for name in whole) < 1e-10


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


def behind_on_one_rank(tokenizer: str, strategy: str, folder: Path, devices: int) -> Any:
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
    (first, of_first), (second, of_second) = on_ranks(behind_on_one_rank, byte_tokenizer, strategy, tmp_path, 2)
    alone, _ = behind_on_one_rank(byte_tokenizer, "auto", tmp_path, 1)
    for name, value in alone.items():
        assert np.array_equal(first[name], second[name])
        assert np.abs(first[name] - value).max() < 1e-10
    on_policy = [on for on, _, _ in of_first]
    assert on_policy == [on for on, _, _ in of_second] and on_policy == [True, False, False]
    behind = [sampled for _, sampled, rows in of_first[1:] if rows]
    ahead = [sampled for _, sampled, rows in of_second[1:] if rows]
    assert behind and all(behind)
    assert ahead and not any(ahead)  # float64 by the training forward, float32 by the sampler
