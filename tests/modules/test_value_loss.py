"""The critic's loss in closed form, and explained variance."""

from __future__ import annotations

import math

import pytest
import torch

from lit_rl.functional.masking import aggregate, loss_denominator
from lit_rl.modules.ppo import clipped_value_loss, explained_variance


@pytest.mark.parametrize(
    ("value", "want", "slope"),
    [  # old value 0, return 1, clip 0.25: near is clamp(value, -0.25, 0.25)
        (0.1, 0.5 * 0.9**2, -0.9),  # within the clip: plain
        (0.5, 0.5 * 0.75**2, 0.0),  # moved further towards the return than allowed: silent
        (-0.5, 0.5 * 1.5**2, -1.5),  # moved away: the plain error is the larger one and lives
        (3.0, 0.5 * 2.0**2, 2.0),  # overshot: |3 - 1| > |0.25 - 1|, lives and comes back
    ],
)
def test_clipped_value_loss_by_hand(value: float, want: float, slope: float) -> None:
    """Item 28: around old values, the max of two losses, and 1/2 once."""
    values = torch.tensor([[value]], dtype=torch.float64, requires_grad=True)
    old, returns = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    loss = clipped_value_loss(values, old, returns, value_clip=0.25)
    loss.sum().backward()
    assert loss.item() == pytest.approx(want)
    assert values.grad is not None and values.grad.item() == pytest.approx(slope)


def test_without_a_clip_it_is_half_the_squared_error() -> None:
    """Item 28; also the value loss of actor-critic without GAE: half the error to the reward."""
    values, rewards = torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, 1.0]])
    loss = clipped_value_loss(values, torch.zeros(1, 2), rewards, value_clip=None)
    assert loss.tolist() == [[2.0, 0.0]]


def test_the_value_loss_does_not_depend_on_the_split() -> None:
    """Item 5: the critic's loss is divided by the same count of the whole update as the policy's."""
    generator = torch.Generator().manual_seed(0)
    returns, old, features = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64)
    mask = torch.arange(4) < torch.tensor([4, 1, 2, 3, 0])[:, None]
    denominator = loss_denominator(mask, "token_mean")

    def gradient(sizes: list[int]) -> torch.Tensor:
        weight = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
        parts = zip(*(x.split(sizes) for x in (features, old, returns, mask)), strict=True)
        for x, before, target, held in parts:
            token_loss = clipped_value_loss(weight * x, before, target, value_clip=0.5)
            aggregate(token_loss, held, mode="token_mean", denominator=denominator).backward()
        assert weight.grad is not None
        return weight.grad

    for sizes in ([1] * 5, [2, 3], [4, 1]):
        torch.testing.assert_close(gradient(sizes), gradient([5]), rtol=1e-13, atol=1e-13)


def test_the_gradient_agrees_with_finite_differences() -> None:
    generator = torch.Generator().manual_seed(1)
    values, old, returns = torch.randn(3, 4, 5, generator=generator, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda v: clipped_value_loss(v, old, returns, value_clip=0.3), (values.requires_grad_(),)
    )


def test_explained_variance_of_perfect_constant_and_wrong_values() -> None:
    returns = torch.tensor([[0.0, 2.0, 4.0, 99.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False]])
    for values, want in (
        (returns + 5.0, 1.0),  # a constant offset costs nothing
        (torch.ones_like(returns), 0.0),
        (-returns, -3.0),  # errors are twice the returns: 1 - 4
    ):
        values = values.masked_fill(~mask, math.nan)
        assert explained_variance(values, returns, mask).item() == pytest.approx(want)


def test_returns_that_do_not_vary_explain_nothing() -> None:
    mask = torch.ones(1, 3, dtype=torch.bool)
    assert explained_variance(torch.randn(1, 3), torch.full((1, 3), 0.7), mask).item() == 0.0
    assert explained_variance(torch.randn(1, 3), torch.randn(1, 3), ~mask).item() == 0.0


def test_wrong_arguments_say_what_came() -> None:
    zeros = torch.zeros(1, 2)
    with pytest.raises(ValueError, match="returns is a constant here"):
        clipped_value_loss(zeros, zeros, zeros.clone().requires_grad_(), value_clip=None)
    with pytest.raises(ValueError, match=r"returns must have the shape of values \[1, 2\], got \[1, 1\]"):
        clipped_value_loss(zeros, zeros, zeros[:, :1], value_clip=None)
