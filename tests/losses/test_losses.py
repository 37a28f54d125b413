"""Losses as classes: what each reads and logs, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lit_rl.losses import CISPO, Clipped, ImportanceSampling, Loss, PolicyGradient, Tokens, Unclipped
from lit_rl.modules import Objective

LEVELS: tuple[Any, ...] = ("token", "sequence", "sequence_product")


def tokens(level: Any = "token") -> Tokens:
    """Three rows of five tokens, ratios from about 0.3 to 3."""
    generator = torch.Generator().manual_seed(0)
    new, old, sampler, advantages = torch.randn(4, 3, 5, generator=generator, dtype=torch.float64) * 0.5
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    return Tokens((new - 2).requires_grad_(), old - 2, sampler - 2, advantages * mask, mask, level)


def slope(loss: Tensor, of: Tokens) -> Tensor:
    (gradient,) = torch.autograd.grad((loss * of.mask).sum(), of.logprobs)
    return gradient


LOSSES: tuple[Loss, ...] = (
    Clipped(0.1, 0.3, dual_clip=1.5),
    Unclipped(),
    PolicyGradient(),
    CISPO(clip_high=0.3, clip_low=0.1),
    ImportanceSampling(cap=1.2, beyond_cap="mask"),
)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_no_token_outside_the_mask_moves_one_inside(loss: Loss, level: Any) -> None:
    t = tokens(level)
    elsewhere = torch.where(t.mask, t.old_logprobs, torch.full_like(t.old_logprobs, -9.0))
    sampler = torch.where(t.mask, t.sampler_logprobs, torch.full_like(t.old_logprobs, -9.0))
    other = replace(t, old_logprobs=elsewhere, sampler_logprobs=sampler)
    here, there = slope(loss.token_losses(t), t), slope(loss.token_losses(other), other)
    assert here.abs().max() > 0.01
    assert torch.equal(here[t.mask], there[t.mask])


def test_cispo_of_the_paper_has_no_lower_bound() -> None:
    """Ratios 0.01 and 9 with clip_high 4: the weights are 0.01, not 0.8, and 5."""
    new = torch.tensor([[0.01, 9.0]], dtype=torch.float64).log().requires_grad_()
    zeros, ones = torch.zeros(1, 2, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    t = Tokens(new, zeros, zeros, ones, ones.bool())
    torch.testing.assert_close(slope(CISPO(clip_high=4).token_losses(t), t), -torch.tensor([[0.01, 5.0]]).double())
    held = slope(CISPO(clip_high=0.2, clip_low=0.2).token_losses(t), t)
    torch.testing.assert_close(held, -torch.tensor([[0.8, 1.2]]).double())


def test_clip_low_of_1_is_no_lower_bound() -> None:
    """At the ratio 0.01 with A = -1 the clip takes the gradient away; with 1 the slope of -ratio * A is 0.01."""
    new = torch.tensor([[0.01]], dtype=torch.float64).log().requires_grad_()
    zero, minus = torch.zeros(1, 1, dtype=torch.float64), -torch.ones(1, 1, dtype=torch.float64)
    t = Tokens(new, zero, zero, minus, torch.ones(1, 1, dtype=torch.bool))
    assert slope(Clipped().token_losses(t), t).item() == 0
    unheld = Clipped(clip_low=1.0)
    assert slope(unheld.token_losses(t), t).item() == pytest.approx(0.01)
    assert unheld.metrics(t)["policy/clip_fraction"] == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Clipped(clip_low=1.5), "clip_low: expected a number above 0 and at most 1, got 1.5"),
        (lambda: CISPO(clip_high=1, clip_low=0), "clip_low: expected a number above 0 and at most 1, got 0"),
        (lambda: Clipped(clip_high=0), "clip_high: expected a number above 0, got 0"),
        (lambda: Clipped(dual_clip=1.1), "dual_clip: expected a number above 1.2, got 1.1"),
        (lambda: ImportanceSampling(cap=0), "cap: expected a number above 0, got 0"),
        (lambda: Objective(loss="naive"), "loss: expected Loss, got 'naive'; it is now PolicyGradient"),  # type: ignore[arg-type]
        (lambda: Objective(loss=PolicyGradient), "loss: expected Loss, got <class .*PolicyGradient"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


def test_a_loss_says_what_it_reads_and_logs() -> None:
    t = tokens()
    assert [sorted(loss.metrics(t)) for loss in LOSSES] == [["policy/clip_fraction"], [], [], [], []]
    assert [loss.reads_sampler_logprobs for loss in LOSSES] == [False, False, False, False, True]
    assert not Objective().pulls_on_every_token

    class Everywhere(PolicyGradient):
        pulls_on_every_token = True

    assert Objective(loss=Everywhere()).pulls_on_every_token
