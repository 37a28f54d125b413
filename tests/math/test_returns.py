"""Returns and generalised advantage estimation, of tokens and of turns, against sums written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lit_rl.math.advantages import GAE
from lit_rl.math.masking import masked_whiten
from lit_rl.math.returns import Truncation, reward_to_go, treat_truncation


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def random_case(num_rows: int = 4, num_tokens: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(2, num_rows, num_tokens, generator=generator, dtype=torch.float64)
    return rewards, values, torch.rand(num_rows, num_tokens, generator=generator) < 0.6


def gae(
    rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float, gae_lambda: float, tails: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Advantages and returns; without tails every completion ended itself."""
    return GAE(gamma, gae_lambda).estimate(rewards, values, mask, torch.zeros(len(mask)) if tails is None else tails)


def gae_by_its_sum(rewards: Tensor, values: Tensor, gamma: float, lam: float, tail: float) -> list[float]:
    """The definition for one row without gaps: A_t = sum_l (gamma lam)^l delta_{t+l}."""
    following = [*values.tolist()[1:], tail]
    deltas = [r + gamma * n - v for r, n, v in zip(rewards.tolist(), following, values.tolist(), strict=True)]
    return [sum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, len(deltas))) for t in range(len(deltas))]


def test_reward_to_go_by_hand_steps_over_what_the_mask_leaves_out() -> None:
    got = reward_to_go(rows([1.0, 2.0, 4.0]), torch.ones(1, 3, dtype=torch.bool), gamma=0.5)
    assert got.tolist() == [[1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4.0]]
    rewards = rows([1.0, math.nan, 4.0, math.inf])
    got = reward_to_go(rewards, torch.tensor([[True, False, True, False]]), gamma=0.5)
    assert got.tolist() == [[3.0, 0.0, 4.0, 0.0]]


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
def test_gae_equals_its_defining_sum(gamma: float, lam: float) -> None:
    rewards, values, _ = random_case()
    tails = torch.tensor([0.0, 0.3, -2.0, 1.0], dtype=torch.float64)
    got, _ = gae(rewards, values, torch.ones(4, 9, dtype=torch.bool), gamma=gamma, gae_lambda=lam, tails=tails)
    want = [gae_by_its_sum(rewards[i], values[i], gamma, lam, tails[i].item()) for i in range(4)]
    torch.testing.assert_close(got, rows(*want), rtol=1e-12, atol=1e-12)


def test_returns_come_from_unwhitened_advantages() -> None:
    """Item 29: returns - values is the raw advantage, not the whitened one."""
    rewards, values, mask = random_case()
    advantages, returns = gae(rewards, values, mask, gamma=0.9, gae_lambda=0.8)
    torch.testing.assert_close((returns - values)[mask], advantages[mask])
    assert (masked_whiten(advantages, mask) - advantages)[mask].abs().max() > 0.1


@pytest.mark.parametrize(
    ("treatment", "want"),
    [  # a cut row with value 0.2 before and 0.6 after its only token, and one that ended with reward 1
        ("bootstrap", [[0.0 + 0.6 - 0.2], [1.0 - 0.5]]),
        ("zero", [[0.0 - 0.2], [1.0 - 0.5]]),
        ("mask", [[0.0], [1.0 - 0.5]]),
    ],
)
def test_three_beliefs_about_truncation(treatment: Truncation, want: list[list[float]]) -> None:
    """Item 26: bootstrap, zero or mask; the tail value of the row that ended itself is never read."""
    mask, truncated = torch.ones(2, 1, dtype=torch.bool), torch.tensor([True, False])
    tails = torch.tensor([0.6, math.nan], dtype=torch.float64)
    loss_mask, bootstrap = treat_truncation(mask, truncated, tails, treatment=treatment)
    rewards, values = rows([0.0], [1.0]), rows([0.2], [0.5])
    advantages, _ = gae(rewards, values, loss_mask, gamma=1.0, gae_lambda=0.95, tails=bootstrap)
    torch.testing.assert_close(advantages, rows(*want))
    assert loss_mask.flatten().tolist() == [treatment != "mask", True]


@pytest.mark.parametrize("moving", ["token_rewards", "values", "bootstrap_values"])
def test_no_gradient_flows_through_advantages(moving: str) -> None:
    """The policy's loss would move the critic through them."""
    mask = torch.ones(2, 3, dtype=torch.bool)
    given = {name: torch.zeros(2, 3) for name in ("token_rewards", "values")} | {"bootstrap_values": torch.zeros(2)}
    given[moving].requires_grad_()
    found = GAE().estimate(given["token_rewards"], given["values"], mask, given["bootstrap_values"])
    assert not any(one.requires_grad for one in found)
    assert not reward_to_go(given["token_rewards"], mask).requires_grad
