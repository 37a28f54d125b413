"""Weights for tokens that the weights being trained did not sample: functions of p / q, constants in the loss.

p is the policy at the beginning of a rollout's updates, by the training forward; q is what the sampler itself reported:
older weights, or the same ones computed in another way.

Letters: N completions, T completion tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lit_rl.functional.ratios import importance_weights, log_ratio


def band_weights(logprobs: Tensor, sampler_logprobs: Tensor, *, low: float, high: float) -> Tensor:
    """Importance weight of each token whose weight lies in a band; tokens outside weigh nothing.

        w = p / q
        w if low <= w <= high else 0

    Args:
        logprobs: [N, T] nats, of p.
        sampler_logprobs: [N, T] nats, of q.
        low: smallest weight that is kept, in [0, 1].
        high: largest, at least 1.

    Returns:
        [N, T] weights, unitless. No gradient.

    Raises:
        ValueError: shapes differ, or a band without 1 in it.

    Source:
        IcePop: Ling Team 2025, https://arxiv.org/abs/2510.18855

    Example:
        >>> policy, sampler = torch.tensor([[0.8, 0.3]]).log(), torch.tensor([[0.2, 0.4]]).log()
        >>> band_weights(policy, sampler, low=0.5, high=2.0)
        tensor([[0.0000, 0.7500]])
    """
    require_band(low, high)
    weights = importance_weights(logprobs, sampler_logprobs)
    return torch.where((weights >= low) & (weights <= high), weights, torch.zeros_like(weights))


def sequence_weights(
    logprobs: Tensor, sampler_logprobs: Tensor, mask: Tensor, *, low: float, high: float, cap: float | None = None
) -> Tensor:
    """Keep completions whose mean ratio lies in a band, and drop the others as a whole.

        g_i  = exp((1 / n_i) sum_t m_it log(p_it / q_it))       geometric mean over the completion's n_i tokens
        w_it = (min(p_it / q_it, cap) or, without a cap, 1) if low <= g_i <= high else 0

    Args:
        logprobs: [N, T] nats, of p.
        sampler_logprobs: [N, T] nats, of q.
        mask: [N, T] bool, tokens of the policy.
        low: smallest mean that is kept, in [0, 1].
        high: largest, at least 1.
        cap: largest weight of a token in a completion that is kept; None weighs all of them 1.

    Returns:
        [N, T] weights, unitless. No gradient.

    Raises:
        ValueError: shapes differ, a band without 1 in it, or ``cap`` <= 0.

    Example:
        >>> policy = torch.tensor([[0.8, 0.1], [0.4, 0.2]]).log()
        >>> sampler = torch.tensor([[0.2, 0.4], [0.1, 0.1]]).log()
        >>> sequence_weights(policy, sampler, torch.ones(2, 2).bool(), low=0.5, high=2.0)  # means 1 and sqrt(8)
        tensor([[1., 1.],
                [0., 0.]])
    """
    require_band(low, high)
    mean = log_ratio(logprobs.detach(), sampler_logprobs.detach(), level="sequence", mask=mask).exp()
    weights = torch.ones_like(mean) if cap is None else importance_weights(logprobs, sampler_logprobs, cap=cap)
    return torch.where((mean >= low) & (mean <= high), weights, torch.zeros_like(weights))


def require_band(low: float, high: float) -> None:
    """Check whether a band of weights has 1, the weight of a token that p and q agree on, in it.

    Raises:
        ValueError: it has not.
    """
    if not 0 <= low <= 1 <= high:
        raise ValueError(
            f"a band of weights has 1 in it, got low={low} and high={high}: set low to 0 ... 1 and high to 1 or more"
        )
