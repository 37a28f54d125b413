"""Ratios, importance weights, and what is watched of them."""

from __future__ import annotations

import math

import pytest
import torch

from lit_rl.functional.ratios import approximate_kl, clip_fraction, importance_weights, log_ratio


def test_levels_by_hand() -> None:
    new = torch.tensor([[0.5, 0.1, math.nan]], dtype=torch.float64)
    old = torch.zeros(1, 3, dtype=torch.float64)
    mask = torch.tensor([[True, True, False]])
    assert log_ratio(new, old)[0, :2].tolist() == pytest.approx([0.5, 0.1])
    assert log_ratio(new, old, level="sequence", mask=mask).tolist()[0] == pytest.approx([0.3] * 3)
    assert log_ratio(new, old, level="sequence_product", mask=mask).tolist()[0] == pytest.approx([0.6] * 3)


def test_an_empty_row_has_ratio_one() -> None:
    """Item 6: 0 / 0 in the mean over no token."""
    new, mask = torch.full((1, 2), math.nan), torch.zeros(1, 2, dtype=torch.bool)
    assert log_ratio(new, torch.zeros(1, 2), level="sequence", mask=mask).tolist() == [[0.0, 0.0]]


def test_the_log_ratio_is_clamped_at_twenty_nats() -> None:
    """Item 38: exp(20) = 4.9e8 is finite in float32 and far from half precision's surprises."""
    new = torch.tensor([[1e4, -1e4, math.inf]])
    assert log_ratio(new, torch.zeros(1, 3)).tolist() == [[20.0, -20.0, 20.0]]


def test_sequence_gradients_run_through_each_token_alone_and_products_through_all() -> None:
    """Item 41: the straight-through gradient of entry t, and the full one of the product."""
    mask = torch.tensor([[True, True, False]])
    for level, want in (("sequence", [1.0, 0.0, 0.0]), ("sequence_product", [1.0, 1.0, 0.0])):
        new = torch.tensor([[0.5, 0.1, 0.2]], requires_grad=True)
        log_ratio(new, torch.zeros(1, 3), level=level, mask=mask)[0, 0].backward()  # type: ignore[arg-type]
        assert new.grad is not None and new.grad.tolist() == [want]


def test_weights_are_detached_and_really_clamped() -> None:
    """Item 39: no gradient flows into a weight, and none exceeds the cap."""
    policy = torch.tensor([[5.0, 0.1, -1.0]], requires_grad=True)
    sampler = torch.zeros(1, 3, requires_grad=True)  # as reported; even this must not matter
    for beyond_cap, first in (("truncate", 2.0), ("mask", 0.0)):
        weights = importance_weights(policy, sampler, cap=2.0, beyond_cap=beyond_cap)  # type: ignore[arg-type]
        assert not weights.requires_grad and weights.max() <= 2.0
        assert weights.tolist()[0] == pytest.approx([first, math.exp(0.1), math.exp(-1.0)])


def test_a_weight_of_a_whole_completion_is_capped_as_one() -> None:
    """Item 39: the sequence-level mask, which elsewhere was clamped in name only."""
    mask = torch.ones(2, 2, dtype=torch.bool)
    policy, sampler = torch.tensor([[2.0, 1.0], [0.1, 0.1]]), torch.zeros(2, 2)
    weights = importance_weights(policy, sampler, cap=2.0, level="sequence_product", mask=mask)
    assert weights[0].tolist() == [2.0, 2.0]
    assert weights[1].tolist() == pytest.approx([math.exp(0.2)] * 2)
    with pytest.raises(ValueError, match="cap must be > 0, got 0"):
        importance_weights(policy, sampler, cap=0.0)


def test_nothing_is_clipped_and_nothing_moved_before_the_first_update() -> None:
    """Item 34: ratio 1, approximate KL 0, clip fraction 0, all exactly."""
    logprobs = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(3, 4, dtype=torch.bool)
    assert log_ratio(logprobs, logprobs.clone()).exp().unique().tolist() == [1.0]
    assert approximate_kl(logprobs, logprobs.clone(), mask).item() == 0.0
    assert clip_fraction(logprobs, logprobs, torch.ones(3, 1), mask, clip_low=0.2, clip_high=0.2).item() == 0.0


def test_clip_fraction_counts_only_tokens_that_the_clip_silenced() -> None:
    ratios = torch.tensor([[1.5, 1.5, 0.5, 0.5, 9.0]])
    advantages = torch.tensor([[1.0, -1.0, 1.0, -1.0, 1.0]])
    mask = torch.tensor([[True, True, True, True, False]])
    fraction = clip_fraction(ratios.log(), torch.zeros(1, 5), advantages, mask, clip_low=0.2, clip_high=0.2)
    assert fraction.item() == 0.5  # the first and the fourth


def test_approximate_kl_is_that_from_the_old_policy() -> None:
    """By enumeration: weighted by the old policy over the whole vocabulary it is KL(old || new)."""
    new = torch.log_softmax(torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64), 0)
    old = torch.log_softmax(torch.tensor([0.0, 0.4, -0.1], dtype=torch.float64), 0)
    one = torch.ones(1, 1, dtype=torch.bool)
    expected = sum(old[v].exp() * approximate_kl(new[v].view(1, 1), old[v].view(1, 1), one) for v in range(3))
    assert float(expected) == pytest.approx(float((old.exp() * (old - new)).sum()))


def test_both_sides_of_the_clip_are_counted_each_by_its_own_bound() -> None:
    """Ratios 1.25, 1.35, 0.85 and 0.75 with clips 0.2 below and 0.3 above: one token on each side is clipped."""
    logprobs = torch.tensor([[1.25, 1.35, 0.85, 0.75]], dtype=torch.float64).log()
    mask = torch.ones(1, 4, dtype=torch.bool)

    def clipped(sign: float) -> float:
        advantages = torch.full((1, 4), sign, dtype=torch.float64)
        return float(clip_fraction(logprobs, torch.zeros_like(logprobs), advantages, mask, clip_low=0.2, clip_high=0.3))

    assert (clipped(1.0), clipped(-1.0), clipped(0.0)) == (0.25, 0.25, 0.0)
