"""Rows with holes give what the same rows give with the holes cut out."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
import torch
from torch import Tensor

from lit_rl.math import (
    aggregate,
    approximate_kl,
    kl_penalised_rewards,
    log_ratio,
    loss_denominator,
    masked_whiten,
    reward_to_go,
)
from lit_rl.math.advantages import GAE
from lit_rl.math.masking import AggregateMode, end_column_per_row, last_token_mask

N, T = 5, 9
FILLED = torch.tensor([9, 4, 1, 6, 0])


def holes() -> Tensor:
    """Rows of 9, 4, 1, 6 and 0 tokens that count, among others; a row may end or begin with a hole."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.zeros(N, 2 * T, dtype=torch.bool)
    for row, count in enumerate(FILLED.tolist()):
        mask[row, torch.randperm(2 * T, generator=generator)[:count]] = True
    return mask


def cut(x: Tensor, mask: Tensor) -> Tensor:
    """The entries that count side by side, then zeros."""
    rows = [row[of_row] for row, of_row in zip(x, mask, strict=True)]
    return torch.stack([torch.cat([row, row.new_zeros(T - len(row))]) for row in rows])


def numbers(seed: int) -> Tensor:
    """Numbers everywhere that counts; NaN where nothing may be read."""
    drawn = torch.randn(N, 2 * T, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.where(holes(), drawn, torch.nan)


def finite(seed: int) -> Tensor:
    """The same with 7 where nothing may be read, for functions of tokens that never meet."""
    return numbers(seed).nan_to_num(7.0)


def gae_advantages(rewards: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    tails = torch.arange(N, dtype=rewards.dtype)
    return GAE(0.9, 0.8).estimate(rewards, values, mask, tails)[0]


def gae_returns(rewards: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    return GAE(0.9, 0.8).estimate(rewards, values, mask, torch.zeros(N, dtype=rewards.dtype))[1]


PER_TOKEN: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "reward_to_go": lambda x, _, mask: reward_to_go(x, mask, gamma=0.9),
    "advantages": gae_advantages,
    "returns": gae_returns,
    "sequence ratio": lambda x, y, mask: log_ratio(x, y, level="sequence", mask=mask),
    "product ratio": lambda x, y, mask: log_ratio(x, y, level="sequence_product", mask=mask),
    "whitened": lambda x, _, mask: masked_whiten(x, mask),
    "KL in the reward": lambda x, y, mask: kl_penalised_rewards(x, y, x, mask, coef=0.5),
}


@pytest.mark.parametrize("name", PER_TOKEN)
def test_each_token_gets_what_it_gets_without_the_holes(name: str) -> None:
    """Items 24, 27."""
    function, mask = PER_TOKEN[name], holes()
    dense = torch.arange(T) < FILLED[:, None]
    found = function(numbers(1), numbers(2), mask)
    expected = function(cut(numbers(1), mask), cut(numbers(2), mask), dense)
    assert found[mask].isfinite().all()
    torch.testing.assert_close(found[mask], expected[dense], rtol=0, atol=1e-12)


@pytest.mark.parametrize("mode", get_args(AggregateMode))
def test_losses_and_their_denominator_are_those_without_the_holes(mode: AggregateMode) -> None:
    mask = holes()
    dense = torch.arange(T) < FILLED[:, None]
    constant = 7 if mode == "sequence_sum_constant" else None
    whole = loss_denominator(mask, mode, constant_tokens=constant)
    assert whole == loss_denominator(dense, mode, constant_tokens=constant)
    found = aggregate(numbers(3), mask, mode=mode, denominator=whole)
    expected = aggregate(cut(numbers(3), mask), dense, mode=mode, denominator=whole)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    kl = approximate_kl(finite(1), finite(2), mask)
    torch.testing.assert_close(kl, approximate_kl(cut(finite(1), mask), cut(finite(2), mask), dense))


def test_last_tokens_and_ends_go_by_position() -> None:
    mask = torch.tensor([[True, False, False, True, False], [False, True, False, False, False], [False] * 5])
    assert last_token_mask(mask).nonzero().tolist() == [[0, 3], [1, 1]]
    assert end_column_per_row(mask).tolist() == [4, 2, 0]
    assert end_column_per_row(torch.ones(2, 3).bool()).tolist() == [3, 3]
    assert (
        end_column_per_row(torch.zeros(2, 0).bool()).tolist() == [0, 0]
        and end_column_per_row(torch.zeros(0, 3).bool()).tolist() == []
    )
