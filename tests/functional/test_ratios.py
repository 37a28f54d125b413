"""Ratios, importance weights, and what is watched of them."""

from __future__ import annotations

import math

import pytest
import torch

from lit_rl.functional.ratios import approximate_kl, importance_weights, log_ratio


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
    weights = importance_weights(policy, sampler, cap=2.0)
    assert not weights.requires_grad
    assert weights.tolist()[0] == pytest.approx([2.0, math.exp(0.1), math.exp(-1.0)])


def test_a_weight_of_a_whole_completion_is_capped_as_one() -> None:
    """Item 39: the sequence-level mask, which elsewhere was clamped in name only."""
    mask = torch.ones(2, 2, dtype=torch.bool)
    policy, sampler = torch.tensor([[2.0, 1.0], [0.1, 0.1]]), torch.zeros(2, 2)
    weights = importance_weights(policy, sampler, cap=2.0, level="sequence_product", mask=mask)
    assert weights[0].tolist() == [2.0, 2.0]
    assert weights[1].tolist() == pytest.approx([math.exp(0.2)] * 2)
    with pytest.raises(ValueError, match="cap must be > 0, got 0"):
        importance_weights(policy, sampler, cap=0.0)


def test_nothing_has_moved_before_the_first_update() -> None:
    """Item 34: ratio 1 and approximate KL 0, both exactly."""
    logprobs = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(3, 4, dtype=torch.bool)
    assert log_ratio(logprobs, logprobs.clone()).exp().unique().tolist() == [1.0]
    assert approximate_kl(logprobs, logprobs.clone(), mask).item() == 0.0


def test_approximate_kl_is_that_from_the_old_policy() -> None:
    """By enumeration: weighted by the old policy over the whole vocabulary it is KL(old || new)."""
    new = torch.log_softmax(torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64), 0)
    old = torch.log_softmax(torch.tensor([0.0, 0.4, -0.1], dtype=torch.float64), 0)
    one = torch.ones(1, 1, dtype=torch.bool)
    expected = sum(old[v].exp() * approximate_kl(new[v].view(1, 1), old[v].view(1, 1), one) for v in range(3))
    assert float(expected) == pytest.approx(float((old.exp() * (old - new)).sum()))
