"""Probability ratios of tokens and completions under the policy, and the metrics to monitor them.

Letters: N completions, T completion tokens. ``logprobs`` [N, T] are nats of the sampled tokens under the
policy being trained and carry the gradient; ``old_logprobs`` are those of the same tokens under the old policy, without
a gradient.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lit_rl.math.kl import LOG_RATIO_LIMIT, kl_estimate
from lit_rl.math.masking import masked_mean, require_same_shape

RatioLevel = Literal["token", "sequence", "sequence_product"]
"""Unit that a ratio is computed for; see :func:`log_ratio`."""


def log_ratio(
    logprobs: Tensor, old_logprobs: Tensor, *, level: RatioLevel = "token", mask: Tensor | None = None
) -> Tensor:
    """Return the log of the ratio policy / old policy for every token, clamped to +- 20 nats.

        token:             d_it = logprobs_it - old_logprobs_it
        sequence:          (1 / n_i) sum_t m_it d_it       GSPO; the same for all tokens of a row
        sequence_product:  sum_t m_it d_it                 the ratio of whole completions

    With ``sequence`` the gradient of entry t runs through token t alone (straight through): with one
    advantage per row this sums to GSPO's own gradient, and it allows advantages per token. With
    ``sequence_product`` every entry carries the gradient of the whole row, so reduce the losses with ``sequence_mean``,
    which makes one term per completion, or with ``sequence_sum`` if the ratio is only a weight without gradient (CISPO,
    importance sampling). A clamped entry has no gradient.

    Args:
        logprobs: [N, T] nats. Carries the gradient.
        old_logprobs: [N, T] nats. No gradient.
        level: see above.
        mask: [N, T] bool; required by both sequence levels.

    Returns:
        [N, T] nats.

    Source:
        sequence: Zheng et al. 2025, eq. 7 (ratio) and section 4.3 (token gradient), https://arxiv.org/abs/2507.18071

    Example:
        >>> new, old = torch.tensor([[0.5, 0.1]]), torch.zeros(1, 2)
        >>> mask = torch.tensor([[True, True]])
        >>> log_ratio(new, old), log_ratio(new, old, level="sequence", mask=mask)
        (tensor([[0.5000, 0.1000]]), tensor([[0.3000, 0.3000]]))
    """
    require_same_shape(logprobs, old_logprobs=old_logprobs)
    differences = logprobs - old_logprobs.detach()
    if level != "token":
        assert mask is not None
        require_same_shape(differences, mask=mask)
        kept = torch.where(mask, differences, torch.zeros_like(differences))
        total = kept.sum(-1, keepdim=True)
        if level == "sequence_product":
            differences = total.expand_as(differences)
        else:
            mean = total.detach() / mask.sum(-1, keepdim=True).clamp(min=1)
            differences = mean + (kept - kept.detach())
    return differences.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def importance_weights(
    logprobs: Tensor,
    sampler_logprobs: Tensor,
    *,
    cap: float | None = None,
    level: RatioLevel = "token",
    mask: Tensor | None = None,
) -> Tensor:
    """Return constant weights p / q that correct the sampler's tokens to the policy's distribution.

        w = min(exp(log_ratio(logprobs, sampler_logprobs)), cap)

    No gradient flows into the weight, and the returned weight is capped: the classic mistake is to compute a capped
    weight and then use the uncapped one.

    Args:
        logprobs: [N, T] nats, p: the policy of the training forward.
        sampler_logprobs: [N, T] nats, q: what the sampler itself reported.
        cap: largest weight, > 0; None: only the clamp of :func:`log_ratio`.
        level: one weight per token, or one per completion.
        mask: [N, T] bool for the sequence levels.

    Returns:
        [N, T] weights, unitless. No gradient.

    Source:
        truncation: Ionides 2008, https://doi.org/10.1198/106186008X320456

    Example:
        >>> policy, sampler = torch.tensor([[0.8, 0.2]]).log(), torch.tensor([[0.2, 0.4]]).log()
        >>> importance_weights(policy, sampler, cap=2.0)
        tensor([[2.0000, 0.5000]])
    """
    weights = log_ratio(logprobs.detach(), sampler_logprobs.detach(), level=level, mask=mask).exp()
    return weights if cap is None else weights.clamp(max=cap)


def approximate_kl(logprobs: Tensor, old_logprobs: Tensor, mask: Tensor) -> Tensor:
    """Return the mean KL(old policy || policy) per token, for logs and for stopping early; 0 if nothing moved.

        mean over tokens of r - 1 - log r,   r = exp(logprobs - old_logprobs)

    Args:
        logprobs: [N, T] nats.
        old_logprobs: [N, T] nats, of the old policy.
        mask: [N, T] bool.

    Returns:
        Scalar, nats per token, at least 0, without gradient.

    Source:
        k3 of Schulman 2020, http://joschu.net/blog/kl-approx.html, with the old policy as the sampler

    Example:
        >>> approximate_kl(torch.tensor([[0.1]]), torch.tensor([[0.0]]), torch.tensor([[True]]))
        tensor(0.0052)
    """
    return masked_mean(kl_estimate(old_logprobs.detach(), logprobs.detach(), kind="k3"), mask)
