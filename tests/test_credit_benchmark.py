"""The measure of credit in a world small enough to enumerate: three binary choices, a table of rewards per problem."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

ROOT = Path(__file__).parents[1]
LOGITS = torch.tensor([0.3, -0.8, 0.6, 0.1, -0.4, 0.9, -1.1], dtype=torch.float64)
ROWS = torch.tensor(list(product((0, 1), repeat=3)))
STATES = torch.stack([torch.zeros(8, dtype=torch.long), 1 + ROWS[:, 0], 3 + 2 * ROWS[:, 0] + ROWS[:, 1]], 1)
ONES = torch.sigmoid(LOGITS)[STATES]  # [8, 3] probability of a one
CHANCES = torch.where(ROWS == 1, ONES, 1 - ONES).prod(1)
SCORES = torch.zeros(8, 3, 7, dtype=torch.float64).scatter(2, STATES[..., None], (ROWS - ONES)[..., None])
TABLES = torch.tensor(
    [[0, 0, 1, 0, 0, 1, 1, 1], [1, 0, 0, 0, 0, 0, 1, 0], [0, 1, 1, 1, 0, 0, 0, 1]], dtype=torch.float64
)


@pytest.fixture
def credit(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return pytest.importorskip("credit")


def exact_gradient(rewards: Tensor) -> Tensor:
    """[7] gradient of the expected reward, by enumeration."""
    return (CHANCES * rewards) @ SCORES.sum(1)


def groups_of_two(credit: Any, rewards: Tensor) -> tuple[Tensor, Tensor]:
    """[64, 7] estimates of all groups of two rows under ``terminal``, and their chances."""
    mask = torch.ones(2, 3, dtype=torch.bool)
    found = []
    for pair in product(range(8), repeat=2):
        own = rewards[list(pair)]
        placed = torch.zeros(2, 3, dtype=torch.float64)
        placed[:, -1] = own
        advantages = credit.centred(placed, mask, credit.others(own))
        found.append((advantages[..., None] * SCORES[list(pair)]).sum((0, 1)) / 2)
    return torch.stack(found), torch.outer(CHANCES, CHANCES).flatten()


def products_of(found: Tensor) -> Tensor:
    """[P, 2, P, 2] inner products of estimates [P, 2, D]."""
    flat = found.flatten(0, 1)
    return (flat @ flat.T).view(*found.shape[:2], *found.shape[:2])


def test_signal_and_noise_are_those_of_enumeration_from_few_problems_with_rows_that_hang_together(credit: Any) -> None:
    """Four problems of three kinds, two groups each: the plain |mean|^2 is far off, as are pairs within a problem."""
    generator = torch.Generator().manual_seed(0)
    estimates, chances = zip(*(groups_of_two(credit, rewards) for rewards in TABLES), strict=True)
    signal = torch.stack([exact_gradient(rewards) for rewards in TABLES]).mean(0).square().sum()
    second = torch.stack([c @ e.square().sum(1) for e, c in zip(estimates, chances, strict=True)]).mean()
    ours, naive, all_pairs = [], [], []
    for _ in range(4000):
        kinds = torch.randint(3, (4,), generator=generator).tolist()
        found = torch.stack(
            [estimates[kind][torch.multinomial(chances[kind], 2, True, generator=generator)] for kind in kinds]
        )
        ours.append(torch.stack(credit.moments(products_of(found), torch.ones(4, dtype=torch.float64))))
        flat = found.flatten(0, 1)
        naive.append(flat.mean(0).square().sum())
        all_pairs.append((flat.sum(0).square().sum() - flat.square().sum()) / 56)
    mean, error = torch.stack(ours).mean(0), torch.stack(ours).std(0) / 4000**0.5
    expected = torch.stack([signal, second - signal])
    assert ((mean - expected).abs() < 4 * error).all(), (mean, expected, error)
    assert torch.stack(naive).mean() > signal + 20 * error[0]
    assert torch.stack(all_pairs).mean() > signal + 4 * error[0]


def test_a_rule_that_samples_three_times_as_many_tokens_is_worth_a_third(credit: Any) -> None:
    found = torch.randn(6, 2, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 1.0
    flat = torch.stack([found, 2 * found]).flatten(0, 2)  # a rule's scale does not count
    products = (flat @ flat.T).view(2, 6, 2, 2, 6, 2)
    tokens = torch.tensor([[10.0], [30.0]]).double() * torch.arange(1.0, 7.0).double()
    measured = credit.measures(products, tokens, torch.ones(6, dtype=torch.float64))
    assert torch.allclose(measured["equal"], torch.tensor([1.0, 1 / 3]).double())
    assert torch.allclose(measured["to terminal"], torch.ones(2).double())


def test_an_interval_has_ends_where_the_first_rule_has_hardly_a_signal(
    credit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In some resamples its signal is not above 0 and the other's is: there the comparison is infinite."""
    monkeypatch.setattr(credit, "RESAMPLES", 200)
    generator = torch.Generator().manual_seed(3)
    weak = torch.randn(12, 2, 5, generator=generator, dtype=torch.float64) * 3 + 0.4
    flat = torch.stack([weak, weak * 0.1 + 0.4]).flatten(0, 2)
    products, tokens = (flat @ flat.T).view(2, 12, 2, 2, 12, 2), torch.ones(2, 12, dtype=torch.float64)
    low, high = credit.resampled(products, tokens, generator)["equal"][:, 1]
    assert 1 < low < high == torch.inf
