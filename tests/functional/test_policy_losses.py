"""Policy losses against closed forms, and their gradients by autograd at fp64."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lit_rl.functional.masking import aggregate, loss_denominator
from lit_rl.functional.policy_losses import (
    cispo_loss,
    clipped_surrogate_loss,
    importance_sampling_loss,
    policy_gradient_loss,
    unclipped_loss,
)

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]

RATIO_LOSSES: dict[str, Loss] = {
    "clipped": lambda new, old, a: clipped_surrogate_loss(new, old, a, clip_low=0.2, clip_high=0.3),
    "dual": lambda new, old, a: clipped_surrogate_loss(new, old, a, clip_low=0.2, clip_high=0.3, dual_clip=3.0),
    "unclipped": unclipped_loss,
    "cispo": lambda new, old, a: cispo_loss(new, old, a, clip_high=0.3),
    "importance": lambda new, old, a: importance_sampling_loss(new, old, a, cap=2.0),
}


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
    loss = clipped_surrogate_loss(new, torch.zeros(1, 1), advantages, clip_low=0.2, clip_high=0.3)
    assert loss.item() == pytest.approx(want)
    assert gradient(loss, new) == pytest.approx([slope])


def test_dual_clip_bounds_a_pushed_down_token_and_nothing_else() -> None:
    """Item 38: c = 3: above a ratio of 3 and with A < 0 the loss stays at -3 A and the gradient is 0."""
    new = logs(5.0, 2.0, 5.0, 0.5)
    advantages = torch.tensor([[-2.0, -2.0, 2.0, -2.0]], dtype=torch.float64)
    loss = clipped_surrogate_loss(new, torch.zeros(1, 4), advantages, clip_low=0.2, clip_high=0.3, dual_clip=3.0)
    assert loss.flatten().tolist() == pytest.approx([6.0, 4.0, -2.6, 1.6])
    assert gradient(loss, new) == pytest.approx([0.0, 4.0, 0.0, 0.0])


@pytest.mark.parametrize("name", RATIO_LOSSES)
def test_a_ratio_of_one_gives_the_plain_policy_gradient(name: str) -> None:
    """Item 34: the first update of a rollout."""
    generator = torch.Generator().manual_seed(0)
    new = torch.randn(3, 4, generator=generator, dtype=torch.float64).requires_grad_()
    advantages = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    loss = RATIO_LOSSES[name](new, new.detach().clone(), advantages)
    assert gradient(loss, new) == pytest.approx(gradient(policy_gradient_loss(new, advantages), new))


@pytest.mark.parametrize("name", RATIO_LOSSES)
def test_a_loss_of_zero_still_teaches(name: str) -> None:
    """Item 70: at a ratio of one, advantages that sum to zero give a loss of zero with a gradient that is not."""
    new = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    advantages = torch.tensor([[1.0, -1.0, 2.0, -2.0]], dtype=torch.float64)
    loss = RATIO_LOSSES[name](new, torch.zeros(1, 4, dtype=torch.float64), advantages)
    assert loss.sum().item() == 0.0
    assert gradient(loss, new) == pytest.approx([-1.0, 1.0, -2.0, 2.0])


@pytest.mark.parametrize("name", RATIO_LOSSES)
@pytest.mark.parametrize("distance", [math.log(1e6), 88.8, 1e4, -1e4])
def test_extreme_ratios_stay_finite(name: str, distance: float) -> None:
    """Item 38: the log-ratio is clamped before exp; a ratio of 1e6 and far more."""
    for advantage in (1.0, -1.0):
        new = torch.tensor([[distance]], requires_grad=True)
        loss = RATIO_LOSSES[name](new, torch.zeros(1, 1), torch.tensor([[advantage]]))
        assert math.isfinite(loss.item()) and math.isfinite(gradient(loss, new)[0])


@pytest.mark.parametrize("name", RATIO_LOSSES)
def test_gradients_agree_with_finite_differences(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    old = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    new = (old + 0.1 * torch.randn(2, 3, generator=generator, dtype=torch.float64)).requires_grad_()
    advantages = torch.randn(2, 1, generator=generator, dtype=torch.float64)
    if name in ("cispo", "importance"):  # a detached weight has no finite difference: hold it, then differ
        weight = (new.detach() - old).exp().clamp(max=1.3 if name == "cispo" else 2.0)
        want = -(weight * advantages)
        assert gradient(RATIO_LOSSES[name](new, old, advantages), new) == pytest.approx(want.flatten().tolist())
    else:
        assert torch.autograd.gradcheck(lambda x: RATIO_LOSSES[name](x, old, advantages), (new,))


def test_cispo_sends_its_gradient_through_the_log_probability_alone() -> None:
    """Item 42: d loss / d logprob = -w A with w clipped and constant; no token is silent."""
    new = logs(0.1, 1.0, 1.1, 7.0)
    advantages = torch.tensor([[1.0, -1.0, 2.0, 1.0]], dtype=torch.float64)
    one_sided = cispo_loss(new, torch.zeros(1, 4), advantages, clip_high=0.2)
    assert gradient(one_sided, new) == pytest.approx([-0.1, 1.0, -2.2, -1.2])
    two_sided = cispo_loss(new, torch.zeros(1, 4), advantages, clip_high=0.2, clip_low=0.3)
    assert gradient(two_sided, new) == pytest.approx([-0.7, 1.0, -2.2, -1.2])


def test_importance_weights_are_constants_under_a_cap_that_holds() -> None:
    """Item 39: the gradient is -w A, also where w sits at the cap; a masked token has none."""
    new, sampler = logs(0.5, 3.0), torch.zeros(1, 2)
    advantages = torch.ones(1, 1, dtype=torch.float64)
    for kwargs, want in (
        ({}, [-0.5, -3.0]),
        ({"cap": 2.0}, [-0.5, -2.0]),
        ({"cap": 2.0, "beyond_cap": "mask"}, [-0.5, 0.0]),
    ):
        loss = importance_sampling_loss(new, sampler, advantages, **kwargs)  # type: ignore[arg-type]
        assert gradient(loss, new) == pytest.approx(want)


def test_importance_sampling_is_unbiased_by_enumeration() -> None:
    """E_q[gradient of the loss] is the gradient of -E_p[reward], over a vocabulary of four."""
    logits = torch.tensor([[0.1, -0.3, 0.8, 0.0]], dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([[1.0, 0.0, 3.0, -1.0]], dtype=torch.float64)
    sampler = torch.log_softmax(torch.tensor([[0.5, 0.5, -1.0, 0.2]], dtype=torch.float64), -1)
    logprobs = torch.log_softmax(logits, -1)
    (want,) = torch.autograd.grad(-(logprobs.exp() * rewards).sum(), logits, retain_graph=True)
    (got,) = torch.autograd.grad((sampler.exp() * importance_sampling_loss(logprobs, sampler, rewards)).sum(), logits)
    torch.testing.assert_close(got, want)


def gspo(new: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, **kwargs: float) -> Tensor:
    loss = clipped_surrogate_loss(
        new, old, advantages, clip_low=0.2, clip_high=0.2, level="sequence", mask=mask, **kwargs
    )
    denominator = loss_denominator(mask, "sequence_mean")
    return aggregate(loss, mask, mode="sequence_mean", denominator=denominator)


def test_gspo_loss_and_gradient_in_closed_form() -> None:
    """Item 41: s = exp(mean log-ratio); gradient of token t is -s A / (n_i * rows)."""
    new = torch.tensor([[0.3, -0.1, 9.0], [0.1, 0.2, 0.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    advantages = torch.tensor([[2.0], [-1.0]], dtype=torch.float64)
    loss = gspo(new, torch.zeros(2, 3, dtype=torch.float64), advantages, mask)
    first, second = math.exp(0.2 / 2), math.exp(0.3 / 3)  # both inside 0.8 .. 1.2
    assert loss.item() == pytest.approx((-first * 2 + second * 1) / 2)
    want = [-first * 2 / 4, -first * 2 / 4, 0.0, *[second * 1 / 6] * 3]
    assert gradient(loss, new) == pytest.approx(want)


def test_gspo_clips_whole_completions() -> None:
    """Item 41: one token's ratio is far out, the completion's is not, and the other way round."""
    new = torch.tensor([[1.0, -1.0], [0.3, 0.3]], dtype=torch.float64, requires_grad=True)
    mask = torch.ones(2, 2, dtype=torch.bool)
    loss = gspo(new, torch.zeros(2, 2, dtype=torch.float64), torch.ones(2, 1, dtype=torch.float64), mask)
    assert loss.item() == pytest.approx(-(1.0 + 1.2) / 2)
    assert gradient(loss, new) == pytest.approx([-0.25, -0.25, 0.0, 0.0])


def test_gspo_lets_each_token_keep_its_own_advantage() -> None:
    """Item 41, straight through: with advantages per token the gradient of token t holds A_t alone."""
    new = torch.tensor([[0.1, -0.1]], dtype=torch.float64, requires_grad=True)
    mask = torch.ones(1, 2, dtype=torch.bool)
    loss = gspo(new, torch.zeros(1, 2), torch.tensor([[1.0, 3.0]], dtype=torch.float64), mask)
    assert gradient(loss, new) == pytest.approx([-0.5, -1.5])  # s = 1


def test_the_ratio_of_whole_completions_in_closed_form() -> None:
    """The product of token ratios, not normalised: one clipped term per completion."""
    new = torch.tensor([[0.05, 0.1, 5.0], [-0.3, -0.2, 0.4]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    advantages = torch.tensor([[1.5], [-2.0]], dtype=torch.float64)
    token_loss = clipped_surrogate_loss(
        new, torch.zeros(2, 3), advantages, clip_low=0.2, clip_high=0.2, level="sequence_product", mask=mask
    )
    loss = aggregate(token_loss, mask, mode="sequence_mean", denominator=2.0)
    first, second = math.exp(0.15), math.exp(-0.1)
    assert loss.item() == pytest.approx((-first * 1.5 + second * 2.0) / 2)
    # d ratio / d logprob_t = ratio for every token of the completion, none for padding
    want = [-first * 1.5 / 2] * 2 + [0.0] + [second * 2.0 / 2] * 3
    assert gradient(loss, new) == pytest.approx(want)


def test_plain_policy_gradient_by_hand() -> None:
    new = logs(0.5, 0.25)
    loss = policy_gradient_loss(new, torch.tensor([[2.0]], dtype=torch.float64))
    assert loss.flatten().tolist() == pytest.approx([2 * math.log(2), 2 * math.log(4)])
    assert gradient(loss, new) == pytest.approx([-2.0, -2.0])


def test_the_old_policy_is_frozen() -> None:
    """The lecture's example: w = 2, p = sigmoid(w); through p / p alone no gradient would be left."""
    w = torch.tensor([[2.0]], dtype=torch.float64, requires_grad=True)
    logprobs = torch.nn.functional.logsigmoid(w)
    loss = unclipped_loss(logprobs, logprobs.detach(), torch.ones(1, 1))
    # d log sigmoid(w) / dw = 1 - sigmoid(w) = 0.1192
    assert gradient(loss, w) == pytest.approx([-0.1192], abs=1e-4)
    with pytest.raises(ValueError, match="old_logprobs is a constant here, got a tensor that requires grad"):
        unclipped_loss(logprobs, logprobs, torch.ones(1, 1))


def test_advantages_must_be_constants_of_a_shape_that_fits() -> None:
    """Item 40: a gradient through the advantage, or one per completion without its axis, is refused."""
    new, old = torch.zeros(2, 2), torch.zeros(2, 2)
    with pytest.raises(ValueError, match=r"got \[2\]; one per completion is advantages\[:, None\]"):
        clipped_surrogate_loss(new, old, torch.ones(2), clip_low=0.2, clip_high=0.2)
    with pytest.raises(ValueError, match="advantages is a constant here"):
        policy_gradient_loss(new, torch.ones(2, 1, requires_grad=True))


def test_bounds_out_of_range_say_so() -> None:
    new, old, advantages = torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1)
    with pytest.raises(ValueError, match=r"clip_low must lie in \(0, 1\] .* got 1.2 and 0.2"):
        clipped_surrogate_loss(new, old, advantages, clip_low=1.2, clip_high=0.2)
    with pytest.raises(ValueError, match=r"dual_clip must exceed 1 \+ clip_high = 1.2, got 1.1"):
        clipped_surrogate_loss(new, old, advantages, clip_low=0.2, clip_high=0.2, dual_clip=1.1)
    with pytest.raises(ValueError, match=r"got 0.2 and 0"):
        cispo_loss(new, old, advantages, clip_low=0.2, clip_high=0)
    with pytest.raises(ValueError, match="needs mask"):
        clipped_surrogate_loss(new, old, advantages, clip_low=0.2, clip_high=0.2, level="sequence")
