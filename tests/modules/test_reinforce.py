"""REINFORCE: reward-to-go, baselines, and the deltas of the lecture, in numbers one can check by eye."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import EvenBytes, weights, whole_and_resumed
from torch import Tensor

from lit_rl.advantages import BatchMean, GroupMean, NoBaseline
from lit_rl.models import SortingPolicy
from lit_rl.modules import GRPO, REINFORCE, Objective, RolloutModule
from lit_rl.training.ranks import sum_over_ranks
from lit_rl.types import Sampling

Make = Callable[..., RolloutModule]

CENTRED, BATCH_MEAN = GroupMean(normalize="none"), BatchMean(normalize="none")


class Before(BatchMean):
    """Compares with the mean of the rollout before."""

    last = 0.0

    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        before, self.last = self.last, float(scores[valid].mean())
        return torch.full_like(scores, before)

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        return (scores - self.expected(scores, valid, group_ids)) * valid

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last = state["last"]


@pytest.mark.parametrize("cls", [REINFORCE, GRPO])
def test_a_resumed_run_ends_with_the_weights_of_an_undisturbed_one(
    make_module: Make, tmp_path: Path, cls: type[RolloutModule]
) -> None:
    """Items 55 to 57, with a baseline that has a state."""
    whole, second = whole_and_resumed(lambda: make_module(cls, baseline=Before("none"), max_rollouts=6), tmp_path, 3)
    assert torch.equal(weights(second), weights(whole))


def test_baselines_and_deltas_sum_over_ranks() -> None:
    """Item 21."""
    for cls, name in ((REINFORCE, "baseline"), (REINFORCE, "deltas"), (GRPO, "baseline")):
        compares = BatchMean(normalize="none")
        cls(SortingPolicy(), rewards=[EvenBytes()], **{name: compares})  # type: ignore[arg-type]
        assert compares.sum_over_ranks is sum_over_ranks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deltas": NoBaseline(), "baseline": BATCH_MEAN}, "deltas=NoBaseline and baseline=BatchMean: give one"),
        ({"baseline": GroupMean(), "sampling": Sampling(num_samples=2)}, "the baseline GroupMean with normalize=std"),
        ({"objective": Objective(kl_coef=0.1, kl_in="reward")}, r"objective\.kl_in: expected loss"),
        ({"deltas": CENTRED}, "num_samples must be 2 or more, got 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        REINFORCE(SortingPolicy(), rewards=[EvenBytes()], **options)
