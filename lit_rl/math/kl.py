"""Estimates of the policy's KL to the reference, per token, and the reward penalty made from these estimates.

Letters: N completions, T completion tokens. All estimates are in nats and are about tokens that the policy
sampled.
"""

from __future__ import annotations

from typing import Literal, assert_never

import torch
from torch import Tensor

from lit_rl.math.masking import require_same_shape

KLKind = Literal["k1", "k2", "k3", "k3_weighted"]
"""Estimator of the divergence; see :func:`kl_estimate`."""

LOG_RATIO_LIMIT = 20.0
"""Log-ratios (nats) are clamped to +- this before anything else, so that exp stays finite in float32."""

K3_LOG_RATIO_LIMIT = 3.0
"""k3 grows like r: above this log-ratio (r = 20) the value of k3 stays constant, and the gradient of plain k3 is 0."""


def kl_estimate(logprobs: Tensor, ref_logprobs: Tensor, *, kind: KLKind, old_logprobs: Tensor | None = None) -> Tensor:
    """Estimate KL(policy || reference) from one sampled token per entry.

        log r = clamp(ref_logprobs - logprobs, -20, 20)
        k1 = -log r                    unbiased, can be negative
        k2 = (log r)^2 / 2             biased, never negative
        k3 = r - 1 - log r             unbiased, never negative; log r clamped to at most 3
        k3_weighted = w * k3,  w = exp(clamp(logprobs - old_logprobs, -20, 20))

    As a number to report, use k1 or k3. Subtracted from a reward, k1 gives the gradient of KL(policy || reference); k2
    and k3 give nearly no gradient close to the reference and a wrong one far from it. As an on-policy loss, k1 gives
    **zero**, k2 the gradient of KL(policy || reference), k3 that of the *forward* KL(reference || policy), and
    k3_weighted that of KL(policy || reference), for tokens of the policy and of the old policy alike.

    The gradient of w * k3 is w * k1 * grad(logprobs): what grows like r cancels. The gradient is computed in this form,
    so the clamp of k3, which limits the value, does not touch the gradient. Past a clamp at 20 the gradient is 0.

    Args:
        logprobs: any shape, nats, of the sampled tokens under the policy. May carry the gradient.
        ref_logprobs: shape of ``logprobs``, the same tokens under the reference. No gradient.
        kind: ``k1``, ``k2``, ``k3`` or ``k3_weighted``.
        old_logprobs: shape of ``logprobs``, the same tokens under the old policy. No gradient. Read by
            ``k3_weighted`` only.

    Returns:
        Shape of ``logprobs``, nats.

    Source:
        Schulman 2020, "Approximating KL Divergence", http://joschu.net/blog/kl-approx.html
        k3_weighted: "unbiased KL estimate" of DeepSeek-AI 2025 (V3.2), https://arxiv.org/abs/2512.02556

    Example:
        >>> policy, reference = torch.tensor([0.5]).log(), torch.tensor([0.25]).log()  # r = 1/2
        >>> kl_estimate(policy, reference, kind="k1"), kl_estimate(policy, reference, kind="k3")
        (tensor([0.6931]), tensor([0.1931]))
    """
    require_same_shape(logprobs, ref_logprobs=ref_logprobs)
    log_ratio = (ref_logprobs.detach() - logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    match kind:
        case "k1":
            return -log_ratio
        case "k2":
            return 0.5 * log_ratio.square()
        case "k3":
            # Clamp only the side that explodes: where the policy is far above the reference, the pull back stays.
            log_ratio = log_ratio.clamp(max=K3_LOG_RATIO_LIMIT)
            # expm1 keeps the digits that exp(x) - 1 loses near 0, where k3 lives.
            return torch.expm1(log_ratio) - log_ratio
        case "k3_weighted":
            assert old_logprobs is not None
            require_same_shape(logprobs, old_logprobs=old_logprobs)
            weight = (logprobs - old_logprobs.detach()).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
            value = weight * kl_estimate(logprobs, ref_logprobs, kind="k3")
            return value.detach() - (weight - weight.detach()) * log_ratio.detach()
        case _:
            assert_never(kind)


def kl_penalised_rewards(
    credit: Tensor,
    logprobs: Tensor,
    ref_logprobs: Tensor,
    mask: Tensor,
    *,
    coef: float | Tensor,
) -> Tensor:
    """Return token rewards: credit minus the KL to the reference.

        token_reward_it = credit_it - coef * k1_it     where the mask holds, else 0

    Of the estimators, only k1 has the gradient of the KL when it is part of a reward. ``credit`` itself is not changed,
    so that the logged reward is the environment's.

    Args:
        credit: [N, T] reward per token before KL, reward units; each row sums to its completion's reward.
        logprobs: [N, T] nats under the policy that sampled. No gradient.
        ref_logprobs: [N, T] nats under the reference. No gradient.
        mask: [N, T] bool.
        coef: reward units per nat, at least 0.

    Returns:
        [N, T] token rewards, reward units, 0 outside the mask. No gradient.

    Source:
        Ziegler et al. 2019, eq. 2, https://arxiv.org/abs/1909.08593

    Example:
        >>> credit = torch.tensor([[0.0, 1.0, 5.0]])
        >>> policy, reference = torch.zeros(1, 3), torch.full((1, 3), -0.5)
        >>> mask = torch.tensor([[True, True, False]])
        >>> kl_penalised_rewards(credit, policy, reference, mask, coef=0.1)
        tensor([[-0.0500,  0.9500,  0.0000]])
    """
    require_same_shape(credit, logprobs=logprobs, mask=mask)
    penalised = credit - coef * kl_estimate(logprobs.detach(), ref_logprobs, kind="k1")
    return torch.where(mask, penalised, torch.zeros_like(penalised))
