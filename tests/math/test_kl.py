"""KL estimates and ratios: values, expected gradients by enumeration, penalties."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lit_rl.math.kl import KLKind, kl_estimate, kl_penalised_rewards
from lit_rl.math.ratios import approximate_kl, importance_weights, log_ratio

POLICY_LOGITS = torch.tensor([0.3, -0.7, 1.1, 0.0, -0.2], dtype=torch.float64)
REFERENCE = torch.log_softmax(torch.tensor([0.0, 0.5, 0.4, -1.0, 0.2], dtype=torch.float64), 0)
OLD = torch.log_softmax(torch.tensor([0.1, -0.2, 0.6, 0.3, -0.9], dtype=torch.float64), 0)


def gradient(objective, logits: Tensor = POLICY_LOGITS) -> Tensor:
    """Gradient with respect to the policy's logits of a function of its log-probabilities [V]."""
    logits = logits.clone().requires_grad_()
    (result,) = torch.autograd.grad(objective(torch.log_softmax(logits, 0)), logits)
    return result


def reverse_kl(logprobs: Tensor) -> Tensor:
    return (logprobs.exp() * (logprobs - REFERENCE)).sum()


def forward_kl(logprobs: Tensor) -> Tensor:
    return (REFERENCE.exp() * (REFERENCE - logprobs)).sum()


def test_expected_gradients_as_on_policy_losses() -> None:
    """Item 43: by enumeration over a toy vocabulary, sampling from the policy itself.

    E[grad k1] = 0, E[grad k2] = grad KL(policy || ref), E[grad k3] = grad KL(ref || policy).
    """
    weights = torch.softmax(POLICY_LOGITS, 0)  # of the samples: constants

    def expected(kind: KLKind) -> Tensor:
        return gradient(lambda logprobs: (weights * kl_estimate(logprobs, REFERENCE, kind=kind)).sum())

    torch.testing.assert_close(expected("k1"), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-15)
    torch.testing.assert_close(expected("k2"), gradient(reverse_kl), rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(expected("k3"), gradient(forward_kl), rtol=1e-13, atol=1e-15)
    assert (gradient(forward_kl) - gradient(reverse_kl)).abs().max() > 0.01  # the difference matters


@pytest.mark.parametrize("kind", ["k1", "k3", "k3_weighted"])
@pytest.mark.parametrize("sampler", [OLD, torch.log_softmax(POLICY_LOGITS, 0)], ids=["off-policy", "on-policy"])
def test_the_ratio_in_front_makes_the_gradient_that_of_the_kl(kind: KLKind, sampler: Tensor) -> None:
    """Items 43, 74: off-policy (and on-policy) the importance weight, differentiated too, repairs the gradient."""

    def surrogate(logprobs: Tensor) -> Tensor:
        ratio = 1 if kind == "k3_weighted" else (logprobs - sampler).exp()
        return (sampler.exp() * ratio * kl_estimate(logprobs, REFERENCE, kind=kind, old_logprobs=sampler)).sum()

    torch.testing.assert_close(gradient(surrogate), gradient(reverse_kl), rtol=1e-13, atol=1e-15)


FAR_LOGITS = torch.tensor([-4.0, 2.0, 0.5, 1.0, 0.0], dtype=torch.float64)
FAR_REFERENCE = torch.log_softmax(torch.tensor([3.0, -4.0, -1.0, 0.5, 1.0], dtype=torch.float64), 0)
"""It gives the first entry more than e^5 times the policy's probability and the second less than e^-5 times."""


@pytest.mark.parametrize("sampler", [OLD, torch.log_softmax(FAR_LOGITS, 0)], ids=["off-policy", "on-policy"])
def test_far_from_the_reference_the_weighted_k3_still_has_the_gradient_of_the_kl(sampler: Tensor) -> None:
    """Item 74: the clamp of k3 at 3 nats turned the pull of the first entry round."""
    away = FAR_REFERENCE - torch.log_softmax(FAR_LOGITS, 0)
    assert away.max() > 5 and away.min() < -5

    def surrogate(logprobs: Tensor) -> Tensor:
        return (sampler.exp() * kl_estimate(logprobs, FAR_REFERENCE, kind="k3_weighted", old_logprobs=sampler)).sum()

    def divergence(logprobs: Tensor) -> Tensor:
        return (logprobs.exp() * (logprobs - FAR_REFERENCE)).sum()

    found, true = gradient(surrogate, FAR_LOGITS), gradient(divergence, FAR_LOGITS)
    torch.testing.assert_close(found, true, rtol=0, atol=1e-10)


def test_in_the_reward_k1_has_the_gradient_of_the_kl_and_k3_what_is_left_of_it_without_the_forward_kl() -> None:
    """Item 75: E[score * k] by enumeration; near the reference both KLs have one gradient, and nothing is left."""
    logprobs = torch.log_softmax(POLICY_LOGITS, 0)
    mask, column = torch.ones(5, 1, dtype=torch.bool), logprobs[:, None]
    rewards = kl_penalised_rewards(torch.zeros_like(column), column, REFERENCE[:, None], mask, coef=0.3)[:, 0]

    def of_rewards(rewards: Tensor) -> Tensor:
        return gradient(lambda logprobs: -(torch.softmax(POLICY_LOGITS, 0) * rewards * logprobs).sum())

    true, forward = gradient(reverse_kl), gradient(forward_kl)
    torch.testing.assert_close(of_rewards(rewards), 0.3 * true, rtol=0, atol=1e-10)
    of_k3 = of_rewards(-kl_estimate(logprobs, REFERENCE, kind="k3"))
    torch.testing.assert_close(of_k3, true - forward, rtol=0, atol=1e-10)
    assert torch.dot(of_k3, true) < 0, "already the other way at this distance"


@pytest.mark.parametrize("distance", [50.0, 500.0, -50.0])
def test_far_log_ratios_stay_finite(distance: float) -> None:
    """Item 44: log-ratio 50 is held at 20, and at 3 by k3 on the side where it explodes."""
    k3 = math.exp(3) - 1 - 3 if distance > 0 else math.exp(-20) - 1 + 20
    for kind, limit in (("k1", 20.0), ("k2", 200.0), ("k3", k3)):
        logprobs = torch.tensor([-distance], requires_grad=True)
        estimate = kl_estimate(logprobs, torch.zeros(1), kind=kind)
        estimate.sum().backward()
        assert estimate.abs().item() == pytest.approx(limit)
        assert logprobs.grad.item() == 0.0


def test_k3_still_pulls_back_a_policy_far_above_the_reference() -> None:
    """Item 44: the clamp is for r = ref / policy >> 1; at log r = -12 the gradient is 1 - r, about 1."""
    logprobs = torch.tensor([0.0], requires_grad=True)
    kl_estimate(logprobs, torch.tensor([-12.0]), kind="k3").sum().backward()
    assert logprobs.grad.item() == pytest.approx(1.0, abs=1e-5)


def test_k3_keeps_its_digits_near_zero() -> None:
    """About x^2 / 2 for a log-ratio x; exp(x) - 1 - x in float32 would be off by 1e-7, twenty times that."""
    estimate = kl_estimate(torch.tensor([-1e-4]), torch.tensor([0.0]), kind="k3")
    assert estimate.item() == pytest.approx(5e-9, rel=1e-2)


def test_token_reward_is_credit_plus_kl_penalty_and_zero_on_padding() -> None:
    """Item 32: the penalty is not on masked tokens and does not touch the credit that is logged."""
    credit = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.0]], dtype=torch.float64)
    kept = credit.clone()
    logprobs = torch.tensor([[-1.0, -2.0, math.nan], [-1.0, math.nan, math.nan]], dtype=torch.float64)
    reference = torch.tensor([[-2.0, -1.0, 0.0], [-1.5, 0.0, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    rewards = kl_penalised_rewards(credit, logprobs, reference, mask, coef=0.1)
    # k1 = policy - reference: +1, -1; +0.5
    want = torch.tensor([[-0.1, 1.1, 0.0], [0.45, 0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(rewards, want)
    assert torch.equal(credit, kept)


def test_an_empty_row_has_ratio_one() -> None:
    """Item 6: 0 / 0 in the mean over no token."""
    new, mask = torch.full((1, 2), math.nan), torch.zeros(1, 2, dtype=torch.bool)
    assert log_ratio(new, torch.zeros(1, 2), level="sequence", mask=mask).tolist() == [[0.0, 0.0]]


def test_sequence_gradients_run_through_each_token_alone_and_products_through_all() -> None:
    """Item 41: the straight-through gradient of entry t, and the full one of the product."""
    mask = torch.tensor([[True, True, False]])
    for level, want in (("sequence", [1.0, 0.0, 0.0]), ("sequence_product", [1.0, 1.0, 0.0])):
        new = torch.tensor([[0.5, 0.1, 0.2]], requires_grad=True)
        log_ratio(new, torch.zeros(1, 3), level=level, mask=mask)[0, 0].backward()  # type: ignore[arg-type]
        assert new.grad.tolist() == [want]


def test_weights_are_detached_and_really_clamped() -> None:
    """Item 39: no gradient flows into a weight, and none exceeds the cap."""
    policy = torch.tensor([[5.0, 0.1, -1.0]], requires_grad=True)
    sampler = torch.zeros(1, 3, requires_grad=True)  # as reported; even this must not matter
    weights = importance_weights(policy, sampler, cap=2.0)
    assert not weights.requires_grad
    assert weights.tolist()[0] == pytest.approx([2.0, math.exp(0.1), math.exp(-1.0)])


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
