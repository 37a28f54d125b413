"""Advantages as classes: the functions' numbers for equal groups, and groups that are unequal or scattered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lit_rl.advantages import (
    GAE,
    Baseline,
    BatchMean,
    GroupMean,
    LeaveOneOut,
    MaxRewards,
    NoBaseline,
    RowAdvantages,
    RunningMean,
)
from lit_rl.functional.advantages import batch_advantages, group_advantages, max_rewards
from lit_rl.functional.returns import gae
from lit_rl.modules.named_advantages import baseline_of, deltas_of, running_of

# What modules computed before these were classes, from [B, G].
BEFORE: dict[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "group_mean": lambda r, v, s: group_advantages(r, v, scale_by=s),
    "leave_one_out": lambda r, v, s: group_advantages(r, v, scale_by=s, baseline="leave_one_out"),
    "batch_mean": lambda r, v, s: batch_advantages(r.flatten(), v.flatten(), scale_by=s),
    "none": lambda r, v, s: r * v,
    "max_rewards": lambda r, v, s: max_rewards(r, v),
}
DELTAS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "rewards": lambda r, v: r * v,
    "centered_rewards": lambda r, v: group_advantages(r, v, scale_by="none"),
    "normalized_rewards": lambda r, v: group_advantages(r, v, scale_by="std", eps=1e-5),
    "max_rewards": max_rewards,
}


def rollout(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Scores and valid rows [5, 4]; one group is equal, one has one valid row."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 4, generator=generator, dtype=torch.float64).to(dtype)
    scores[2] = 0.7
    valid = torch.rand(5, 4, generator=generator) < 0.8
    valid[3] = torch.tensor([False, True, False, False])
    return scores, valid


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale_by", ["std", "none"])
@pytest.mark.parametrize("name", BEFORE)
def test_each_named_baseline_gives_the_numbers_it_gave_before(name: Any, scale_by: Any, dtype: torch.dtype) -> None:
    scores, valid = rollout(dtype)
    got = baseline_of(name, scale_by)(scores.flatten(), valid.flatten(), torch.arange(20) // 4)
    assert torch.equal(got, BEFORE[name](scores, valid, scale_by).flatten())
    assert got.dtype == dtype


@pytest.mark.parametrize("name", DELTAS)
def test_each_named_delta_gives_the_numbers_it_gave_before(name: Any) -> None:
    scores, valid = rollout(torch.float32)
    made = deltas_of(name)
    assert made is not None
    got = made(scores.flatten(), valid.flatten(), torch.arange(20) // 4)
    assert torch.equal(got, DELTAS[name](scores, valid).flatten())


def test_a_baseline_by_name_is_scaled_unless_it_is_said() -> None:
    assert baseline_of("group_mean", None).scale_by == "std"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # Group 1 has 3, 0, 0 (mean 1; the others of each: 0, 3/2, 3/2), group 2 has 4, 8, group 3 has 5 alone.
        (GroupMean(scale_by="none"), [2.0, -2.0, -1.0, 0.0, 2.0, -1.0]),
        (LeaveOneOut(scale_by="none"), [3.0, -4.0, -1.5, 0.0, 4.0, -1.5]),
        (MaxRewards(), [3.0, 0.0, 0.0, 0.0, 8.0, 0.0]),
        (NoBaseline(), [3.0, 4.0, 0.0, 5.0, 8.0, 0.0]),
        (BatchMean(scale_by="none"), [3 - 10 / 3, 4 - 10 / 3, -10 / 3, 5 - 10 / 3, 8 - 10 / 3, -10 / 3]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_groups_may_be_scattered_and_unequal(kind: RowAdvantages, expected: list[float]) -> None:
    """A group of one says nothing where completions are compared."""
    scores, ids = torch.tensor([3.0, 4.0, 0.0, 5.0, 8.0, 0.0]), torch.tensor([1, 2, 1, 3, 2, 1])
    got = kind(scores, torch.ones(6, dtype=torch.bool), ids)
    torch.testing.assert_close(got, torch.tensor(expected))


@pytest.mark.parametrize("kind", [GroupMean(), LeaveOneOut(), MaxRewards(), NoBaseline(), BatchMean(), RunningMean()])
def test_a_row_without_a_score_has_no_advantage_and_no_say(kind: RowAdvantages) -> None:
    ids, valid = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([True, False, True, True, True])
    scores = torch.tensor([1.0, float("nan"), 3.0, 2.0, 5.0])
    got = kind(scores, valid, ids)
    assert got.isfinite().all() and got[1] == 0
    without = type(kind)()(scores[valid], valid[valid], ids[valid])
    torch.testing.assert_close(got[valid], without)


@pytest.mark.parametrize(("kind", "expected"), [(GroupMean, [2.0, 2.0, 5.0]), (LeaveOneOut, [3.0, 1.0, 5.0])])
def test_what_is_expected_of_a_row_is_its_groups_mean_or_the_others(
    kind: type[Baseline], expected: list[float]
) -> None:
    """Scores 1 and 3; a row alone is what is expected of it."""
    scores, ids = torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1])
    assert kind().expected(scores, torch.ones(3, dtype=torch.bool), ids).tolist() == expected


def test_the_running_mean_is_that_of_the_rollouts_before_and_is_kept() -> None:
    """Decay 3/4, means 4, 8: none, 4, then 3/4 * 4 + 1/4 * 8 = 5."""
    ids, valid = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.bool)
    first = RunningMean(decay=0.75)
    assert first(torch.tensor([4.0, 4.0]), valid, ids).tolist() == [4.0, 4.0]
    assert first(torch.tensor([7.0, 9.0]), valid, ids).tolist() == [3.0, 5.0]
    second = RunningMean(decay=0.75)
    second.load_state_dict(first.state_dict())
    assert second(torch.tensor([5.0, 6.0]), valid, ids).tolist() == [0.0, 1.0]


def test_a_scaled_baseline_of_rewards_to_go_is_refused() -> None:
    with pytest.raises(ValueError, match="rewards-to-go are not scaled, got the baseline GroupMean with scale_by=std"):
        running_of(GroupMean(), 0.9)
    assert running_of(GroupMean(scale_by="none"), 0.9)


def test_a_baseline_that_returns_one_number_is_told_so() -> None:
    class Wrong(NoBaseline):
        def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
            return scores.mean()

    with pytest.raises(ValueError, match=r"Wrong must return one number per row, \(2,\), got \(\)"):
        Wrong()(torch.zeros(2), torch.ones(2, dtype=torch.bool), torch.zeros(2, dtype=torch.int64))


def test_gae_as_a_class_is_the_function() -> None:
    generator = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64)
    mask, tails = torch.rand(3, 5, generator=generator) < 0.7, torch.tensor([0.5, 0.0, 1.0], dtype=torch.float64)
    got = GAE(gamma=0.9, gae_lambda=0.8).estimate(rewards, values, mask, tails)
    expected = gae(rewards, values, mask, gamma=0.9, gae_lambda=0.8, bootstrap_values=tails)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
