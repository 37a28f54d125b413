"""pass@k against counting all draws."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import pytest

from lit_rl.math.pass_at_k import pass_at_k


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


@pytest.mark.parametrize(("samples", "correct", "k"), [(4, 5, 2), (4, -1, 2), (4, 2, 0), (4, 2, 5)])
def test_counts_that_no_draw_can_have_are_refused(samples: int, correct: int, k: int) -> None:
    """The product would give a number all the same, above 1 or below 0."""
    with pytest.raises(ValueError, match="pass@"):
        pass_at_k(samples, correct, k)
