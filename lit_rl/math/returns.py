"""Returns per token from rewards per token, and the treatment of truncated completions.

Letters: N completions, T completion tokens. Entry [:, t] belongs to the state before completion token t; the token
itself is the action. ``mask`` is bool; True for the policy's own tokens. Tokens that the mask leaves out, at the end
(padding) or between (what an environment said), are stepped over: time runs over the policy's tokens only, and no value
elsewhere reaches a result.
"""

from __future__ import annotations

from typing import Literal, assert_never

import torch
from torch import Tensor

Truncation = Literal["bootstrap", "zero", "mask"]
"""Treatment of completions cut at the token limit; see :func:`treat_truncation`."""


def reward_to_go(token_rewards: Tensor, mask: Tensor, *, gamma: float = 1.0) -> Tensor:
    """Return the discounted sum of the rewards from each token on.

        G_t = r_t + gamma * G_{next t}

    Args:
        token_rewards: [N, T] reward units. No gradient.
        mask: [N, T] bool.
        gamma: discount per token of the policy, in [0, 1].

    Returns:
        [N, T] returns, reward units, 0 outside the mask.

    Example:
        >>> rewards, mask = torch.tensor([[1.0, 9.0, 2.0]]), torch.tensor([[True, False, True]])
        >>> reward_to_go(rewards, mask, gamma=0.5)
        tensor([[2., 0., 2.]])
    """
    kept = torch.where(mask, token_rewards.detach(), torch.zeros_like(token_rewards))
    following = kept.new_zeros(kept.shape[0])
    returns = torch.zeros_like(kept)
    for t in reversed(range(kept.shape[1])):
        following = torch.where(mask[:, t], kept[:, t] + gamma * following, following)
        returns[:, t] = following
    return torch.where(mask, returns, torch.zeros_like(returns))


def treat_truncation(
    mask: Tensor, truncated: Tensor, tail_values: Tensor, *, treatment: Truncation
) -> tuple[Tensor, Tensor]:
    """Apply a treatment to completions that were cut at the token limit.

        bootstrap:  the completion would have continued: V after its last token takes the place of its outcome
        zero:       the limit is part of the task: nothing follows
        mask:       the completion is no evidence: its tokens leave the loss

    Under ``bootstrap`` the rewards must not hold the outcome too: otherwise a cut row is paid twice and values have no
    fixed point. :func:`lit_rl.rewards.token_credit.credit_decided_before_end` leaves the outcome out. A program that
    passed has its outcome, wherever the completion was cut: that row counts as ended.

    Args:
        mask: [N, T] bool.
        truncated: [N] bool, from the sampler's stop reason; a completion that ends with EOS exactly at the
            limit is not truncated.
        tail_values: [N] the critic's value of the state after the last token, reward units. Read only for
            truncated rows under ``bootstrap``.
        treatment: see above.

    Returns:
        The mask [N, T] for advantages and loss, and the ``bootstrap_values`` [N] of
        :meth:`lit_rl.math.advantages.TokenAdvantages.estimate`.

    Source:
        Pardo et al. 2018, https://arxiv.org/abs/1712.00378

    Example:
        >>> mask, truncated = torch.tensor([[True], [True]]), torch.tensor([True, False])
        >>> treat_truncation(mask, truncated, torch.tensor([0.3, 0.9]), treatment="bootstrap")[1]
        tensor([0.3000, 0.0000])
    """
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
