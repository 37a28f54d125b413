"""Advantages as classes: groups that are unequal or scattered, rows without a score, state."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # Group 1 has 3, 0, 0 (mean 1; the others of each: 0, 3/2, 3/2), group 2 has 4, 8, group 3 has 5 alone.
        (GroupMean(normalize="none"), [2.0, -2.0, -1.0, 0.0, 2.0, -1.0]),
        (LeaveOneOut(normalize="none"), [3.0, -4.0, -1.5, 0.0, 4.0, -1.5]),
        (MaxRewards(), [3.0, 0.0, 0.0, 0.0, 8.0, 0.0]),
        (NoBaseline(), [3.0, 4.0, 0.0, 5.0, 8.0, 0.0]),
        (BatchMean(normalize="none"), [3 - 10 / 3, 4 - 10 / 3, -10 / 3, 5 - 10 / 3, 8 - 10 / 3, -10 / 3]),
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


def test_a_baseline_that_returns_one_number_is_told_so() -> None:
    class Wrong(NoBaseline):
        def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
            return scores.mean()

    with pytest.raises(ValueError, match=r"Wrong: expected one number per row, \(2,\), got \(\)"):
        Wrong()(torch.zeros(2), torch.ones(2, dtype=torch.bool), torch.zeros(2, dtype=torch.int64))


def test_values_of_a_wider_dtype_lose_no_digit_beside_rewards() -> None:
    values = torch.tensor([[1 / 3, 2 / 7]], dtype=torch.float64)
    advantages, returns = GAE(gae_lambda=0.5).estimate(
        torch.tensor([[0.0, 1.0]]), values, torch.tensor([[True, True]]), torch.zeros(1, dtype=torch.float64)
    )
    last = 1.0 - 2 / 7
    assert advantages.tolist() == [[(2 / 7 - 1 / 3) + 0.5 * last, last]]
    assert returns.dtype == torch.float64
