"""Preference losses of one pair, by hand and by autograd."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lit_rl.modules.dpo import PreferenceLoss, implicit_rewards, preference_loss

KINDS: tuple[PreferenceLoss, ...] = ("sigmoid", "ipo", "hinge")
BETA = 0.25


def pair(log_ratio_difference: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Chosen, rejected, and their references, at the given difference of log-ratios; else arbitrary."""
    reference = torch.tensor([-7.0], dtype=torch.float64), torch.tensor([-11.0], dtype=torch.float64)
    rejected = (reference[1] - 0.5).requires_grad_()
    chosen = (reference[0] - 0.5 + log_ratio_difference).requires_grad_()
    return chosen, rejected, *reference


@pytest.mark.parametrize(
    ("kind", "difference", "want", "slope"),
    [  # margin = difference / 4; slope is d loss / d chosen
        ("sigmoid", 0.0, math.log(2), -BETA / 2),
        ("sigmoid", 4.0, math.log1p(math.exp(-1)), -BETA / (1 + math.exp(1))),
        ("hinge", 2.0, 0.5, -BETA),
        ("hinge", 6.0, 0.0, 0.0),
        ("ipo", 2.0, 0.0, 0.0),  # target 1 / (2 beta) = 2
        ("ipo", 5.0, 9.0, 6.0),  # beyond it: back
        ("ipo", 1.0, 1.0, -2.0),
    ],
)
def test_each_loss_by_hand(kind: PreferenceLoss, difference: float, want: float, slope: float) -> None:
    chosen, rejected, ref_chosen, ref_rejected = pair(difference)
    loss = preference_loss(chosen, rejected, ref_chosen, ref_rejected, beta=BETA, kind=kind)
    loss.sum().backward()
    assert loss.item() == pytest.approx(want)
    assert chosen.grad is not None and rejected.grad is not None
    assert chosen.grad.item() == pytest.approx(slope) and rejected.grad.item() == pytest.approx(-slope)


def test_a_target_margin_moves_the_point_of_rest() -> None:
    chosen, rejected, ref_chosen, ref_rejected = pair(4.0)  # margin 1
    at_target = preference_loss(chosen, rejected, ref_chosen, ref_rejected, beta=BETA, target_margin=1.0)
    assert at_target.item() == pytest.approx(math.log(2))
    hinge = preference_loss(
        chosen,
        rejected,
        ref_chosen,
        ref_rejected,
        beta=BETA,
        kind="hinge",
        target_margin=torch.tensor([1.75]),
    )
    assert hinge.item() == pytest.approx(0.75)


def test_far_margins_stay_finite() -> None:
    for difference in (1e4, -1e4):
        loss = preference_loss(*pair(difference), beta=BETA)
        assert loss.item() == pytest.approx(0.0 if difference > 0 else 2500.0)


def test_the_optimum_of_the_sigmoid_loss_reproduces_the_preference_odds() -> None:
    """With a share q of pairs one way and 1 - q the other the best margin is log q / (1 - q)."""
    share = 0.8
    difference = math.log(share / (1 - share)) / BETA
    chosen, rejected, ref_chosen, ref_rejected = pair(difference)
    one_way = preference_loss(chosen, rejected, ref_chosen, ref_rejected, beta=BETA)
    other_way = preference_loss(rejected, chosen, ref_rejected, ref_chosen, beta=BETA)
    (slope,) = torch.autograd.grad((share * one_way + (1 - share) * other_way).sum(), chosen)
    assert slope.item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_distance_from_the_reference_counts(kind: PreferenceLoss) -> None:
    chosen, rejected, ref_chosen, ref_rejected = (x.detach() for x in pair(1.3))
    loss = preference_loss(chosen, rejected, ref_chosen, ref_rejected, beta=BETA, kind=kind)
    shifted = preference_loss(chosen - 3, rejected, ref_chosen - 3, ref_rejected, beta=BETA, kind=kind)
    torch.testing.assert_close(loss, shifted)


def test_the_logged_margin_is_the_difference_of_implicit_rewards() -> None:
    chosen, rejected, ref_chosen, ref_rejected = pair(4.0)
    margin = implicit_rewards(chosen, ref_chosen, beta=BETA) - implicit_rewards(rejected, ref_rejected, beta=BETA)
    assert margin.item() == pytest.approx(1.0)


def test_wrong_arguments_say_what_came() -> None:
    one = torch.zeros(1)
    with pytest.raises(ValueError, match="ipo sets its own target"):
        preference_loss(one, one, one, one, beta=0.1, kind="ipo", target_margin=1.0)
    with pytest.raises(ValueError, match=r"logprobs: expected \[M\], summed over tokens, got \[1, 3\]"):
        preference_loss(*[torch.zeros(1, 3)] * 4, beta=0.1)
    with pytest.raises(ValueError, match=r"rejected_logprobs must have the shape of chosen_logprobs \[1\]"):
        preference_loss(one, torch.zeros(2), one, torch.zeros(2), beta=0.1)
    with pytest.raises(ValueError, match="ref_logprobs is a constant here"):
        preference_loss(one, one, one.clone().requires_grad_(), one, beta=0.1)
