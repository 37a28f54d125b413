"""Advantages of turns, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from lit_rl.advantages import GAE, TurnGAE

NAN = math.nan
REWARDS = torch.tensor([[0.0, -0.2, NAN, 0.0, 1.0, NAN], [0.5, 0.0, 0.25, NAN, NAN, NAN]])
VALUES = torch.tensor([[0.3, NAN, NAN, 0.6, NAN, NAN], [0.1, NAN, NAN, NAN, NAN, NAN]])
MASK = torch.tensor([[1, 1, 0, 1, 1, 0], [1, 1, 1, 0, 0, 0]]).bool()


def test_two_turns_and_one_by_hand() -> None:
    """Turn 2: 1 + 0.9 * 0.4 - 0.6 = 0.76. Turn 1: -0.2 + 0.9 * 0.6 - 0.3 + 0.45 * 0.76 = 0.382. Alone: 0.75 - 0.1."""
    bootstrap = torch.tensor([0.4, 0.0])
    advantages, returns = TurnGAE(0.9, 0.5).estimate(REWARDS, VALUES, MASK, bootstrap)
    assert advantages[0].tolist() == pytest.approx([0.382, 0.382, 0, 0.76, 0.76, 0])
    assert returns[0].tolist() == pytest.approx([0.682, 0, 0, 1.36, 0, 0])
    assert advantages[1].tolist() == pytest.approx([0.65, 0.65, 0.65, 0, 0, 0])
    assert returns[1].tolist() == pytest.approx([0.75, 0, 0, 0, 0, 0])


def test_without_discount_it_is_the_papers_formula() -> None:
    """A_t = -V(c_t) + sum of the rewards from turn t on."""
    advantages, returns = TurnGAE().estimate(REWARDS, VALUES, MASK, torch.zeros(2))
    assert advantages[0].tolist() == pytest.approx([0.8 - 0.3, 0.8 - 0.3, 0, 1 - 0.6, 1 - 0.6, 0])
    assert returns[0].tolist() == pytest.approx([0.8, 0, 0, 1.0, 0, 0])


def test_turns_of_one_token_are_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(2, 4, 7, generator=generator, dtype=torch.float64)
    mask = torch.tensor([1, 0, 1, 0, 1, 0, 1]).bool().expand(4, 7)
    bootstrap = torch.randn(4, generator=generator, dtype=torch.float64)
    of_turns, of_tokens = (kind(0.9, 0.8).estimate(rewards, values, mask, bootstrap) for kind in (TurnGAE, GAE))
    for ours, theirs in zip(of_turns, of_tokens, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3)])
def test_rows_without_tokens_have_nothing(shape: tuple[int, int]) -> None:
    nothing = torch.full(shape, NAN)
    advantages, returns = TurnGAE().estimate(nothing, nothing, torch.zeros(shape).bool(), torch.zeros(shape[0]))
    assert advantages.shape == returns.shape == shape
    assert not advantages.any() and not returns.any()
