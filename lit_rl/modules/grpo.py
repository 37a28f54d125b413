"""GRPO: critic-free reinforcement learning; a problem's other completions are the baseline.

    1. sample G completions of each problem and run their programs          RolloutModule.collect
    2. advantage of a completion = its reward minus the group's mean,       make_experience, lit_rl/math/advantages.py
       by default divided by the group's standard deviation (n - 1) + 1e-6;
       only valid rows count, and the advantage is 0 if all rewards are equal
    3. minimise the clipped surrogate                                        objective.py, lit_rl/math/losses.py

Letters: B problems, G completions per problem, N = B * G rows, T completion tokens.
"""

from __future__ import annotations

from typing import Unpack

import torch

from lit_rl.errors import UsageError
from lit_rl.math.advantages import GroupMean, RowAdvantages, decoupled_advantages
from lit_rl.models.policy import Policy
from lit_rl.modules.rollout_module import RolloutModule, RolloutModuleOptions
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.term import RewardOutput, RewardTerm
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import sum_over_ranks
from lit_rl.types import Experience


class GRPOOptions(RolloutModuleOptions, total=False):
    """Arguments of :class:`GRPO` that an algorithm built on it passes on."""

    baseline: RowAdvantages
    decouple_terms: bool


class GRPO(RolloutModule):
    """Group Relative Policy Optimization on executed programs, and its relatives, which arguments select.

    Args:
        policy: the policy to train.
        rewards: reward terms.
        baseline: turns rewards into advantages; a class of :mod:`lit_rl.math.advantages` or your own: ``GroupMean``,
            whose ``normalize`` divides by the group's ``std`` (GRPO), the rollout's ``batch_std``, the group's ``mean``
            (MaxRL) or nothing (``none``, Dr. GRPO); ``LeaveOneOut`` (RLOO); ``BatchMean``; ``NoBaseline`` (the bare
            reward); or ``MaxRewards`` (only the largest rewards of a group).
        decouple_terms: compare each reward term on its own, then sum by weight (GDPO), so that a term with a large
            spread does not hide one with a small spread; see :func:`lit_rl.math.advantages.decoupled_advantages`.
        **options: arguments of :class:`~lit_rl.modules.rollout_module.RolloutModule`.

    Source:
        Shao et al. 2024, section 4.1, https://arxiv.org/abs/2402.03300
    """

    def __init__(
        self,
        policy: Policy,
        rewards: list[RewardTerm] | Composite,
        *,
        baseline: RowAdvantages = GroupMean(),  # noqa: B008  # has no state
        decouple_terms: bool = False,
        **options: Unpack[RolloutModuleOptions],
    ) -> None:
        super().__init__(policy, rewards, **options)
        self.baseline = baseline
        self.register_baseline(self.baseline, "baseline")
        self.decouple_terms = decouple_terms
        assert self.rewards is not None
        if self.objective.subtracts_kl_from_rewards and getattr(baseline, "normalize", "none") != "none":
            raise UsageError(
                "with objective.kl_in reward and a baseline that divides by the spread of rewards, any kl_coef has the "
                "same effect in groups of equal rewards: set kl_in to loss, or the baseline's normalize to none"
            )
        if decouple_terms and self.objective.subtracts_kl_from_rewards:
            raise UsageError("decouple_terms treats terms alone, but kl_in reward needs their sum: set kl_in to loss")

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        completions, valid = rollout.completions, rewards.valid
        mask = completions.completion_mask
        logprobs = token_rewards = None
        if self.objective.subtracts_kl_from_rewards:  # for all valid rows: which ones get an advantage is not known yet
            logprobs = self.logprobs_of(completions, valid)
            token_rewards = self.objective.token_rewards(rewards.credit, logprobs, mask & valid[:, None])
        totals = rewards.rewards if token_rewards is None else token_rewards.sum(-1)
        if self.decouple_terms:
            assert self.rewards is not None
            terms = [term for term in self.rewards.terms if term.weight]
            values = torch.stack([rewards.term_values[term.name] for term in terms], -1)
            weights, groups = values.new_tensor([term.weight for term in terms]), completions.group_ids
            of_rows = decoupled_advantages(values, weights, valid, groups, self.baseline, sum_over_ranks=sum_over_ranks)
        else:
            of_rows = self.baseline(totals, valid, completions.group_ids)
        advantages = of_rows[:, None] * mask
        # A cut row's program is judged as any other and stays in its group's baseline; only update.mask_truncated, off
        # by default, takes it out of the loss.
        row_mask = valid & ~completions.truncated if self.update.mask_truncated else valid
        if logprobs is None:
            logprobs = self.logprobs_of(completions, self.rows_to_train(row_mask, advantages))
        return Experience(
            completions=completions,
            rewards=rewards.rewards,
            row_mask=row_mask,
            advantages=advantages,
            old_logprobs=logprobs.old,
            ref_logprobs=logprobs.ref,
            token_rewards=token_rewards,
        )
