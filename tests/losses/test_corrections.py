"""Weights of tokens that older weights sampled, worked out by hand."""

import math

import pytest
import torch
from torch import Tensor

from lit_rl.losses import Correction, MaskedBand, SequenceMask, Tokens, TruncatedWeights

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


def test_the_mean_weight_of_many_samples_is_one() -> None:
    """E_q[p / q] = 1: why it corrects. Four tokens, drawn from q; the error of the mean is about 0.004."""
    p = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    q = torch.tensor([0.25, 0.25, 0.25, 0.25], dtype=torch.float64)
    drawn = torch.multinomial(q, 20000, replacement=True, generator=torch.Generator().manual_seed(0))[None]
    weights = weights_of(TruncatedWeights(10.0), p.log()[drawn], q.log()[drawn], torch.ones_like(drawn).bool())
    assert float(weights.mean()) == pytest.approx(1.0, abs=0.02)
    values = torch.tensor([1.0, 0.0, 0.0, 2.0], dtype=torch.float64)[drawn]
    assert float((weights * values).mean()) == pytest.approx(0.4 + 0.2, abs=0.03)
    assert math.isclose(float(values.mean()), 0.75, abs_tol=0.03), "without weights it would be q's mean"


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
