"""Advantages from one reward per completion: closed forms and properties, scattered groups, rows without a score."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
import torch
from torch import Tensor

from lit_rl.math.advantages import (
    Baseline,
    BatchMean,
    GroupMean,
    LeaveOneOut,
    MaxRewards,
    NoBaseline,
    Normalize,
    RowAdvantages,
    decoupled_advantages,
)

NORMALIZE: tuple[Normalize, ...] = ("std", "batch_std", "none")
BASELINES: tuple[type[GroupMean], ...] = (GroupMean, LeaveOneOut)


def over(kind: RowAdvantages, rewards: Tensor, valid: Tensor | None = None) -> Tensor:
    """Advantages of groups that are the rows of a table [B, G]."""
    valid = torch.ones_like(rewards, dtype=torch.bool) if valid is None else valid
    groups = torch.arange(len(rewards))[:, None].expand_as(rewards)
    return kind(rewards.flatten(), valid.flatten(), groups.flatten()).view_as(rewards)


def whole(kind: RowAdvantages, scores: Tensor, valid: Tensor | None = None) -> Tensor:
    """Advantages of rows [N] of one group."""
    return over(kind, scores[None], None if valid is None else valid[None])[0]


def random_rewards(num_prompts: int = 5, group_size: int = 6) -> Tensor:
    return torch.randn(num_prompts, group_size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_group_of_one_says_nothing_and_is_refused_for_training() -> None:
    """Item 15: neither NaN nor the raw reward."""
    for kind in (GroupMean(), LeaveOneOut(), MaxRewards()):
        assert over(kind, torch.ones(3, 1)).tolist() == [[0.0]] * 3
        message = f"baseline {type(kind).__name__} compares .*: num_samples must be 2 or more, got 1"
        with pytest.raises(ValueError, match=message):
            kind.require_enough_samples(1, "baseline")
        kind.require_enough_samples(2, "baseline")
    BatchMean().require_enough_samples(1, "baseline")


@pytest.mark.parametrize("reward", [0.7, 0.1, 1 / 3, 1e-8, 123456.7, -0.3])
@pytest.mark.parametrize("group_size", [2, 3, 8, 12, 64])
def test_an_all_equal_group_is_exactly_zero(reward: float, group_size: int) -> None:
    """Item 17: equality decides, not a small standard deviation; eps 1e-9 would show any rounding."""
    rewards = torch.full((2, group_size), reward)
    rewards[1, 0] += 1
    for baseline in BASELINES:
        advantages = over(baseline(eps=1e-9), rewards)
        assert advantages[0].tolist() == [0.0] * group_size and advantages[1].all()


def test_nearly_equal_rewards_are_a_signal() -> None:
    """Item 17: the other side: two neighbouring float32 numbers differ."""
    first = torch.tensor(0.7)
    rewards = torch.stack([first, torch.nextafter(first, torch.tensor(1.0))])[None]
    assert over(GroupMean(normalize="none"), rewards)[0, 1] > 0


def test_the_deviation_of_the_rollout_divides_every_group() -> None:
    """Item 72: 3, 1 and, of another group, 7, 9, 5: mean 5, squares 4 + 16 + 4 + 16, over 4; equal scores stay 0."""
    scores, ids = torch.tensor([3.0, 1.0, 7.0, 9.0, 5.0], dtype=torch.float64), torch.tensor([4, 4, 2, 2, 2])
    got = GroupMean("batch_std", eps=0.0)(scores, torch.ones(5).bool(), ids)
    want = torch.tensor([1.0, -1.0, 0.0, 2.0, -2.0], dtype=torch.float64) / math.sqrt(10)
    torch.testing.assert_close(got, want)
    first = scores.masked_fill(ids == 4, 1.0)
    assert GroupMean("batch_std")(first, torch.ones(5).bool(), ids)[:2].tolist() == [0.0, 0.0]


def test_maxrl_follows_the_expanded_logarithm_of_the_pass_rate() -> None:
    """Three of four actions fail; over all 4^3 groups, -sum over k < 3 of (1 - p)^k / k, whose derivative is exact."""
    theta = torch.tensor([0.3, -0.2, 0.5, 0.1], dtype=torch.float64, requires_grad=True)
    logprobs = theta.log_softmax(0)
    p = logprobs[0].exp()
    wanted = torch.autograd.grad(-sum((1 - p) ** k / k for k in (1, 2)), theta, retain_graph=True)[0]
    scores = [torch.autograd.grad(logprob, theta, retain_graph=True)[0] for logprob in logprobs]
    found = torch.zeros(4, dtype=torch.float64)
    for actions in itertools.product(range(4), repeat=3):
        rewards = torch.tensor([float(action == 0) for action in actions], dtype=torch.float64)
        probability = logprobs[list(actions)].sum().exp().detach()
        advantages = whole(GroupMean("mean"), rewards)
        found += probability * sum(a * scores[action] for a, action in zip(advantages, actions, strict=True)) / 3
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def test_maxrl_divides_by_the_mean_and_takes_no_negative_reward() -> None:
    """2, 0, 1: mean 1; a group without reward and one of equal rewards say nothing."""
    rewards = torch.tensor([[4.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.7, 0.7, 0.7]], dtype=torch.float64)
    assert over(GroupMean("mean"), rewards).tolist() == [[1.0, -1.0, 0.0], [0.0] * 3, [0.0] * 3]
    with pytest.raises(ValueError, match="at least 0"):
        over(GroupMean("mean"), rewards - 1)


def test_decoupled_terms_are_compared_one_by_one() -> None:
    """GDPO in plain Python: groups of three and two, a row that is not valid, a term of small spread."""
    ids, valid = [5, 5, 2, 5, 2, 2], [True, True, True, True, True, False]
    values = [[1.0, 0.03], [0.0, 0.01], [1.0, 0.02], [0.0, 0.05], [0.0, 0.02], [9.0, math.nan]]
    weights, eps, whole_eps = [1.0, 0.25], 1e-6, 1e-4
    sums = [0.0] * 6
    for k, weight in enumerate(weights):
        for group in (5, 2):
            rows = [i for i in range(6) if ids[i] == group and valid[i]]
            mean = statistics.fmean(values[i][k] for i in rows)
            spread = statistics.stdev(values[i][k] for i in rows)
            for i in rows if spread else ():
                sums[i] += weight * (values[i][k] - mean) / (spread + eps)
    spread = statistics.stdev(sums[:5])
    given = [torch.tensor(numbers, dtype=torch.float64) for numbers in (values, weights)]
    got = decoupled_advantages(*given, torch.tensor(valid), torch.tensor(ids), GroupMean(eps=eps), eps=whole_eps)
    want = torch.tensor([one / (spread + whole_eps) for one in sums], dtype=torch.float64)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
    assert got[5] == 0 and (got[:5] != 0).all()


KINDS = [*(baseline(normalize) for baseline in BASELINES for normalize in NORMALIZE), MaxRewards(), NoBaseline()]


@pytest.mark.parametrize("kind", [*KINDS, BatchMean()], ids=lambda kind: str(kind).partition(" object at")[0])
def test_failures_change_nothing_for_the_rest(kind: RowAdvantages) -> None:
    """Item 16: the same numbers as if the failed completions had never been sampled."""
    rewards = random_rewards().abs()  # MaxRewards refuses negative ones
    valid = torch.ones(5, 8, dtype=torch.bool)
    valid[:, [2, 5]] = False
    padded = torch.full((5, 8), math.inf, dtype=torch.float64)
    padded[valid] = rewards.flatten()
    got = over(kind, padded, valid)
    torch.testing.assert_close(got[valid].view(5, 6), over(kind, rewards), rtol=1e-13, atol=1e-13)
    assert not got[~valid].any()


def test_a_valid_nan_is_an_error_that_says_where_it_belongs() -> None:
    """Item 16: NaN must not pass through in silence."""
    with pytest.raises(ValueError, match="1 of 4 valid scores are NaN or infinite; set valid to False"):
        over(GroupMean(), torch.tensor([[1.0, math.nan], [0.0, 1.0]]))


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("normalize", NORMALIZE)
def test_properties_of_every_group(normalize: Normalize, baseline: type[GroupMean]) -> None:
    rewards = random_rewards()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    advantages = over(baseline(normalize), rewards)
    shuffled = over(baseline(normalize), rewards[:, order])
    shifted = over(baseline(normalize), rewards + 7.0)
    torch.testing.assert_close(advantages.sum(-1), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(shuffled, advantages[:, order], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(shifted, advantages, rtol=1e-9, atol=1e-9)


def test_one_outlier_does_not_blow_leave_one_out_up() -> None:
    """Item 18: the others' standard deviation is 0 here; the group's is not.

    With n - 1, |r - mean| / std is at most (n - 1) / sqrt(n), and leave-one-out is n / (n - 1) of that.
    """
    rewards = torch.zeros(1, 8)
    rewards[0, 3] = 1.0
    advantages = over(LeaveOneOut(eps=1e-9), rewards)
    assert advantages.abs().max().item() == pytest.approx(math.sqrt(8))


def test_advantages_are_float32_or_wider_and_constants() -> None:
    """Item 40: rewards in half precision or as counts."""
    for dtype in (torch.bfloat16, torch.float16, torch.int64, torch.float32):
        advantages = over(GroupMean(), torch.tensor([[1, 0, 1]], dtype=dtype))
        assert advantages.dtype == torch.float32 and not advantages.requires_grad
    assert over(GroupMean(), torch.tensor([[1.0, 0.0]], dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize(("kind", "groups", "rows"), [(BatchMean(), 1, 7), (GroupMean("batch_std"), 5, 12)])
def test_batch_advantages_of_two_ranks_equal_those_of_one(kind: GroupMean, groups: int, rows: int) -> None:
    """Items 21, 72: mean and standard deviation over all ranks; of five groups this rank has the first two."""
    rewards = random_rewards().flatten()
    of_all = over(kind, rewards.view(groups, -1)).flatten()
    groups = -(-rows * groups // len(rewards))
    mine, other = rewards[:rows], rewards[rows:]
    count = torch.tensor(len(other), dtype=torch.float64)
    replies = iter([torch.stack([other.sum(), count]), (other - rewards.mean()).square().sum().reshape(1)])
    kind.sum_over_ranks = lambda local: local + next(replies)
    got = over(kind, mine.view(groups, -1)).flatten()
    torch.testing.assert_close(got, of_all[: len(got)], rtol=1e-12, atol=1e-12)


def test_max_rewards_keeps_the_best_of_each_group() -> None:
    rewards = torch.tensor([[3.0, 5.0, 5.0, 1.0], [4.0, 4.0, 0.0, 0.0], [2.0, 1.0, 7.0, 0.0]])
    valid = torch.tensor([[True] * 4, [True, False, True, True], [True, True, False, True]])
    want = [[0.0, 5.0, 5.0, 0.0], [4.0, 0.0, 0.0, 0.0], [2.0, 0.0, 0.0, 0.0]]
    assert over(MaxRewards(), rewards, valid).tolist() == want


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


def test_a_baseline_of_the_whole_rollout_works_outside_a_run() -> None:
    """A fresh reader's moving mean failed: there was nothing to sum over ranks with."""

    class MeanOfAll(Baseline):
        def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
            total, count = self.sum_over_ranks(torch.stack([scores[valid].sum(), valid.sum()]))
            return (total / count).expand_as(scores)

    scores, valid = torch.tensor([1.0, 0.0, 5.0, 9.0]), torch.tensor([True, True, True, False])
    assert MeanOfAll()(scores, valid, torch.tensor([0, 0, 1, 1])).tolist() == [-1.0, -2.0, 3.0, 0.0]
