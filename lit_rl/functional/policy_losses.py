"""Policy losses per completion token; lower is better. Reduce them with ``aggregate``, which owns the mask.

Letters: N completions, T completion tokens. ``logprobs`` [N, T] (nats, of the sampled tokens) carry the
gradient; old log-probabilities and advantages are constants. An advantage is [N, T] or [N, 1].
"""

from __future__ import annotations

import torch
from torch import Tensor

from lit_rl.functional.ratios import BeyondCap, RatioLevel, importance_weights, log_ratio
from lit_rl.functional.shapes import require_advantages


def policy_gradient_loss(logprobs: Tensor, advantages: Tensor) -> Tensor:
    """Plain policy-gradient loss: imitate each token as much as it was worth (``naive`` in the lecture).

        loss = -A * logprobs

    On-policy its gradient is that of the expected reward. After the first update on the same samples it no longer
    is: use a loss with a ratio there.

    Args:
        logprobs: [N, T] nats. Carries the gradient.
        advantages: [N, T] or [N, 1]. No gradient.

    Returns:
        [N, T] loss per token.

    Raises:
        ValueError: shapes that do not fit, or ``advantages`` requires grad.

    Source:
        REINFORCE: Williams 1992, https://doi.org/10.1007/BF00992696

    Example:
        >>> policy_gradient_loss(torch.tensor([[-0.5, -2.0]]), torch.tensor([[2.0]]))
        tensor([[1., 4.]])
    """
    require_advantages(advantages, logprobs)
    return -advantages * logprobs


def unclipped_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    level: RatioLevel = "token",
    mask: Tensor | None = None,
) -> Tensor:
    """Ratio times advantage, without any clip (``unclipped`` in the lecture).

        loss = -ratio * A,   ratio = exp(log_ratio(logprobs, old_logprobs))

    The lecture divides log-probabilities where it says ratio; this is the ratio of probabilities.

    Args:
        logprobs: [N, T] nats. Carries the gradient.
        old_logprobs: [N, T] nats. No gradient.
        advantages: [N, T] or [N, 1]. No gradient.
        level: as in :func:`lit_rl.functional.ratios.log_ratio`.
        mask: [N, T] bool for the sequence levels.

    Returns:
        [N, T] loss per token, in units of the advantage.

    Raises:
        ValueError: shapes that do not fit, or a constant requires grad.

    Source:
        conservative policy iteration: Schulman et al. 2017, eq. 6, https://arxiv.org/abs/1707.06347

    Example:
        >>> unclipped_loss(torch.tensor([[0.5, 0.0]]), torch.zeros(1, 2), torch.ones(1, 1))
        tensor([[-1.6487, -1.0000]])
    """
    require_advantages(advantages, logprobs)
    return -log_ratio(logprobs, old_logprobs, level=level, mask=mask).exp() * advantages


def clipped_surrogate_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
    level: RatioLevel = "token",
    mask: Tensor | None = None,
) -> Tensor:
    """Clipped policy-gradient loss of every completion token, not yet masked or averaged.

        ratio = exp(log_ratio(logprobs, old_logprobs))
        loss  = -min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A)
        loss  = min(loss, -dual_clip * A)        where A < 0, with dual_clip

    The gradient of a token vanishes once its ratio has left the clip range in the direction its advantage
    pushes. With A < 0 a ratio far above 1 is not bounded by that; ``dual_clip`` does it (the two-sided clip).

    Args:
        logprobs: [N, T] nats. Carries the gradient.
        old_logprobs: [N, T] nats. No gradient.
        advantages: [N, T] or [N, 1]. No gradient.
        clip_low: distance of the lower bound from 1, in (0, 1].
        clip_high: distance of the upper bound from 1, > 0. Equal to ``clip_low`` in PPO, larger in DAPO.
        dual_clip: largest ratio that counts where A < 0, above 1 + ``clip_high``; None: no such bound.
        level: ``token`` (PPO, GRPO), ``sequence`` (GSPO) or ``sequence_product``; see
            :func:`lit_rl.functional.ratios.log_ratio`.
        mask: [N, T] bool for the sequence levels.

    Returns:
        [N, T] loss per token, in units of the advantage.

    Raises:
        ValueError: a constant requires grad, shapes that do not fit, or bounds out of range.

    Source:
        Schulman et al. 2017, eq. 7, https://arxiv.org/abs/1707.06347
        separate bounds: Yu et al. 2025, eq. 10, https://arxiv.org/abs/2503.14476
        dual clip: Ye et al. 2020, https://arxiv.org/abs/1912.09729
        sequence level: Zheng et al. 2025, eq. 5, https://arxiv.org/abs/2507.18071

    Example:
        >>> old = torch.zeros(1, 2)
        >>> new = torch.tensor([[0.5, 0.0]])  # ratios 1.65 and 1.00
        >>> clipped_surrogate_loss(new, old, torch.ones(1, 1), clip_low=0.2, clip_high=0.2)
        tensor([[-1.2000, -1.0000]])
    """
    require_advantages(advantages, logprobs)
    _require_bounds(clip_low, clip_high, dual_clip)
    ratio = log_ratio(logprobs, old_logprobs, level=level, mask=mask).exp()
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    objective = torch.minimum(ratio * advantages, clipped * advantages)
    if dual_clip is not None:
        bounded = torch.maximum(objective, dual_clip * advantages)
        objective = torch.where(advantages < 0, bounded, objective)
    return -objective


def cispo_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    *,
    clip_high: float,
    clip_low: float | None = None,
    level: RatioLevel = "token",
    mask: Tensor | None = None,
) -> Tensor:
    """Clip the importance weight, keep every token's gradient (CISPO).

        loss = -w * A * logprobs,   w = stop_gradient(clip(ratio, 1 - clip_low, 1 + clip_high))

    Unlike in the clipped surrogate no token loses its gradient: those that the update made likelier keep learning.

    Args:
        logprobs: [N, T] nats. Carries the gradient.
        old_logprobs: [N, T] nats. No gradient.
        advantages: [N, T] or [N, 1]. No gradient.
        clip_high: distance of the upper bound of the weight from 1, > 0.
        clip_low: distance of the lower bound from 1, in (0, 1]; None: no lower bound, as in the paper's runs.
        level: as in :func:`lit_rl.functional.ratios.log_ratio`.
        mask: [N, T] bool for the sequence levels.

    Returns:
        [N, T] loss per token.

    Raises:
        ValueError: a constant requires grad, shapes that do not fit, or bounds out of range.

    Source:
        MiniMax 2025, eq. 4 and 5, https://arxiv.org/abs/2506.13585

    Example:
        >>> new, old = torch.tensor([[-1.0]]), torch.tensor([[-2.0]])  # ratio 2.72, weight 1.2
        >>> cispo_loss(new, old, torch.ones(1, 1), clip_high=0.2)
        tensor([[1.2000]])
    """
    require_advantages(advantages, logprobs)
    _require_bounds(1.0 if clip_low is None else clip_low, clip_high, None)
    weights = log_ratio(logprobs.detach(), old_logprobs, level=level, mask=mask).exp()
    weights = weights.clamp(0.0 if clip_low is None else 1 - clip_low, 1 + clip_high)
    return -weights * advantages * logprobs


def importance_sampling_loss(
    logprobs: Tensor,
    sampler_logprobs: Tensor,
    advantages: Tensor,
    *,
    cap: float | None = None,
    beyond_cap: BeyondCap = "truncate",
    level: RatioLevel = "token",
    mask: Tensor | None = None,
) -> Tensor:
    """Policy gradient with plain importance weights p / q from the sampler's own log-probabilities.

        loss = -w * A * logprobs,   w = importance_weights(logprobs, sampler_logprobs)

    Without a cap its gradient is that of -(p / q) * A; its value is not.

    Args:
        logprobs: [N, T] nats, log p. Carries the gradient.
        sampler_logprobs: [N, T] nats, log q, at the sampler's temperature. No gradient.
        advantages: [N, T] or [N, 1]. No gradient.
        cap: largest weight; None: no cap.
        beyond_cap: ``truncate`` or ``mask``; see :func:`lit_rl.functional.ratios.importance_weights`.
        level: as in :func:`lit_rl.functional.ratios.log_ratio`.
        mask: [N, T] bool for the sequence levels.

    Returns:
        [N, T] loss per token.

    Raises:
        ValueError: ``advantages`` requires grad, shapes that do not fit, or ``cap`` <= 0.

    Example:
        >>> policy, sampler = torch.tensor([[0.5]]).log(), torch.tensor([[0.1]]).log()  # weight 5
        >>> importance_sampling_loss(policy, sampler, torch.ones(1, 1), cap=2.0)
        tensor([[1.3863]])
    """
    require_advantages(advantages, logprobs)
    weights = importance_weights(logprobs, sampler_logprobs, cap=cap, beyond_cap=beyond_cap, level=level, mask=mask)
    return -weights * advantages * logprobs


def _require_bounds(clip_low: float, clip_high: float, dual_clip: float | None) -> None:
    if not 0 < clip_low <= 1 or not clip_high > 0:
        raise ValueError(
            f"clip_low must lie in (0, 1] and clip_high be > 0 (distances from 1), got {clip_low} and {clip_high}"
        )
    if dual_clip is not None and not dual_clip > 1 + clip_high:
        raise ValueError(f"dual_clip must exceed 1 + clip_high = {1 + clip_high:g}, got {dual_clip}")
