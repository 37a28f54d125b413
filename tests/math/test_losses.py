"""Losses and corrections: closed forms, clips, what each reads and logs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lit_rl.math.losses import (
    CISPO,
    Clipped,
    Correction,
    ImportanceSampling,
    Loss,
    MaskedBand,
    PolicyGradient,
    SequenceMask,
    Tokens,
    TruncatedWeights,
    Unclipped,
)
from lit_rl.math.masking import aggregate, loss_denominator
from lit_rl.math.ratios import RatioLevel


def tokens(level: Any = "token") -> Tokens:
    """Three rows of five tokens, ratios from about 0.3 to 3."""
    generator = torch.Generator().manual_seed(0)
    new, old, sampler, advantages = torch.randn(4, 3, 5, generator=generator, dtype=torch.float64) * 0.5
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0], [1, 0, 0, 0, 0]], dtype=torch.bool)
    return Tokens((new - 2).requires_grad_(), old - 2, sampler - 2, advantages * mask, mask, level)


def slope(loss: Tensor, of: Tokens) -> Tensor:
    (gradient,) = torch.autograd.grad((loss * of.mask).sum(), of.logprobs)
    return gradient


RATIO_LOSSES: dict[str, Loss] = {
    "clipped": Clipped(0.2, 0.3),
    "dual": Clipped(0.2, 0.3, dual_clip=3.0),
    "unclipped": Unclipped(),
    "cispo": CISPO(clip_high=0.3),
    "importance": ImportanceSampling(cap=2.0),
}


@pytest.mark.parametrize("level", ("token", "sequence", "sequence_product"))
@pytest.mark.parametrize("name", RATIO_LOSSES)
def test_no_token_outside_the_mask_moves_one_inside(name: str, level: Any) -> None:
    t, loss = tokens(level), RATIO_LOSSES[name]
    elsewhere = torch.where(t.mask, t.old_logprobs, torch.full_like(t.old_logprobs, -9.0))
    sampler = torch.where(t.mask, t.sampler_logprobs, torch.full_like(t.old_logprobs, -9.0))
    other = replace(t, old_logprobs=elsewhere, sampler_logprobs=sampler)
    here, there = slope(loss.token_losses(t), t), slope(loss.token_losses(other), other)
    assert here.abs().max() > 0.01
    assert torch.equal(here[t.mask], there[t.mask])


def loss_of(
    loss: Loss, new: Tensor, old: Tensor, advantages: Tensor, mask: Tensor | None = None, level: RatioLevel = "token"
) -> Tensor:
    """Token losses [N, T]; ``old`` stands for the sampler too, and all tokens count unless a mask says otherwise."""
    mask = torch.ones_like(new, dtype=torch.bool) if mask is None else mask
    return loss.token_losses(Tokens(new, old, old, advantages, mask, level))


def logs(*ratios: float) -> Tensor:
    """New log-probabilities [1, T] whose ratio to old ones of 0 is as given."""
    return torch.tensor([ratios], dtype=torch.float64).log().requires_grad_()


def gradient(loss: Tensor, logprobs: Tensor) -> list[float]:
    (result,) = torch.autograd.grad(loss.sum(), logprobs, retain_graph=True)
    return [float(x) for x in result.flatten()]


@pytest.mark.parametrize(
    ("ratio", "advantage", "want", "slope"),
    [  # clip to 0.8 .. 1.3; slope is d loss / d logprob = -ratio * A while the gradient lives
        (1.0, 2.0, -2.0, -2.0),
        (1.25, 2.0, -2.5, -2.5),
        (1.5, 2.0, -2.6, 0.0),  # above, pushed up: silent
        (0.5, 2.0, -1.0, -1.0),  # below, pushed up: lives
        (1.5, -2.0, 3.0, 3.0),  # above, pushed down: lives
        (0.5, -2.0, 1.6, 0.0),  # below, pushed down: silent
        (5.0, -2.0, 10.0, 10.0),  # far above, pushed down: nothing holds it
    ],
)
def test_clipped_surrogate_by_hand(ratio: float, advantage: float, want: float, slope: float) -> None:
    new = logs(ratio)
    advantages = torch.tensor([[advantage]], dtype=torch.float64)
    loss = loss_of(Clipped(0.2, 0.3), new, torch.zeros(1, 1), advantages)
    assert loss.item() == pytest.approx(want)
    assert gradient(loss, new) == pytest.approx([slope])


def test_dual_clip_bounds_a_pushed_down_token_and_nothing_else() -> None:
    """Item 38: c = 3: above a ratio of 3 and with A < 0 the loss stays at -3 A and the gradient is 0."""
    new = logs(5.0, 2.0, 5.0, 0.5)
    advantages = torch.tensor([[-2.0, -2.0, 2.0, -2.0]], dtype=torch.float64)
    loss = loss_of(Clipped(0.2, 0.3, dual_clip=3.0), new, torch.zeros(1, 4), advantages)
    assert loss.flatten().tolist() == pytest.approx([6.0, 4.0, -2.6, 1.6])
    assert gradient(loss, new) == pytest.approx([0.0, 4.0, 0.0, 0.0])


@pytest.mark.parametrize("name", RATIO_LOSSES)
def test_a_ratio_of_one_gives_the_plain_policy_gradient(name: str) -> None:
    """Items 34, 70: the first update of a rollout, whatever the value of the loss."""
    generator = torch.Generator().manual_seed(0)
    new = torch.randn(3, 4, generator=generator, dtype=torch.float64).requires_grad_()
    advantages = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    loss = loss_of(RATIO_LOSSES[name], new, new.detach().clone(), advantages)
    assert gradient(loss, new) == pytest.approx(gradient(loss_of(PolicyGradient(), new, new.detach(), advantages), new))


@pytest.mark.parametrize("name", RATIO_LOSSES)
@pytest.mark.parametrize("distance", [math.log(1e6), 88.8, 1e4, -1e4])
def test_extreme_ratios_stay_finite(name: str, distance: float) -> None:
    """Item 38: the log-ratio is clamped before exp; a ratio of 1e6 and far more."""
    for advantage in (1.0, -1.0):
        new = torch.tensor([[distance]], requires_grad=True)
        loss = loss_of(RATIO_LOSSES[name], new, torch.zeros(1, 1), torch.tensor([[advantage]]))
        assert math.isfinite(loss.item()) and math.isfinite(gradient(loss, new)[0])


def test_importance_weights_are_constants_under_a_cap_that_holds() -> None:
    """Item 39: the gradient is -w A, also where w sits at the cap; a masked token has none."""
    new, sampler = logs(0.5, 3.0), torch.zeros(1, 2)
    advantages = torch.ones(1, 1, dtype=torch.float64)
    for loss, want in ((ImportanceSampling(), [-0.5, -3.0]), (ImportanceSampling(cap=2.0), [-0.5, -2.0])):
        assert gradient(loss_of(loss, new, sampler, advantages), new) == pytest.approx(want)


def test_gspo_loss_and_gradient_in_closed_form() -> None:
    """Item 41: s = exp(mean log-ratio); gradient of token t is -s A / (n_i * rows)."""
    new = torch.tensor([[0.3, -0.1, 9.0], [0.1, 0.2, 0.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    advantages = torch.tensor([[2.0], [-1.0]], dtype=torch.float64)
    losses = loss_of(Clipped(0.2, 0.2), new, torch.zeros_like(new), advantages, mask, "sequence")
    loss = aggregate(losses, mask, mode="sequence_mean", denominator=loss_denominator(mask, "sequence_mean"))
    first, second = math.exp(0.2 / 2), math.exp(0.3 / 3)  # both inside 0.8 .. 1.2
    assert loss.item() == pytest.approx((-first * 2 + second * 1) / 2)
    want = [-first * 2 / 4, -first * 2 / 4, 0.0, *[second * 1 / 6] * 3]
    assert gradient(loss, new) == pytest.approx(want)


def test_advantages_must_be_constants_of_a_shape_that_fits() -> None:
    """Item 40: a gradient through the advantage, or one per completion without its axis, is refused."""
    new, old = torch.zeros(2, 2), torch.zeros(2, 2)
    with pytest.raises(ValueError, match=r"got \[2\]; one per completion is advantages\[:, None\]"):
        loss_of(Clipped(0.2, 0.2), new, old, torch.ones(2))
    with pytest.raises(ValueError, match=r"expected constants .* with a gradient"):
        loss_of(PolicyGradient(), new, new.detach(), torch.ones(2, 1, requires_grad=True))
    learns = torch.zeros(1, 1, requires_grad=True)  # through p / p no gradient would be left
    assert gradient(loss_of(Unclipped(), learns, learns, torch.ones(1, 1)).sum(), learns) == [-1.0]


def test_both_sides_of_the_clip_are_counted_each_by_its_own_bound() -> None:
    """Ratios 1.25, 1.35, 0.85 and 0.75 with clips 0.2 below and 0.3 above: one token on each side is clipped."""
    new, mask = logs(1.25, 1.35, 0.85, 0.75, 9.0).detach(), torch.tensor([[True, True, True, True, False]])

    def clipped(sign: float) -> float:
        tokens = Tokens(new, torch.zeros_like(new), new, torch.full_like(new, sign), mask)
        return float(Clipped(0.2, 0.3).metrics(tokens)["policy/clip_fraction"])

    assert (clipped(1.0), clipped(-1.0), clipped(0.0)) == (0.25, 0.25, 0.0)


def test_cispo_sends_its_gradient_through_the_log_probability_alone() -> None:
    """Item 42: d loss / d logprob = -w A with w clipped and constant; no token is silent."""
    new = logs(0.1, 1.0, 1.1, 7.0)
    advantages = torch.tensor([[1.0, -1.0, 2.0, 1.0]], dtype=torch.float64)
    for loss, first in ((CISPO(clip_high=0.2), -0.1), (CISPO(clip_high=0.2, clip_low=0.3), -0.7)):
        found = gradient(loss_of(loss, new, torch.zeros(1, 4), advantages), new)
        assert found == pytest.approx([first, 1.0, -2.2, -1.2])


def test_nothing_is_clipped_before_the_first_update() -> None:
    """Item 34: exactly 0."""
    new = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    tokens = Tokens(new, new.clone(), new, torch.ones(3, 1), torch.ones(3, 4, dtype=torch.bool))
    assert Clipped().metrics(tokens)["policy/clip_fraction"].item() == 0.0


# p and q of two completions of three tokens; the last of the second is padding.
POLICY = torch.tensor([[0.8, 0.2, 0.3], [0.1, 0.4, 0.9]], dtype=torch.float64).log()
SAMPLER = torch.tensor([[0.2, 0.4, 0.2], [0.4, 0.1, 0.1]], dtype=torch.float64).log()
MASK = torch.tensor([[True, True, True], [True, True, False]])
# p / q:  4, 1/2, 3/2   product 3, geometric mean 3 ** (1/3) = 1.44
#         1/4, 4        product 1, geometric mean 1
ADVANTAGES = torch.tensor([[-1.0, 1.0, 0.0], [1.0, -1.0, -1.0]], dtype=torch.float64)

CASES: dict[str, tuple[Correction, list[list[float]]]] = {
    "truncated at 2": (TruncatedWeights(), [[2, 0.5, 1.5], [0.25, 2, 0]]),
    "truncated at 5": (TruncatedWeights(5.0), [[4, 0.5, 1.5], [0.25, 4, 0]]),
    "a band with its borders": (MaskedBand(0.5, 1.5), [[0, 0.5, 1.5], [0, 0, 0]]),
    "a band without a lower bound": (MaskedBand(0.0, 2.0), [[0, 0.5, 1.5], [0.25, 0, 0]]),
    "sequences, both kept": (SequenceMask(0.9, 1.5), [[1, 1, 1], [1, 1, 0]]),
    "sequences, the first dropped": (SequenceMask(0.9, 1.4), [[0, 0, 0], [1, 1, 0]]),
    "sequences with weights": (SequenceMask(0.9, 1.4, cap=3.0), [[0, 0, 0], [0.25, 3, 0]]),
    "products, truncated": (TruncatedWeights(2.5, "sequence_product"), [[2.5, 2.5, 2.5], [1, 1, 0]]),
    "products in a band": (MaskedBand(0.0, 2.5, "sequence_product"), [[0, 0, 0], [1, 1, 0]]),
    "means in a band": (MaskedBand(0.5, 1.5, "sequence"), [[3 ** (1 / 3)] * 3, [1, 1, 0]]),
    "a band for what is pushed down": (MaskedBand(0.5, 1.6, negative_only=True), [[0, 0.5, 1.5], [0.5, 0, 0]]),
    "sequences that are pushed down": (SequenceMask(0.9, 1.4, negative_only=True), [[0, 1, 1], [1, 1, 0]]),
    "the same with weights": (SequenceMask(0.9, 1.4, 3.0, negative_only=True), [[0, 0.5, 1.5], [0.25, 3, 0]]),
    "no upper bound": (SequenceMask(0.9, math.inf, negative_only=True), [[1, 1, 1], [1, 1, 0]]),
    "a band of 1 alone": (SequenceMask(1.0, 1.0 + 1e-9), [[0, 0, 0], [1, 1, 0]]),
}


def weights_of(correction: Correction, policy: Tensor, sampler: Tensor, mask: Tensor) -> Tensor:
    advantages = ADVANTAGES.to(policy.dtype) if policy.shape == ADVANTAGES.shape else policy.new_ones(len(policy), 1)
    return correction.weights(Tokens(policy, policy.detach(), sampler, advantages, mask))


@pytest.mark.parametrize(("correction", "expected"), CASES.values(), ids=CASES)
def test_weights_are_those_worked_out_by_hand(correction: Correction, expected: list[list[float]]) -> None:
    """Item 76."""
    policy = POLICY.clone().requires_grad_()
    weights = weights_of(correction, policy, SAMPLER, MASK)
    assert not weights.requires_grad
    assert (weights * MASK).tolist() == [pytest.approx(row) for row in expected]


@pytest.mark.parametrize("correction", [case[0] for case in CASES.values()], ids=CASES)
def test_what_the_policy_sampled_itself_weighs_one(correction: Correction) -> None:
    assert torch.equal(weights_of(correction, SAMPLER, SAMPLER, MASK), torch.ones(2, 3, dtype=torch.float64))


def test_the_weight_of_a_whole_completion_corrects_what_two_tokens_earn_together() -> None:
    """Item 76: by enumeration over two tokens: E_q[w r] = E_p[r] for the product, and not for token weights."""
    p, q = torch.tensor([0.7, 0.3], dtype=torch.float64), torch.tensor([0.4, 0.6], dtype=torch.float64)
    rows = torch.tensor([[a, b] for a in (0, 1) for b in (0, 1)])
    rewards = torch.tensor([1.0, 5.0, -2.0, 3.0], dtype=torch.float64)
    every = torch.ones_like(rows).bool()
    expected = (p[rows].prod(-1) * rewards).sum()
    for level, is_exact in (("sequence_product", True), ("token", False)):
        weights = weights_of(TruncatedWeights(99.0, level), p.log()[rows], q.log()[rows], every)  # type: ignore[arg-type]
        found = (q[rows].prod(-1) * weights[:, 0] * rewards).sum()
        assert math.isclose(found, expected) == is_exact
