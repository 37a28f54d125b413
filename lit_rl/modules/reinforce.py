"""REINFORCE: the plain policy gradient, with or without a baseline.

    1. sample completions and run their programs                     RolloutModule.collect
    2. advantage of a token = discounted reward from it on - baseline     make_experience
    3. minimise -advantage * log-probability                         objective.py, ``loss: naive``

The deltas of the lecture on sorting (``rewards``, ``centered_rewards``, ``normalized_rewards``, ``max_rewards``)
take the place of step 2 where they are asked for by name.

Letters: B problems, G completions per problem, N = B * G rows, T completion tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Unpack

import torch
from torch import Tensor

from lit_rl.bounds import require_share
from lit_rl.functional.advantages import exponential_baseline, group_advantages, max_rewards
from lit_rl.functional.returns import reward_to_go
from lit_rl.models.policy import Policy
from lit_rl.modules.credit import Credit, place_rewards
from lit_rl.modules.objective import Objective
from lit_rl.modules.options import RolloutOptions
from lit_rl.modules.rollout_module import RolloutModule
from lit_rl.rewards.base import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import sum_over_ranks
from lit_rl.types import Experience, Sampling

Deltas = Literal["rewards", "centered_rewards", "normalized_rewards", "max_rewards"]


class REINFORCE(RolloutModule):
    """Vanilla policy gradient on executed programs.

    Args:
        policy: what is trained.
        sampling: how training samples.
        objective: the policy's loss; ``naive`` unless said otherwise. A KL to the reference is taken in the loss.
        baseline: taken off the reward-to-go: ``none``, ``mean`` (of the rollout's rewards, over all ranks) or
            ``exponential`` (a running mean of earlier rollouts' rewards; the first rollout has none).
        baseline_decay: of the exponential baseline, in [0, 1).
        gamma: discount per token.
        credit: ``terminal`` puts all of the reward on the last token, so that without a discount every token is
            credited with all of it; ``spans`` puts what has a place in the text on the token that decided it and the
            rest on the last token; ``tokens`` spreads it over the tokens of that place and the rest over the
            program, so that later tokens are credited with less of it.
        deltas: instead of reward-to-go and baseline, one number per completion: the bare ``rewards``,
            ``centered_rewards`` and ``normalized_rewards`` of a problem's completions, or ``max_rewards`` (rewards
            that are not the largest of their problem become 0).
        **options: see :class:`RolloutModule`.

    Source:
        Williams 1992, https://doi.org/10.1007/BF00992696
    """

    def __init__(
        self,
        policy: Policy,
        *,
        sampling: Sampling = Sampling(),  # noqa: B008  # frozen
        objective: Objective = Objective(loss="naive"),  # noqa: B008
        baseline: Literal["none", "mean", "exponential"] = "none",
        baseline_decay: float = 0.9,
        gamma: float = 1.0,
        credit: Credit = "terminal",
        deltas: Deltas | None = None,
        **options: Unpack[RolloutOptions],
    ) -> None:
        super().__init__(policy, sampling=sampling, objective=objective, **options)
        if objective.kl_coef and objective.kl_in == "reward":
            raise ValueError("REINFORCE takes the KL in the loss, got objective.kl_in=reward: set it to loss")
        if deltas is not None and baseline != "none":
            raise ValueError(
                f"deltas take the place of a baseline, got deltas={deltas} and baseline={baseline}: give one"
            )
        if deltas not in (None, "rewards") and sampling.num_samples < 2:
            raise ValueError(
                f"deltas {deltas} compare completions of one problem: num_samples must be 2 or more, got 1"
            )
        require_share(gamma=gamma, baseline_decay=baseline_decay)
        self.baseline = baseline
        self.baseline_decay = baseline_decay
        self.gamma = gamma
        self.credit: Credit = credit
        self.deltas = deltas
        self.running_baseline: float | None = None

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        """Advantages of the tokens; log-probabilities where the loss needs them."""
        completions, mask = rollout.completions, rollout.completions.completion_mask
        blank = torch.zeros_like(completions.sampler_logprobs)
        experience = Experience(completions, rewards.rewards, rewards.valid, advantages=blank)
        if self.deltas is not None:
            advantages = self.delta(rewards, completions.group_size or self.sampling.num_samples)[:, None] * mask
        else:
            token_rewards = place_rewards(rewards, mask, self.credit)
            to_go = reward_to_go(token_rewards, experience.loss_mask, gamma=self.gamma)
            advantages = (to_go - self.baseline_value(rewards)) * experience.loss_mask
        return self.with_logprobs(replace(experience, advantages=advantages))

    def delta(self, rewards: RewardOutput, group_size: int) -> Tensor:
        """[N] one number per completion, by its name in the lecture."""
        rewards_BG, valid_BG = rewards.rewards.view(-1, group_size), rewards.valid.view(-1, group_size)
        match self.deltas:
            case "centered_rewards":
                result = group_advantages(rewards_BG, valid_BG, scale_by="none")
            case "normalized_rewards":
                result = group_advantages(rewards_BG, valid_BG, scale_by="std", eps=1e-5)
            case "max_rewards":
                result = max_rewards(rewards_BG, valid_BG)
            case _:
                result = rewards_BG * valid_BG
        return result.reshape(-1)

    def baseline_value(self, rewards: RewardOutput) -> float:
        """What is taken off every reward-to-go."""
        if self.baseline == "none":
            return 0.0
        valid = rewards.valid
        total = sum_over_ranks(torch.stack([rewards.rewards[valid].sum(), valid.sum().to(rewards.rewards.dtype)]))
        mean = float(total[0] / total[1].clamp(min=1))
        if self.baseline == "mean":
            return mean
        before = self.running_baseline
        self.running_baseline = exponential_baseline(before, mean, decay=self.baseline_decay)
        return 0.0 if before is None else before

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The running baseline is state."""
        super().on_save_checkpoint(checkpoint)
        checkpoint["running_baseline"] = self.running_baseline

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on with it."""
        super().on_load_checkpoint(checkpoint)
        self.running_baseline = checkpoint["running_baseline"]
