"""Masked statistics and the loss's denominator, against numbers one can check by eye."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lit_rl.math.kl import kl_estimate, kl_penalised_rewards
from lit_rl.math.masking import (
    AggregateMode,
    aggregate,
    from_table,
    group_size_per_row,
    loss_denominator,
    masked_mean,
    masked_whiten,
    to_table,
)
from lit_rl.math.ratios import log_ratio
from lit_rl.modules.ppo import clipped_value_loss

MODES: tuple[AggregateMode, ...] = ("token_mean", "sequence_mean", "sequence_sum", "sequence_sum_constant")


def denominator_of(mask: Tensor, mode: AggregateMode) -> Tensor:
    return loss_denominator(mask, mode, constant_tokens=8 if mode == "sequence_sum_constant" else None)


def ragged(num_rows: int = 6, num_tokens: int = 7) -> tuple[Tensor, Tensor]:
    """A differentiable token loss and a mask of unequal lengths, one row empty."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(num_rows, num_tokens, generator=generator, dtype=torch.float64)
    lengths = torch.tensor([7, 1, 4, 0, 2, 5])[:num_rows]
    return weights, torch.arange(num_tokens) < lengths[:, None]


X, M = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3, dtype=torch.bool)
BROADCAST = {
    "masked_mean": lambda: masked_mean(X, M[:, :1]),
    "masked_whiten": lambda: masked_whiten(X, M[0]),
    "aggregate": lambda: aggregate(X, M[:1], mode="token_mean", denominator=6),
    "kl_estimate": lambda: kl_estimate(X, X[0, :1], kind="k1"),
    "kl_estimate old": lambda: kl_estimate(X, X, kind="k3_weighted", old_logprobs=X[:1]),
    "kl_penalised_rewards": lambda: kl_penalised_rewards(X[:, :1], X, X, M, coef=0.1),
    "log_ratio": lambda: log_ratio(X, X[:, :1]),
    "log_ratio mask": lambda: log_ratio(X, X, level="sequence", mask=M[:, :1]),
    "clipped_value_loss": lambda: clipped_value_loss(X, X, X[:, :1], value_clip=None),
}


@pytest.mark.parametrize("name", BROADCAST)
def test_a_tensor_of_another_shape_is_refused_before_it_is_broadcast(name: str) -> None:
    with pytest.raises(ValueError, match=r"must be \[2, \d\]"):
        BROADCAST[name]()


@pytest.mark.parametrize("values", [[5.0], [0.7] * 8, [0.1] * 12, [-3.3e7] * 5])
def test_whitening_one_or_equal_entries_gives_exact_zero(values: list[float]) -> None:
    """Item 22: a single valid token or zero variance is finite, and here exactly 0."""
    x = torch.tensor([*values, 9.0])
    mask = torch.tensor([True] * len(values) + [False])
    assert masked_whiten(x, mask).tolist() == [0.0] * (len(values) + 1)


def test_whitening_an_empty_mask_gives_zeros() -> None:
    """Item 22: a rank or rollout without any valid token."""
    assert masked_whiten(torch.ones(3), torch.zeros(3, dtype=torch.bool)).tolist() == [0.0] * 3


def test_whitening_two_ranks_equals_whitening_one() -> None:
    """Item 21: statistics are masked and global over ranks; both calls of the hook see both ranks' sums."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 5, generator=generator, dtype=torch.float64) * 3 + 10
    mask = torch.rand(4, 5, generator=generator) < 0.6
    whole = masked_whiten(x, mask)

    def sums(part: slice) -> list[Tensor]:
        """Arguments of each call of the hook on the rank that holds these rows, once sums are global."""
        mean = x[mask].mean()
        kept, held = x[part], mask[part]
        first = torch.stack([kept[held].sum(), held.sum().double()])
        return [first, (kept[held] - mean).square().sum().reshape(1)]

    ranks = [slice(0, 1), slice(1, 4)]
    for here, there in (ranks, ranks[::-1]):
        others = iter(sums(there))
        found = masked_whiten(x[here], mask[here], sum_over_ranks=lambda local, others=others: local + next(others))
        torch.testing.assert_close(found, whole[here], rtol=1e-12, atol=1e-12)
        assert next(others, None) is None


def test_every_mode_weighs_a_short_and_a_long_completion_as_it_says() -> None:
    """Item 1: lengths 1 and 10, token loss 1: the gradient of each token, in closed form."""
    mask = torch.zeros(2, 10, dtype=torch.bool)
    mask[0, 0] = True
    mask[1] = True
    want = {  # weight of the short row's token, weight of each of the long row's tokens
        "token_mean": (1 / 11, 1 / 11),
        "sequence_mean": (1 / 2, 1 / 20),  # ten times less for each token of the long row
        "sequence_sum": (1 / 2, 1 / 2),
        "sequence_sum_constant": (1 / 16, 1 / 16),  # two rows, constant 8
    }
    for mode in MODES:
        loss = torch.ones(2, 10, dtype=torch.float64, requires_grad=True)
        aggregate(loss, mask, mode=mode, denominator=denominator_of(mask, mode)).backward()
        short, long = want[mode]
        expected = torch.zeros(2, 10, dtype=torch.float64)
        expected[0, 0], expected[1] = short, long
        torch.testing.assert_close(loss.grad, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [[6], [1] * 6, [3, 3], [1, 2, 3], [5, 1]])
def test_any_split_into_micro_batches_gives_the_same_gradient(mode: AggregateMode, sizes: list[int]) -> None:
    """Item 2: the normaliser spans the update; also item 5, for any token loss, the critic's too."""
    weights, mask = ragged()
    denominator = sum(denominator_of(part, mode) for part in mask.split(sizes))
    torch.testing.assert_close(denominator, denominator_of(mask, mode))

    def gradient(parts: list[int]) -> Tensor:
        parameter = torch.tensor([0.3, -1.2], dtype=torch.float64, requires_grad=True)
        for rows, held in zip(weights.split(parts), mask.split(parts), strict=True):
            loss = (parameter[0] * rows + parameter[1]).square()
            aggregate(loss, held, mode=mode, denominator=denominator).backward()
        return parameter.grad

    torch.testing.assert_close(gradient(sizes), gradient([6]), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("mode", MODES)
def test_averaged_rank_gradients_need_the_denominator_divided_by_the_ranks(mode: AggregateMode) -> None:
    """Item 3: unequal token counts on two ranks whose gradients are averaged, as DDP does."""
    weights, mask = ragged()
    total = denominator_of(mask, mode)

    def gradient(rows: slice, denominator: Tensor) -> Tensor:
        parameter = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        aggregate((parameter * weights[rows]).exp(), mask[rows], mode=mode, denominator=denominator).backward()
        return parameter.grad

    averaged = (gradient(slice(0, 1), total / 2) + gradient(slice(1, 6), total / 2)) / 2
    torch.testing.assert_close(averaged, gradient(slice(0, 6), total), rtol=1e-13, atol=1e-13)


def test_the_denominator_may_span_a_window_larger_than_the_rows_at_hand() -> None:
    """Item 4: the count is an argument, so the optimisation window, not the generation batch, sets it."""
    mask = torch.ones(2, 2, dtype=torch.bool)
    loss = aggregate(torch.ones(2, 2), mask, mode="token_mean", denominator=16.0)
    assert loss.item() == 0.25  # 4 tokens of a window of 16


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("denominator", [0.0, 5.0])
def test_an_empty_micro_batch_gives_zero_that_hangs_on_the_graph(mode: AggregateMode, denominator: float) -> None:
    """Item 6: no 0 / 0, and the backward runs."""
    parameter = torch.tensor(2.0, requires_grad=True)
    mask = torch.zeros(3, 4, dtype=torch.bool)
    loss = aggregate(parameter * torch.ones(3, 4), mask, mode=mode, denominator=denominator)
    loss.backward()
    assert loss.item() == parameter.grad.item() == 0.0


def test_junk_outside_the_mask_reaches_neither_loss_nor_gradient() -> None:
    """Item 6: what stands on padding never matters."""
    loss = torch.tensor([[2.0, math.nan], [4.0, math.inf]], requires_grad=True)
    mask = torch.tensor([[True, False], [True, False]])
    total = aggregate(loss, mask, mode="sequence_mean", denominator=2.0)
    total.backward()
    assert total.item() == 3.0
    assert loss.grad.tolist() == [[0.5, 0.0], [0.5, 0.0]]


def test_scattered_unequal_groups_fill_the_table_from_the_left() -> None:
    """Group 3 has rows 1, 2, 4; group 5 rows 0, 5; group 9 row 3."""
    ids = torch.tensor([5, 3, 3, 9, 3, 5])
    rows = torch.tensor([10, 11, 12, 13, 14, 15])
    assert to_table(rows, ids, fill=-1).tolist() == [[11, 12, 14], [10, 15, -1], [13, -1, -1]]
    assert from_table(to_table(rows, ids), ids).tolist() == rows.tolist()
    assert group_size_per_row(ids).tolist() == [2, 3, 3, 1, 3, 2]
    assert to_table(torch.tensor([True]), torch.tensor([0]), fill=False, columns=2).tolist() == [[True, False]]
    assert to_table(torch.zeros(0), torch.zeros(0, dtype=torch.int64), columns=2).shape == (0, 2)
