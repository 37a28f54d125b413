"""From rewards per token to returns and advantages per token.

Letters: N completions, T completion tokens. Entry [:, t] is about the state before completion token t and the
action that token is. ``mask`` is bool; True for the policy's own tokens. Tokens that the mask leaves out, at the
end (padding) or between (what an environment said), are stepped over: time runs over the policy's tokens only, and
no value elsewhere reaches a result.
"""

from __future__ import annotations

from typing import Literal, assert_never

import torch
from torch import Tensor

from lit_rl.functional.shapes import require_mask, require_no_grad, require_same_shape, shape_of

Truncation = Literal["bootstrap", "zero", "mask"]
"""What follows the token limit; see :func:`treat_truncation`."""


def reward_to_go(token_rewards: Tensor, mask: Tensor, *, gamma: float = 1.0) -> Tensor:
    """Discounted sum of the rewards from each token on: what that token can still be credited with.

        G_t = r_t + gamma * G_{next t}

    Args:
        token_rewards: [N, T] reward units. No gradient.
        mask: [N, T] bool.
        gamma: discount per token of the policy, in [0, 1].

    Returns:
        [N, T] returns, reward units, 0 outside the mask.

    Raises:
        ValueError: shapes differ, ``mask`` is not bool, or ``gamma`` is out of range.

    Example:
        >>> rewards, mask = torch.tensor([[1.0, 9.0, 2.0]]), torch.tensor([[True, False, True]])
        >>> reward_to_go(rewards, mask, gamma=0.5)
        tensor([[2., 0., 2.]])
    """
    _require_token_inputs(token_rewards, mask, gamma=gamma)
    kept = torch.where(mask, token_rewards, torch.zeros_like(token_rewards))
    following = kept.new_zeros(kept.shape[0])
    columns = []
    for t in reversed(range(kept.shape[1])):
        following = torch.where(mask[:, t], kept[:, t] + gamma * following, following)
        columns.append(following)
    returns = _in_order(columns, kept)
    return torch.where(mask, returns, torch.zeros_like(returns))


def gae(
    token_rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
    bootstrap_values: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation over the policy's tokens, and the critic's targets.

        delta_t  = r_t + gamma * V_{next t} - V_t
        A_t      = delta_t + gamma * gae_lambda * A_{next t}
        return_t = A_t + V_t

    After a completion's last token V is its bootstrap value. Whiten the advantages afterwards if at all:
    the returns belong to the unwhitened ones.

    Args:
        token_rewards: [N, T] reward units. No gradient.
        values: [N, T] the critic's value before each token, reward units. No gradient.
        mask: [N, T] bool.
        gamma: discount per token, in [0, 1]; 1 for rewards that judge the whole program.
        gae_lambda: in [0, 1]; 1 trusts the rewards alone, 0 the next value.
        bootstrap_values: [N] value after the last token, from :func:`treat_truncation`; None: 0 for all,
            every completion ended itself.

    Returns:
        advantages [N, T] and returns [N, T], reward units, 0 outside the mask.

    Raises:
        ValueError: shapes differ, ``mask`` is not bool, a discount out of range, or an input requires grad.

    Source:
        Schulman et al. 2016, eq. 16, https://arxiv.org/abs/1506.02438

    Example:
        >>> rewards, values = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
        >>> gae(rewards, values, torch.tensor([[True, True]]), gamma=1.0, gae_lambda=1.0)
        (tensor([[0.5000, 0.5000]]), tensor([[1., 1.]]))
    """
    _require_token_inputs(token_rewards, mask, gamma=gamma, gae_lambda=gae_lambda)
    require_same_shape(token_rewards=token_rewards, values=values)
    require_no_grad(values=values)
    rewards = torch.where(mask, token_rewards, torch.zeros_like(token_rewards))
    kept_values = torch.where(mask, values, torch.zeros_like(values))
    next_value = rewards.new_zeros(rewards.shape[0])
    if bootstrap_values is not None:
        _require_rows(bootstrap_values, rewards, "bootstrap_values")
        require_no_grad(bootstrap_values=bootstrap_values)
        next_value = bootstrap_values.to(rewards.dtype)
    following = torch.zeros_like(next_value)
    columns = []
    for t in reversed(range(rewards.shape[1])):
        here = mask[:, t]
        delta = rewards[:, t] + gamma * next_value - kept_values[:, t]
        following = torch.where(here, delta + gamma * gae_lambda * following, following)
        next_value = torch.where(here, kept_values[:, t], next_value)
        columns.append(following)
    advantages = _in_order(columns, rewards)
    advantages = torch.where(mask, advantages, torch.zeros_like(advantages))
    return advantages, advantages + kept_values


def treat_truncation(
    mask: Tensor, truncated: Tensor, tail_values: Tensor, *, treatment: Truncation
) -> tuple[Tensor, Tensor]:
    """How to treat completions that were cut at the token limit.

        bootstrap:  they would have gone on: V after the last token stands for the rest
        zero:       the limit is part of the task: nothing follows
        mask:       they say nothing: their tokens leave the loss

    Args:
        mask: [N, T] bool.
        truncated: [N] bool, from the sampler's stop reason; a completion that ends with EOS exactly at the
            limit is not truncated.
        tail_values: [N] the critic's value of the state after the last token, reward units. Read only for
            truncated rows under ``bootstrap``.
        treatment: see above.

    Returns:
        The mask [N, T] for :func:`gae` and the loss, and ``bootstrap_values`` [N] for :func:`gae`.

    Raises:
        ValueError: shapes do not fit, or a mask is not bool.

    Source:
        Pardo et al. 2018, https://arxiv.org/abs/1712.00378

    Example:
        >>> mask, truncated = torch.tensor([[True], [True]]), torch.tensor([True, False])
        >>> treat_truncation(mask, truncated, torch.tensor([0.3, 0.9]), treatment="bootstrap")[1]
        tensor([0.3000, 0.0000])
    """
    _require_rows(tail_values, mask, "tail_values")
    require_mask(truncated, tail_values, name="truncated")
    none = torch.zeros_like(tail_values)
    match treatment:
        case "bootstrap":
            return mask, torch.where(truncated, tail_values, none)
        case "zero":
            return mask, none
        case "mask":
            return mask & ~truncated[:, None], none
        case _:
            assert_never(treatment)


def _in_order(columns: list[Tensor], like: Tensor) -> Tensor:
    """Columns found from the last to the first, as [N, T]."""
    return torch.stack(columns[::-1], dim=1) if columns else torch.zeros_like(like)


def _require_token_inputs(token_rewards: Tensor, mask: Tensor, **discounts: float) -> None:
    if token_rewards.dim() != 2:
        raise ValueError(f"token_rewards must be [N, T], got {shape_of(token_rewards)}")
    require_mask(mask, token_rewards)
    require_no_grad(token_rewards=token_rewards)
    for name, value in discounts.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must lie in [0, 1], got {value}")


def _require_rows(per_row: Tensor, like: Tensor, name: str) -> None:
    if per_row.shape != like.shape[:1]:
        raise ValueError(f"{name} must be [N] beside {shape_of(like)}, got {shape_of(per_row)}")
