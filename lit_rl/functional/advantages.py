"""How much better than its baseline a completion was, from one reward per completion.

Letters: B prompts, G completions per prompt (the group), N = B * G rows. ``valid`` is bool: False for
completions without a reward of their own (the sandbox failed, not the program), which leave the baseline
and get advantage 0. What stands in ``rewards`` there never matters, not even NaN.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from lit_rl.functional.masking import SumOverRanks, masked_moments
from lit_rl.functional.shapes import require_mask, shape_of, statistics_dtype

Scale = Literal["std", "none"]
Baseline = Literal["mean", "leave_one_out"]


def group_advantages(
    rewards: Tensor,
    valid: Tensor | None = None,
    *,
    scale_by: Scale = "std",
    baseline: Baseline = "mean",
    eps: float = 1e-6,
) -> Tensor:
    """Advantage of each completion over the other completions of its prompt.

        A[b, g] = (r[b, g] - baseline[b, g]) / (std_g r[b] + eps)

    The group is the baseline, so no critic is needed. A group whose valid rewards are all equal, or that has
    fewer than two, gets exact zeros: otherwise 1 / eps would magnify rounding in the mean.

    The lecture's ``centered_rewards`` is ``scale_by="none"``, its ``normalized_rewards`` is
    ``scale_by="std", eps=1e-5``.

    Args:
        rewards: [B, G], one reward per completion, row b holding the group of prompt b.
        valid: [B, G] bool; None: all of them.
        scale_by: ``std`` divides by the standard deviation of the group's valid rewards (n - 1), as GRPO
            does; ``none`` only centres, as Dr. GRPO does.
        baseline: ``mean`` of the valid group, or of the valid others (``leave_one_out``, RLOO), which is
            n / (n - 1) times as large. The standard deviation is the group's in both: one that leaves a
            row out can vanish and blow that row up.
        eps: added to the standard deviation. Reward units.

    Returns:
        [B, G] float32 (float64 for float64 rewards); each row sums to 0. Unitless if scaled, else reward
        units.

    Raises:
        ValueError: ``rewards`` is not [B, G] with G >= 2 (a group of one is its own baseline), or a valid
            reward is not finite.

    Source:
        GRPO: Shao et al. 2024, section 4.1.2, https://arxiv.org/abs/2402.03300
        Dr. GRPO: Liu et al. 2025, section 3.2, https://arxiv.org/abs/2503.20783
        RLOO: Ahmadian et al. 2024, https://arxiv.org/abs/2402.14740

    Example:
        >>> group_advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0]]), scale_by="none")
        tensor([[ 0.5000, -0.5000, -0.5000,  0.5000]])
    """
    valid = _checked(rewards, valid)
    wide = rewards.to(statistics_dtype(rewards))
    kept = torch.where(valid, wide, torch.zeros_like(wide))
    count = valid.sum(-1, keepdim=True)
    mean = kept.sum(-1, keepdim=True) / count.clamp(min=1)
    centred = torch.where(valid, kept - mean, torch.zeros_like(kept))
    std = (centred.square().sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    if baseline == "leave_one_out":
        # r_i - mean of the others, without subtracting two sums that almost cancel.
        centred = centred * count / (count - 1).clamp(min=1)
    advantages = centred / (std + eps) if scale_by == "std" else centred
    advantages = advantages.masked_fill(degenerate_groups(rewards, valid)[:, None], 0.0)
    return advantages.to(_result_dtype(rewards))


def degenerate_groups(rewards: Tensor, valid: Tensor | None = None) -> Tensor:
    """Which groups say nothing about better or worse: all valid rewards equal, or fewer than two of them.

    Equality of the numbers, never a small standard deviation: in float32 the latter is a matter of rounding.
    Give it the accuracy instead of the shaped reward to find groups to sample again.

    Args:
        rewards: [B, G], G >= 2.
        valid: [B, G] bool; None: all of them.

    Returns:
        [B] bool.

    Raises:
        ValueError: as :func:`group_advantages`.

    Example:
        >>> degenerate_groups(torch.tensor([[0.7, 0.7, 0.7], [0.0, 0.0, 1.0]]))
        tensor([ True, False])
    """
    valid = _checked(rewards, valid)
    wide = rewards.to(statistics_dtype(rewards))
    highest = wide.masked_fill(~valid, -torch.inf).amax(-1)
    lowest = wide.masked_fill(~valid, torch.inf).amin(-1)
    return highest <= lowest  # also true for -inf <= inf, where no reward is valid


def batch_advantages(
    rewards: Tensor,
    valid: Tensor | None = None,
    *,
    scale_by: Scale = "std",
    eps: float = 1e-6,
    sum_over_ranks: SumOverRanks | None = None,
) -> Tensor:
    """Advantage of each completion over the mean of the whole batch, all prompts and ranks together.

        A_i = (r_i - mean r) / (std r + eps)

    Simple, and blind to how hard a prompt is: an easy prompt's failure can stand above the baseline.

    Args:
        rewards: any shape, usually [N].
        valid: bool, shape of ``rewards``; None: all of them.
        scale_by: ``std`` (n - 1) or ``none``.
        eps: added to the standard deviation. Reward units.
        sum_over_ranks: as in :func:`lit_rl.functional.masking.masked_whiten`.

    Returns:
        Shape of ``rewards``, float32 or float64, 0 where invalid. Unitless if scaled, else reward units.

    Raises:
        ValueError: a valid reward is not finite, or shapes differ.

    Example:
        >>> batch_advantages(torch.tensor([1.0, 2.0, 3.0]), scale_by="none")
        tensor([-1.,  0.,  1.])
    """
    valid = _all_or_checked(rewards, valid)
    wide = rewards.to(statistics_dtype(rewards))
    mean, variance, _ = masked_moments(wide, valid, sum_over_ranks=sum_over_ranks)
    advantages = wide - mean
    if scale_by == "std":
        advantages = advantages / (variance.sqrt() + eps)
    return torch.where(valid, advantages, torch.zeros_like(advantages)).to(_result_dtype(rewards))


def max_rewards(rewards: Tensor, valid: Tensor | None = None) -> Tensor:
    """Rewards of the best completions of each group; 0 for all others.

        delta[b, g] = r[b, g] if r[b, g] = max_h r[b, h] else 0

    A filter, not a baseline: used as advantage, only the best completions are imitated. Ties all stay.

    Args:
        rewards: [B, G]. A view [1, N] takes the whole batch as one group.
        valid: [B, G] bool; None: all of them.

    Returns:
        [B, G] float32 or float64, reward units.

    Raises:
        ValueError: ``rewards`` is not [B, G], or a valid reward is not finite.

    Source:
        Stanford CS336 2025, lecture 17, ``compute_deltas``

    Example:
        >>> max_rewards(torch.tensor([[3.0, 5.0, 5.0, 1.0]]))
        tensor([[0., 5., 5., 0.]])
    """
    valid = _checked(rewards, valid, smallest_group=1)
    kept = rewards.to(_result_dtype(rewards))
    best = kept.masked_fill(~valid, -torch.inf).amax(-1, keepdim=True)
    return torch.where(valid & (kept == best), kept, torch.zeros_like(kept))


def exponential_baseline(baseline: float | None, mean_reward: float, *, decay: float) -> float:
    """One step of the moving average of rewards, the baseline of classic REINFORCE.

        b' = decay * b + (1 - decay) * mean_reward

    Take the advantages of a rollout over the baseline from *before* it; over one that already holds its
    rewards they would be biased.

    Args:
        baseline: b, reward units; None before the first rollout.
        mean_reward: mean reward of the rollout, over all ranks.
        decay: in [0, 1).

    Returns:
        b', which is ``mean_reward`` if there was no baseline.

    Raises:
        ValueError: ``decay`` is not in [0, 1).

    Source:
        reinforcement comparison in Williams 1992, https://doi.org/10.1007/BF00992696

    Example:
        >>> exponential_baseline(1.0, 3.0, decay=0.75)
        1.5
    """
    if not 0 <= decay < 1:
        raise ValueError(f"decay must lie in [0, 1), got {decay}")
    return mean_reward if baseline is None else decay * baseline + (1 - decay) * mean_reward


def _result_dtype(rewards: Tensor) -> torch.dtype:
    """Never narrower than float32: rewards may come as counts or half precision."""
    return torch.float64 if rewards.dtype == torch.float64 else torch.float32


def _checked(rewards: Tensor, valid: Tensor | None, *, smallest_group: int = 2) -> Tensor:
    if rewards.dim() != 2 or rewards.shape[1] < smallest_group:
        raise ValueError(
            f"rewards must be [B, G] with G >= {smallest_group}, got {shape_of(rewards)}; "
            "a group of one is its own baseline"
        )
    return _all_or_checked(rewards, valid)


def _all_or_checked(rewards: Tensor, valid: Tensor | None) -> Tensor:
    if valid is None:
        valid = torch.ones_like(rewards, dtype=torch.bool)
    require_mask(valid, rewards, name="valid")
    num_bad = int((valid & ~torch.isfinite(rewards)).sum())
    if num_bad:
        raise ValueError(
            f"{num_bad} of {int(valid.sum())} valid rewards are NaN or infinite; "
            "a completion without a reward belongs in valid as False"
        )
    return valid
