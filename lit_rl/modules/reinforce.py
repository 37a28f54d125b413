"""REINFORCE: the plain policy gradient, with or without a baseline.

    1. sample completions and run their programs                     RolloutModule.collect
    2. advantage of a token = discounted reward from there on - baseline  make_experience
    3. minimise -advantage * log-probability                         lit_rl/math/losses.py, ``PolicyGradient``

The deltas of the lecture on sorting replace step 2 where they are given: ``NoBaseline()`` for its ``rewards``,
``GroupMean(normalize="none")`` for ``centered_rewards``, ``GroupMean(eps=1e-5)`` for ``normalized_rewards``, and
``MaxRewards()``.

Letters: B problems, G completions per problem, N = B * G rows, T completion tokens.
"""

from __future__ import annotations

from typing import Unpack

import torch

from lit_rl.errors import ArgumentError, UsageError
from lit_rl.math.advantages import Baseline, NoBaseline, RowAdvantages
from lit_rl.math.losses import PolicyGradient
from lit_rl.math.returns import reward_to_go
from lit_rl.models.policy import Policy
from lit_rl.modules.objective import Objective
from lit_rl.modules.rollout_module import RolloutModule, RolloutModuleBaseOptions
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.term import RewardOutput, RewardTerm
from lit_rl.rewards.token_credit import Credit, assign_credit
from lit_rl.rollout import Rollout
from lit_rl.signature_check import Share
from lit_rl.types import Experience, Sampling


class REINFORCE(RolloutModule):
    """Vanilla policy gradient on executed programs.

    Args:
        policy: the policy to train.
        rewards: reward terms.
        objective: the policy's loss; by default the plain policy gradient. A KL to the reference is added to the loss.
        baseline: subtracted from the reward-to-go: a :class:`lit_rl.math.advantages.Baseline` without normalization,
            such as ``BatchMean(normalize="none")``, which compares each completion with the mean of the rollout's other
            ones, over all ranks. A completion without others has advantage 0.
        gamma: discount per token.
        credit: ``terminal`` puts all reward on the last token, so that without a discount all of it reaches every
            token; ``spans`` puts reward with a source span on the token that decides it, and the rest on the last
            token; ``tokens`` spreads reward over the tokens of its span, and the rest over the program, so that less
            of it reaches later tokens.
        deltas: class of :mod:`lit_rl.math.advantages` that gives one advantage per completion, in place of reward-to-go
            minus baseline.
        sampling: sampling settings of training.
        **options: arguments of :class:`~lit_rl.modules.rollout_module.RolloutModule`.

    Source:
        Williams 1992, https://doi.org/10.1007/BF00992696
    """

    def __init__(
        self,
        policy: Policy,
        rewards: list[RewardTerm] | Composite,
        *,
        objective: Objective = Objective(loss=PolicyGradient()),  # noqa: B008  # frozen
        baseline: Baseline = NoBaseline(),  # noqa: B008  # has no state
        gamma: Share = 1.0,
        credit: Credit = "terminal",
        deltas: RowAdvantages | None = None,
        sampling: Sampling = Sampling(),  # noqa: B008
        **options: Unpack[RolloutModuleBaseOptions],
    ) -> None:
        super().__init__(policy, rewards, objective=objective, sampling=sampling, **options)
        if objective.kl_coef and objective.kl_in == "reward":
            raise ArgumentError("objective.kl_in", "loss, since REINFORCE has no KL in the reward", "reward")
        if deltas is not None and not isinstance(baseline, NoBaseline):
            raise UsageError(
                f"deltas replace the baseline, got deltas={type(deltas).__name__} and "
                f"baseline={type(baseline).__name__}: give one"
            )
        if baseline.normalize != "none":
            raise UsageError(
                f"REINFORCE does not normalize rewards-to-go, but its baseline {type(baseline).__name__} has "
                f"normalize={baseline.normalize}: set its normalize to none, or pass the "
                f"{type(baseline).__name__} as deltas, not as baseline"
            )
        self.register_baseline(*((baseline, "baseline") if deltas is None else (deltas, "deltas")))
        self.baseline = baseline
        self.deltas = deltas
        self.gamma = gamma
        self.credit: Credit = credit

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        completions, mask = rollout.completions, rollout.completions.completion_mask
        if self.deltas is not None:
            advantages = self.deltas(rewards.rewards, rewards.valid, completions.group_ids)[:, None] * mask
        else:
            token_rewards = assign_credit(rewards, mask, self.credit)
            counted = mask & rewards.valid[:, None]
            to_go = reward_to_go(token_rewards, counted, gamma=self.gamma)
            expected = self.baseline.checked_expected_scores(rewards.rewards, rewards.valid, completions.group_ids)
            above = to_go - expected.to(to_go.dtype)[:, None]
            advantages = torch.where(counted & ~above.isnan(), above, torch.zeros_like(above))
        row_mask = rewards.valid & ~completions.truncated if self.update.mask_truncated else rewards.valid
        logprobs = self.logprobs_of(completions, self.rows_to_train(row_mask, advantages))
        return Experience(
            completions=completions,
            rewards=rewards.rewards,
            row_mask=row_mask,
            advantages=advantages,
            old_logprobs=logprobs.old,
            ref_logprobs=logprobs.ref,
        )
