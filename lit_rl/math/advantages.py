"""Advantages: how much more a completion or a token was worth than expected.

A kind of advantage is a class whose method is the formula. Row advantages compare the score of each completion with the
scores of its group or of the whole rollout; token advantages come from rewards and a critic's values.

Letters: N rows of one rank, B groups, G rows of the largest group, T completion tokens. A score is a row's reward or,
in GDPO, the value of one reward term. A row is not valid if it could not be judged (the sandbox failed, not the
program). Such a row leaves the baseline and gets advantage 0; its score never matters, even if it is NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from lit_rl.errors import ArgumentError, UsageError, short_repr
from lit_rl.math.masking import (
    SumOverRanks,
    dtype_at_least_float32,
    dtype_for_sums,
    from_table,
    group_size_per_row,
    masked_moments,
    to_table,
)
from lit_rl.signature_check import ArgumentChecks, NonNegativeFloat, Share

__all__ = [
    "GAE",
    "Baseline",
    "BatchMean",
    "GroupMean",
    "LeaveOneOut",
    "MaxRewards",
    "NoBaseline",
    "RowAdvantages",
    "TokenAdvantages",
    "decoupled_advantages",
]

Normalize = Literal["std", "batch_std", "mean", "none"]
"""Divisor of centred scores: the group's standard deviation (n - 1), the rollout's, the group's mean, or none."""


class RowAdvantages(ArgumentChecks, ABC):
    """One advantage per completion from one score per completion; a subclass implements :meth:`advantages`.

    Constructor arguments are what YAML gives under ``init_args``.
    """

    smallest_group: ClassVar[int] = 1
    """Smallest number of completions of one problem that can be compared. Rows of smaller groups get advantage 0."""

    sum_over_ranks: SumOverRanks = staticmethod(lambda local: local)
    """Function that sums a small tensor over all ranks, for formulas that look at the whole rollout; all ranks call it
    equally often. The module that uses this object sets it. Outside a run, the given rows are all rows."""

    @abstractmethod
    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """Advantages of a rollout. Called once per rollout, by all ranks together.

        Args:
            scores: [N] reward units, minus the KL if that is subtracted from the reward.
            valid: [N] bool; False for rows without a score of their own, whose advantage must be 0.
            group_ids: [N] int64; rows with the same number answer the same prompt. Rows of a group need not be
                adjacent, and groups may differ in size; :func:`lit_rl.math.masking.to_table` makes a table of the rows.

        Returns:
            [N] advantages.
        """

    def __call__(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """Return the checked result of :meth:`advantages`, with 0 for rows of groups that are too small."""
        num_bad = int((valid & ~torch.isfinite(scores)).sum())
        if num_bad:
            raise UsageError(
                f"{num_bad} of {int(valid.sum())} valid scores are NaN or infinite; "
                "set valid to False for a completion without a score"
            )
        result = self._require_value_per_row("advantages", self.advantages(scores, valid, group_ids), scores)
        too_small = group_size_per_row(group_ids) < self.smallest_group
        return result.masked_fill(too_small, 0.0) if self.smallest_group > 1 else result

    def _require_value_per_row(self, method: str, result: Tensor, scores: Tensor) -> Tensor:
        """Raise unless a method returned one number per row: a single number would silently be spread over all rows."""
        shape = getattr(result, "shape", None)
        if shape != scores.shape:
            got = short_repr(result) if shape is None else f"{tuple(shape)}"
            raise ArgumentError(
                f"{type(self).__name__}.{method}", f"a tensor of one number per row, {tuple(scores.shape)}", got
            )
        return result

    def require_enough_samples(self, num_samples: int, argument: str) -> None:
        """Raise unless a problem has enough completions to compare."""
        if num_samples < self.smallest_group:
            raise UsageError(
                f"{argument} {type(self).__name__} compares completions of one problem: num_samples must be "
                f"{self.smallest_group} or more, got {num_samples}"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint as plain data."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # most have no state
        """Restore what a checkpoint kept."""


class Baseline(RowAdvantages):
    """The expected reward of each completion; a subclass implements :meth:`expected`.

    ``GRPO`` subtracts it from a completion's reward, ``REINFORCE`` from each token's reward-to-go.
    """

    normalize: Normalize = "none"
    """Divisor of advantages after the baseline is subtracted."""

    @abstractmethod
    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """Return the expected scores [N], in reward units; the arguments are those of :meth:`advantages`.

        For ``REINFORCE`` a row's own score must not be part of its expected score: a reward-to-go that is discounted,
        or spread over tokens, may hold less of the score than the baseline does, which reverses the gradient. The
        result is NaN for a row that has nothing to be compared with.
        """

    def checked_expected_scores(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """Return the checked result [N] of :meth:`expected`."""
        return self._require_value_per_row("expected", self.expected(scores, valid, group_ids), scores).to(scores.dtype)

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        advantages = scores - self.checked_expected_scores(scores, valid, group_ids)
        return torch.where(valid & ~advantages.isnan(), advantages, torch.zeros_like(advantages))


class NoBaseline(Baseline):
    """Baseline of 0: the advantage is the bare score (``rewards`` in the lecture)."""

    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        return torch.zeros_like(scores)


@dataclass(eq=False)
class GroupMean(Baseline):
    """Mean reward of the completions of the same problem (GRPO), so that no critic is needed.

        A_i = (r_i - mean r) / (std r + eps)        over the valid rows of the group, std with n - 1

    With ``batch_std`` the standard deviation is that of all valid rows of the rollout, on all ranks: one divisor for
    all groups, so that a single pass or a single failure in a group is not magnified.

    With ``mean`` this is MaxRL, for rewards of at least 0: A_i = (r_i - mean r) / mean r, and 0 where no row of the
    group earned anything. For rewards of 0 and 1, MaxRL's expected gradient is that of log p, expanded to order n - 1
    in the failure rate: -sum over k < n of (1 - p)^k / k, with p the pass rate. Hard problems count more than in GRPO.

    A group whose valid scores are all equal, or that has fewer than two of these, gets exact zeros: otherwise 1 / eps
    would magnify rounding in the mean. The test is equality of the numbers, never a small standard deviation.

    The lecture's ``centered_rewards`` is ``normalize="none"``, its ``normalized_rewards`` is ``eps=1e-5``.

    Args:
        normalize: divide by the standard deviation of the group (``std``), of the rollout (``batch_std``), by the mean
            of the group (``mean``, MaxRL), or not (``none``, Dr. GRPO).
        eps: added to the standard deviation, reward units.

    Source:
        Shao et al. 2024, section 4.1.2, https://arxiv.org/abs/2402.03300
        not normalized: Liu et al. 2025, section 3.2, https://arxiv.org/abs/2503.20783
        batch_std: Liu et al. 2025 (Lite PPO), https://arxiv.org/abs/2508.08221
        mean: MaxRL, https://arxiv.org/abs/2602.02710

    Example:
        >>> scores, ids = torch.tensor([1.0, 0.0, 0.0, 1.0]), torch.tensor([7, 7, 7, 7])
        >>> GroupMean(normalize="none")(scores, torch.ones(4).bool(), ids)
        tensor([ 0.5000, -0.5000, -0.5000,  0.5000])
    """

    smallest_group: ClassVar[int] = 2
    leaves_one_out: ClassVar[bool] = False

    normalize: Normalize = "std"
    eps: NonNegativeFloat = 1e-6

    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """Return the mean score [N] of the other rows of each row's group."""
        above_others = LeaveOneOut(normalize="none").advantages(scores, valid, group_ids)
        counted = to_table(valid, group_ids, fill=False, columns=2)
        others = from_table(counted.sum(-1, keepdim=True) - counted.long(), group_ids)
        return torch.where(valid & (others > 0), scores - above_others, torch.nan)

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        rewards = to_table(scores.to(dtype_for_sums(scores)), group_ids, columns=2)  # [B, G]
        counted = to_table(valid, group_ids, fill=False, columns=2)
        count = counted.sum(-1, keepdim=True)
        kept = torch.where(counted, rewards, torch.zeros_like(rewards))
        mean = kept.sum(-1, keepdim=True) / count.clamp(min=1)
        centred = torch.where(counted, kept - mean, torch.zeros_like(kept))
        std = (centred.square().sum(-1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
        advantages = centred
        if self.leaves_one_out:  # as a factor: no two sums that almost cancel are subtracted
            advantages = centred * count / (count - 1).clamp(min=1)
        if self.normalize == "batch_std":
            std = masked_moments(scores, valid, sum_over_ranks=self.sum_over_ranks)[1].sqrt()
        if self.normalize == "mean":
            if (kept < 0).any():
                raise UsageError(
                    f"{type(self).__name__}(normalize='mean') needs rewards of at least 0, got a negative one"
                )
            advantages = advantages / torch.where(mean > 0, mean, 1.0)
        elif self.normalize != "none":
            advantages = advantages / (std + self.eps)
        highest = rewards.masked_fill(~counted, -torch.inf).amax(-1, keepdim=True)
        lowest = rewards.masked_fill(~counted, torch.inf).amin(-1, keepdim=True)
        says_nothing = highest <= lowest  # also -inf <= inf, where no row is valid
        return from_table(advantages.masked_fill(says_nothing, 0.0).to(dtype_at_least_float32(scores)), group_ids)


@dataclass(eq=False)
class LeaveOneOut(GroupMean):
    """Mean reward of the other completions of the same problem (RLOO with ``normalize: none``).

        A_i = r_i - mean of the others = n / (n - 1) * (r_i - mean r)

    The standard deviation is that of the whole group: without a row's own score the deviation could vanish, and the
    row's advantage would explode.

    Args:
        normalize: see :class:`GroupMean`.
        eps: added to the standard deviation, reward units.

    Source:
        Ahmadian et al. 2024, https://arxiv.org/abs/2402.14740

    Example:
        >>> scores, ids = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([7, 7, 7])
        >>> LeaveOneOut(normalize="none")(scores, torch.ones(3).bool(), ids)
        tensor([-3.0000, -1.5000,  4.5000])
    """

    leaves_one_out: ClassVar[bool] = True


class MaxRewards(RowAdvantages):
    """The largest scores of each group, and 0 for all others: a filter, not a baseline.

        A_i = r_i if r_i = max r else 0        max over the valid rows of the group; ties all stay

    Rewards must be at least 0: a negative one would make the best completion less likely than the others.

    Source:
        Stanford CS336 2025, lecture 17, ``compute_deltas``

    Example:
        >>> scores, ids = torch.tensor([3.0, 5.0, 5.0, 1.0]), torch.tensor([7, 7, 7, 7])
        >>> MaxRewards()(scores, torch.ones(4).bool(), ids)
        tensor([0., 5., 5., 0.])
    """

    smallest_group: ClassVar[int] = 2

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        if (scores[valid] < 0).any():
            raise UsageError("MaxRewards needs rewards of at least 0, got a negative one")
        table = to_table(
            scores.to(dtype_at_least_float32(scores)).masked_fill(~valid, -torch.inf), group_ids, fill=-torch.inf
        )
        is_best = table == table.amax(-1, keepdim=True)
        best = torch.where(is_best & table.isfinite(), table, torch.zeros_like(table))
        return from_table(best, group_ids)


def decoupled_advantages(
    values: Tensor,
    weights: Tensor,
    valid: Tensor,
    group_ids: Tensor,
    baseline: RowAdvantages,
    *,
    sum_over_ranks: SumOverRanks | None = None,
    eps: float = 1e-4,
) -> Tensor:
    """Return advantages from several reward terms, each compared on its own before all are summed (GDPO).

        A_ik = baseline over the values of term k        normalized within the group
        A_i  = sum_k w_k A_ik
        A_i  / (std A + eps)                             over all valid rows of the rollout and all ranks

    If the terms were summed first, rewards (1, 0) and (0, 1) would look equal within a group, and a term of small
    spread would be lost beside one of large spread. The paper also subtracts the rollout's mean, but that is 0, because
    the advantages of each group sum to 0.

    Args:
        values: [N, K] unweighted values of K terms.
        weights: [K] weights of the terms.
        valid: [N] bool.
        group_ids: [N] int64.
        baseline: compares one term's values; :class:`GroupMean` in the paper.
        sum_over_ranks: as in :func:`lit_rl.math.masking.masked_whiten`.
        eps: added to the standard deviation.

    Returns:
        [N] advantages, exactly 0 for rows of groups in which each term's values are all equal.

    Source:
        Liu et al. 2026, https://arxiv.org/abs/2601.05242

    Example:
        >>> values, ids = torch.tensor([[1.0, 0.0], [0.0, 0.2], [0.0, 0.1]]), torch.tensor([7, 7, 7])
        >>> decoupled_advantages(values, torch.ones(2), torch.ones(3).bool(), ids, GroupMean())
        tensor([ 0.2988,  0.8163, -1.1151])
    """
    by_term = [weight * baseline(of_term, valid, group_ids) for of_term, weight in zip(values.T, weights, strict=True)]
    advantages = torch.stack(by_term).sum(0)
    _, variance, _ = masked_moments(advantages, valid, sum_over_ranks=sum_over_ranks)
    return (advantages / (variance.sqrt() + eps)).to(advantages.dtype)


@dataclass(eq=False)
class BatchMean(Baseline):
    """Mean reward of all completions of all prompts and ranks.

        A_i = (r_i - mean r) / (std r + 1e-6)

    This baseline is simple, and blind to difficulty: success on an easy prompt counts as much as on a hard prompt.

    Args:
        normalize: divide by the standard deviation of all completions (``std``) or not (``none``).

    Example:
        >>> scores, ids = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([7, 4, 7])
        >>> BatchMean(normalize="none")(scores, torch.ones(3).bool(), ids)
        tensor([-1.,  0.,  1.])
    """

    normalize: Literal["std", "none"] = "std"

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        mean, variance, _ = masked_moments(scores, valid, sum_over_ranks=self.sum_over_ranks)
        advantages = scores.to(mean.dtype) - mean
        if self.normalize == "std":
            advantages = advantages / (variance.sqrt() + 1e-6)
        return torch.where(valid, advantages, torch.zeros_like(advantages)).to(dtype_at_least_float32(scores))

    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """Return the mean score [N] of all other rows."""
        mean, _, count = masked_moments(scores, valid, sum_over_ranks=self.sum_over_ranks)
        of_others = mean + (mean - scores) / (count - 1).clamp(min=1)
        return torch.where(valid & (count > 1), of_others, torch.nan)


class TokenAdvantages(ArgumentChecks, ABC):
    """Estimator of advantages and of the critic's targets; a subclass implements :meth:`estimate`.

    Constructor arguments are what YAML gives under ``init_args``.
    """

    whiten: bool = True
    """True if the module scales advantages to mean 0 and variance 1 over all tokens of all ranks, once per rollout."""

    @abstractmethod
    def estimate(
        self, token_rewards: Tensor, values: Tensor, mask: Tensor, bootstrap_values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Estimate advantages and returns; the module whitens the advantages after the returns were made from them.

        Args:
            token_rewards: [N, T] reward units, minus the KL if that is subtracted from the reward. No gradient.
            values: [N, T] the critic's value before each token, reward units. No gradient.
            mask: [N, T] bool, tokens of the policy; it has gaps between the policy's turns.
            bootstrap_values: [N] value after the last token, 0 where nothing follows; see
                :func:`lit_rl.math.returns.treat_truncation`.

        Returns:
            Advantages [N, T] and the critic's targets [N, T], reward units, 0 outside the mask.
        """


@dataclass(eq=False)
class GAE(TokenAdvantages):
    """Generalised advantage estimation over the policy's tokens.

        delta_t  = r_t + gamma * V_{next t} - V_t
        A_t      = delta_t + gamma * gae_lambda * A_{next t}
        return_t = A_t + V_t                             the A of critic_lambda

    After the last token of a completion, V is its bootstrap value. Tokens that the mask leaves out are stepped over.

    Args:
        gamma: discount per token; 1 for rewards that judge the whole program.
        gae_lambda: 1 trusts the rewards alone, 0 the next value. Below 1 a reward at the end of a completion hardly
            reaches its beginning: 0.95 ** 200 is 3.5e-5.
        critic_lambda: lambda of the critic's targets; ``None`` for ``gae_lambda``.
        whiten: scale advantages to mean 0 and variance 1 over all tokens of all ranks, once per rollout.

    Source:
        Schulman et al. 2016, eq. 16, https://arxiv.org/abs/1506.02438

    Example:
        >>> rewards, values = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
        >>> GAE(gae_lambda=1.0).estimate(rewards, values, torch.tensor([[True, True]]), torch.zeros(1))
        (tensor([[0.5000, 0.5000]]), tensor([[1., 1.]]))
    """

    gamma: Share = 1.0
    gae_lambda: Share = 1.0
    critic_lambda: Share | None = None
    whiten: bool = True

    def estimate(
        self, token_rewards: Tensor, values: Tensor, mask: Tensor, bootstrap_values: Tensor
    ) -> tuple[Tensor, Tensor]:
        rewards = torch.where(mask, token_rewards.detach(), torch.zeros_like(token_rewards))
        kept_values = torch.where(mask, values.detach(), torch.zeros_like(values))
        advantages = self._discounted_td_errors(rewards, kept_values, mask, bootstrap_values, self.gae_lambda)
        errors = advantages
        if self.critic_lambda is not None:
            errors = self._discounted_td_errors(rewards, kept_values, mask, bootstrap_values, self.critic_lambda)
        return advantages, errors + kept_values

    def _discounted_td_errors(
        self, rewards: Tensor, values: Tensor, mask: Tensor, bootstrap_values: Tensor, gae_lambda: float
    ) -> Tensor:
        """Return discounted sums [N, T] of the critic's errors."""
        next_value = bootstrap_values.detach().to(rewards.dtype)
        next_advantage = torch.zeros_like(next_value)
        # Rewards are float32 whatever the policy's dtype. The wider dtype is taken, or values would lose digits.
        advantages = torch.zeros_like(rewards, dtype=torch.promote_types(rewards.dtype, values.dtype))
        for t in reversed(range(rewards.shape[1])):
            here = mask[:, t]
            delta = rewards[:, t] + self.gamma * next_value - values[:, t]
            next_advantage = torch.where(here, delta + self.gamma * gae_lambda * next_advantage, next_advantage)
            next_value = torch.where(here, values[:, t], next_value)
            advantages[:, t] = next_advantage
        return torch.where(mask, advantages, torch.zeros_like(advantages))
