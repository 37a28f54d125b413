"""Older weights sampled the rows of one rank: all ranks compute ratios together, and none waits for another."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed.runs import build, fit, policy
from support.ranks import on_ranks
from support.small_runs import EvenBytes

from lit_rl.engines import Engine, InProcess, Session
from lit_rl.models.policy import Policy
from lit_rl.modules import GRPO
from lit_rl.types import Experience, Generation, Request, Sampling

ROWS = 4
"""Of a problem, and so of a rank."""


class BehindOnOneRank(Engine):
    """Says of rank 0's rows that older weights sampled them, once there are older ones; alone, of the same rows."""

    @contextmanager
    def session(self, policy: Policy, sampling: Sampling) -> Iterator[Session]:
        with InProcess().session(policy, sampling) as session:
            first_rank = os.environ.get("RANK", "0") == "0"
            yield Claiming(session, behind=first_rank and policy.version > 0)


class Claiming(Session):
    def __init__(self, session: Session, behind: bool) -> None:
        self.session, self.behind = session, behind

    def submit(self, requests: Sequence[Request]) -> None:
        self.session.submit(requests)

    def step(self) -> list[Generation]:
        done = self.session.step()
        old = [self.behind and generation.row < ROWS for generation in done]
        return [
            replace(one, weights_version=one.weights_version - is_old) for one, is_old in zip(done, old, strict=True)
        ]

    @property
    def num_unfinished(self) -> int:
        return self.session.num_unfinished


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
    options = {"engine": BehindOnOneRank(), "rewards": [EvenBytes()], "epochs": 1, "max_rollouts": 3}
    module = build(Watched, policy(tokenizer), **options)
    return fit(module, strategy, folder, devices=devices), module.seen  # type: ignore[attr-defined]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
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
