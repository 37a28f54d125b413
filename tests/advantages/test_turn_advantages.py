"""Advantages of turns among rows that came as far: by hand, and their expected gradient by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch

from lit_rl.advantages import (
    BatchMean,
    GroupMean,
    LeaveOneOut,
    Murphy,
    NoBaseline,
    RowAdvantages,
    TurnAdvantages,
    TurnReturns,
)

NAN = math.nan
TURNS = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 1, 0]]).bool()
"""Three rows of one problem, a fourth of it that nothing judged, and a row that is alone with its problem."""
PARTS = torch.tensor([[4.0, 0, 0], [-1, 3, 0], [0, -1, 6], [NAN, NAN, 0], [2, 5, 0]], dtype=torch.float64)
JUDGED = torch.tensor([[-4.0, 0, 0], [0, 3, 0], [NAN, 5, 4], [NAN, NAN, 0], [2, 5, 0]], dtype=torch.float64)
CENTRED = GroupMean("none")


@pytest.mark.parametrize(
    ("kind", "rewards", "expected"),
    [
        # Returns 4 | 0.5, 3 | 1, 2, 6: means 11/6 and 5/2, and a third turn that is alone.
        (TurnReturns(0.5, CENTRED), PARTS, [[13 / 6, 0, 0], [-4 / 3, 0.5, 0], [-5 / 6, -0.5, 0]]),
        # -4 | 3, 3 | 5, 5, 4: means 4/3 and 4.
        (Murphy(CENTRED), JUDGED, [[-16 / 3, 0, 0], [5 / 3, -1, 0], [11 / 3, 1, 0]]),
        # Turns of all problems: 4, 0.5, 3, 1, 2, 6, 4.5, 5 have the mean 3.25.
        (
            TurnReturns(0.5, BatchMean("none")),
            PARTS,
            [[0.75, 0, 0], [-2.75, -0.25, 0], [-2.25, -1.25, 2.75], [0, 0, 0], [1.25, 1.75, 0]],
        ),
    ],
    ids=["returns", "murphy", "batch"],
)
def test_turns_are_compared_with_those_of_rows_that_came_as_far(
    kind: TurnAdvantages, rewards: torch.Tensor, expected: list[list[float]]
) -> None:
    """Items 16, 73: also with rows in another order, and whatever the row that nothing judged holds."""
    valid, groups = torch.tensor([True, True, True, False, True]), torch.tensor([7, 7, 7, 7, 3])
    want = torch.zeros(5, 3, dtype=torch.float64)
    want[: len(expected)] = torch.tensor(expected)
    for order in ([0, 1, 2, 3, 4], [4, 2, 3, 0, 1]):
        found = kind(rewards[order], TURNS[order], valid[order], groups[order])
        torch.testing.assert_close(found, want[order])


Outcome = tuple[int, ...]
FIRST = [1.0, -0.5, 0.25]
"""Rewards of three first programs, of which the first passes and ends the row."""
SECOND = {(1, 0): 2.0, (1, 1): -1.0, (2, 0): 0.5, (2, 1): 3.0}
OUTCOMES: list[Outcome] = [(0,), *SECOND]

ESTIMATORS: dict[str, tuple[Callable[[RowAdvantages], TurnAdvantages], Callable[[float, float], float]]] = {
    "returns": (lambda baseline: TurnReturns(0.5, baseline), lambda first, second: first + 0.5 * second),
    "best": (Murphy, max),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    "baseline", [LeaveOneOut("none"), GroupMean("none"), NoBaseline()], ids=lambda one: type(one).__name__
)
def test_the_expected_gradient_of_a_turn_is_that_of_its_expected_return(baseline: RowAdvantages, name: str) -> None:
    """Item 73: over all groups of three rows, up to a factor of the turn: how often, and how well, it is compared."""
    make, first_return = ESTIMATORS[name]
    kind, generator = make(baseline), torch.Generator().manual_seed(0)
    logits = [
        torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_() for shape in ((3,), (3, 2))
    ]
    first, second = (table.log_softmax(-1) for table in logits)
    rewards = torch.tensor([[FIRST[a[0]], SECOND.get(a, 0.0)] for a in OUTCOMES], dtype=torch.float64)
    turns = torch.tensor([[True, len(a) == 2] for a in OUTCOMES])
    logprobs = torch.stack([torch.stack([first[a[0]], second[a] if len(a) == 2 else 0 * first[0]]) for a in OUTCOMES])
    chance = logprobs.sum(-1).exp()
    assert math.isclose(chance.sum().item(), 1)

    groups = torch.tensor(list(itertools.product(range(len(OUTCOMES)), repeat=3)))
    surrogate = torch.zeros((), dtype=torch.float64)
    for group in groups:
        advantages = kind(rewards[group], turns[group], torch.ones(3).bool(), torch.zeros(3, dtype=torch.int64))
        surrogate = surrogate + chance[group].prod().detach() * (advantages * logprobs[group]).sum() / 3

    returns = [first_return(*r) if len(a) == 2 else r[0] for r, a in zip(rewards.tolist(), OUTCOMES, strict=True)]
    expected = (chance * torch.tensor(returns, dtype=torch.float64)).sum(), (chance * rewards[:, 1]).sum()
    goes_on = 1 - first.exp()[0].item()
    both, one = goes_on**2, 2 * goes_on * (1 - goes_on)  # of the two other rows that have a second turn
    factors = {"LeaveOneOut": (1, both + one), "GroupMean": (2 / 3, both * 2 / 3 + one / 2), "NoBaseline": (1, 1)}
    for table, goal, factor in zip(logits, expected, factors[type(baseline).__name__], strict=True):
        (found,) = torch.autograd.grad(surrogate, table, retain_graph=True)
        (true,) = torch.autograd.grad(goal, table, retain_graph=True)
        assert true.norm() > 0.05
        torch.testing.assert_close(found, factor * true, rtol=1e-9, atol=1e-12)
