"""pass@k against counting all draws."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import pytest
import torch

from lit_rl.functional.pass_at_k import pass_at_k


def test_equals_the_share_of_draws_with_a_good_sample() -> None:
    """Item 66: by enumeration of every draw of k from n."""
    for num_samples in range(1, 7):
        for num_correct in range(num_samples + 1):
            good = [True] * num_correct + [False] * (num_samples - num_correct)
            for k in range(1, num_samples + 1):
                draws = [any(draw) for draw in combinations(good, k)]
                assert pass_at_k(num_samples, num_correct, k) == pytest.approx(sum(draws) / len(draws))


def test_large_counts_are_as_exact_as_small_ones() -> None:
    exact = 1 - Fraction(comb(9997, 100), comb(10000, 100))
    assert pass_at_k(10_000, 3, 100) == pytest.approx(float(exact), rel=1e-12)


def test_a_tensor_gives_one_estimate_per_problem() -> None:
    got = pass_at_k(torch.tensor([4, 10]), torch.tensor([2, 1]), 2)
    torch.testing.assert_close(got, torch.tensor([5 / 6, 0.2], dtype=torch.float64))
    assert isinstance(pass_at_k(4, 2, 2), float)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^pass@8 needs num_samples >= 8, got 4$"):
        pass_at_k(4, 1, 8)
    with pytest.raises(ValueError, match="pass@8 needs num_samples >= 8, got 4"):
        pass_at_k(torch.tensor([10, 4]), torch.tensor([0, 0]), 8)
    with pytest.raises(ValueError, match=r"num_correct must lie in 0 \.\. num_samples, got 5 of 4"):
        pass_at_k(4, 5, 1)
    with pytest.raises(ValueError, match="pass@k needs k >= 1, got 0"):
        pass_at_k(4, 1, 0)
    with pytest.raises(ValueError, match="num_correct must have the shape of num_samples"):
        pass_at_k(torch.tensor([4]), torch.tensor([1, 1]), 1)
