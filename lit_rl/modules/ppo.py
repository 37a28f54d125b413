"""PPO with a critic: every token gets its own advantage from what happened to the program.

    1. sample completions and run their programs                             RolloutModule.collect
    2. token reward = credit of the token - KL to the reference              make_experience
    3. values from the critic; advantages and returns by GAE                 make_experience
    4. whiten the advantages over all ranks, once                            make_experience
    5. minimise the clipped surrogate, and the critic's squared error        minibatch_losses

Differences from common practice: reward with a place in the text is put on the token that decided it, only the rest
on the last token (:mod:`lit_rl.modules.credit`); policy and critic go backward one after the other and are clipped by
norms of their own.

Letters: N completions, T completion tokens, n rows of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from lit_rl.advantages import GAE, TokenAdvantages
from lit_rl.bounds import require_above, require_at_least
from lit_rl.functional.kl import adaptive_kl_coef
from lit_rl.functional.masking import aggregate, masked_whiten
from lit_rl.functional.returns import Truncation, treat_truncation
from lit_rl.functional.value_losses import clipped_value_loss, explained_variance
from lit_rl.kinds import require_kind
from lit_rl.models.critic import Critic
from lit_rl.models.policy import Policy
from lit_rl.modules.credit import Credit, place_rewards
from lit_rl.modules.logprobs_module import Logprobs
from lit_rl.modules.objective import Objective
from lit_rl.modules.options import RolloutOptions
from lit_rl.modules.rollout_module import Losses, RolloutModule
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import Means, sum_over_ranks
from lit_rl.training.strategy import allow_unused_parameters
from lit_rl.types import Completions, Experience, Problem, Sampling


class PPO(RolloutModule):
    """Proximal Policy Optimization with an execution reward and a critic.

    Args:
        policy: the policy to train.
        critic: predicts the value of its states.
        sampling: how training samples; one completion per problem is enough.
        objective: the policy's loss. ``kl_in`` is ``reward`` here: KL is part of what the critic predicts.
        credit: ``spans`` puts what has a place in the text on the token that decided it and the rest on the last
            token; ``tokens`` spreads it over the tokens of that place and the rest over the program, which can
            make programs longer; ``terminal`` puts all of it on the last token.
        gamma: discount per token.
        gae_lambda: 1 trusts the rewards alone, 0 the next value. With ``credit: terminal``, gamma and lambda 1
            and no KL the critic's target is the reward itself at every token, and its loss plain ½ · MSE to it.
        estimator: instead of GAE with these two, a :class:`lit_rl.advantages.TokenAdvantages`.
        value_clip: largest move of a value per rollout, reward units; ``None`` for plain squared error.
        value_coef: weight of the critic's loss.
        critic_lr: learning rate of the critic; ``None`` for the policy's.
        critic_gradient_clip_norm: largest norm of the critic's gradient.
        whiten_advantages: mean 0 and variance 1 over all tokens of all ranks, once per rollout.
        critic_warmup_rollouts: for this many rollouts only the critic learns; the policy does not move.
        truncation: completions cut by the token limit: ``bootstrap`` from the critic, ``zero`` after them, or
            ``mask`` them out.
        target_kl: move ``kl_coef`` so that the KL to the reference stays near this (nats per completion).
        kl_horizon: completions over which it moves.
        **options: see :class:`RolloutModule`.

    Source:
        Schulman et al. 2017, https://arxiv.org/abs/1707.06347
        adaptive KL coefficient: Ziegler et al. 2019, section 2.2, https://arxiv.org/abs/1909.08593
    """

    def __init__(
        self,
        policy: Policy,
        *,
        critic: Critic,
        sampling: Sampling = Sampling(num_samples=1),  # noqa: B008  # frozen
        objective: Objective = Objective(kl_in="reward", kl_kind="k1"),  # noqa: B008
        credit: Credit = "spans",
        gamma: float = 1.0,
        gae_lambda: float = 0.95,
        estimator: TokenAdvantages | None = None,
        value_clip: float | None = None,
        value_coef: float = 1.0,
        critic_lr: float | None = None,
        critic_gradient_clip_norm: float | None = 1.0,
        whiten_advantages: bool = True,
        critic_warmup_rollouts: int = 0,
        truncation: Truncation = "zero",
        target_kl: float | None = None,
        kl_horizon: int = 10000,
        **options: Unpack[RolloutOptions],
    ) -> None:
        super().__init__(policy, sampling=sampling, objective=objective, **options)
        require_kind(Critic, "OwnTrunk()", critic=critic)
        if target_kl is not None and not (objective.kl_coef and objective.kl_in == "reward"):
            raise ValueError(
                f"target_kl moves the KL coefficient of the reward, got kl_coef={objective.kl_coef} in the "
                f"{objective.kl_in}: set objective.kl_coef above 0 and objective.kl_in to reward"
            )
        if estimator is not None and (gamma, gae_lambda) != (1.0, 0.95):
            raise ValueError(
                f"gamma={gamma} and gae_lambda={gae_lambda} go with GAE, got them beside the estimator "
                f"{type(estimator).__name__}: give the class what it takes, under its init_args"
            )
        self.estimator = estimator or GAE(gamma, gae_lambda)
        require_above(0, value_clip=value_clip, value_coef=value_coef, critic_lr=critic_lr, target_kl=target_kl)
        require_above(0, critic_gradient_clip_norm=critic_gradient_clip_norm)
        require_at_least(0, critic_warmup_rollouts=critic_warmup_rollouts)
        require_at_least(1, kl_horizon=kl_horizon)
        self.critic = critic
        self.num_targets: Tensor | None = None  # of the update at hand, where it is not the number of tokens
        self.credit: Credit = credit
        self.value_clip, self.value_coef = value_clip, value_coef
        self.critic_lr = critic_lr
        self.critic_gradient_clip_norm = critic_gradient_clip_norm
        self.whiten_advantages = whiten_advantages
        self.critic_warmup_rollouts = critic_warmup_rollouts
        self.truncation: Truncation = truncation
        self.target_kl, self.kl_horizon = target_kl, kl_horizon
        self.kl_coef = objective.kl_coef

    # -- experience ----------------------------------------------------------------------------------------

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        """Token rewards, values, advantages and returns."""
        completions, valid = rollout.completions, rewards.valid
        counted = completions.completion_mask & valid[:, None]
        logprobs = self.logprobs_of(completions, valid)  # every valid row teaches the critic, so every one has rewards
        values, tail_values = self.values(completions)
        mask, bootstrap = treat_truncation(counted, completions.truncated, tail_values, treatment=self.truncation)
        credit = place_rewards(rewards, completions.completion_mask, self.credit)
        token_rewards = self.objective.penalised(credit, *logprobs, mask, self.kl_coef)
        if self.target_kl is not None:
            self.adapt_kl(logprobs, mask)
        advantages, returns = self.estimator.estimate(token_rewards, values, mask, bootstrap)
        if self.whiten_advantages:
            advantages = masked_whiten(advantages, mask, sum_over_ranks=sum_over_ranks)
        return Experience(
            completions=completions,
            rewards=rewards.rewards,
            row_mask=mask.any(-1),
            advantages=advantages,
            old_logprobs=logprobs.old,
            ref_logprobs=logprobs.ref,
            token_rewards=token_rewards,
            old_values=values,
            returns=returns,
        )

    def adapt_kl(self, logprobs: Logprobs, mask: Tensor) -> None:
        """Move the KL coefficient towards the target, the same on all ranks."""
        assert logprobs.old is not None and logprobs.ref is not None and self.target_kl is not None
        kl = ((logprobs.old - logprobs.ref) * mask).sum()
        total = sum_over_ranks(torch.stack([kl, mask.any(-1).sum().to(kl.dtype)]))
        self.kl_coef = adaptive_kl_coef(
            self.kl_coef,
            float(total[0] / total[1].clamp(min=1)),
            target_kl=self.target_kl,
            num_completions=int(total[1]),
            horizon_completions=self.kl_horizon,
        )

    def values(self, completions: Completions) -> tuple[Tensor, Tensor]:
        """Values [N, T] and tail values [N] of all rows, computed in pieces without gradients."""
        values = torch.zeros_like(completions.sampler_logprobs)
        tails = values.new_zeros(len(completions))
        for piece in self.pieces(completions, torch.arange(len(completions))):
            part = completions.select(piece if len(piece) else [0]).trim()
            found, tail = self.critic(part)
            values, tails = values.to(found.dtype), tails.to(found.dtype)  # the same on a rank without rows
            if len(piece):
                where = piece.to(values.device)
                values[where, : found.shape[1]] = found
                tails[where] = tail
        return values * completions.completion_mask, tails

    def rows_to_train(self, row_mask: Tensor, advantages: Tensor) -> Tensor:
        """[N] bool: every valid row teaches the critic."""
        return row_mask

    # -- losses --------------------------------------------------------------------------------------------

    def minibatch_losses(self, micro: Experience, denominator: Tensor) -> Losses:
        """The policy's loss (not while the critic warms up), then the critic's."""
        if self.rollout_step >= self.critic_warmup_rollouts:
            yield self.policy_loss(micro, denominator)
        with self.critic.active():
            yield self.value_loss(micro, denominator)

    def denominator(self, minibatch: Experience) -> Tensor:
        """The policy loss's denominator; the critic's differs where it has fewer targets than the policy has tokens."""
        mask = minibatch.loss_mask
        targets = self.estimator.targets(mask)
        self.num_targets = None if targets is mask else self.count(targets)
        return super().denominator(minibatch)

    def value_loss(self, micro: Experience, denominator: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Squared error of the critic, divided by the number of its targets."""
        assert micro.old_values is not None and micro.returns is not None
        values, _ = self.critic(micro.completions)
        loss = clipped_value_loss(values, micro.old_values, micro.returns, value_clip=self.value_clip)
        mask = self.estimator.targets(micro.loss_mask)
        metrics = {"critic/value_loss": (loss.detach() * mask).sum() / mask.sum().clamp(min=1)}
        denominator = denominator if self.num_targets is None else self.num_targets
        reduced = aggregate(loss, mask, mode=self.aggregate, denominator=denominator)
        return self.value_coef * reduced, metrics

    # -- what learns ---------------------------------------------------------------------------------------

    def load_weights(self) -> None:
        """Load the policy, then the critic, which may share its weights."""
        super().load_weights()
        self.critic.load(self.policy)

    def configure_model(self) -> None:
        """Load policy and critic."""
        super().configure_model()
        allow_unused_parameters(self.trainer.strategy)

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Policy and critic; an adapter of the critic inside the policy's model is the critic's."""
        critic = self.critic.trained_parameters()
        of_critic = {id(parameter) for parameter in critic}
        policy = [p for p in self.policy.parameters() if p.requires_grad and id(p) not in of_critic]
        return {"policy": policy, "critic": critic}

    def group_learning_rates(self) -> dict[str, float]:
        """The critic may learn at its own rate."""
        return {} if self.critic_lr is None else {"critic": self.critic_lr}

    def clip_norm(self, group: str) -> float | None:
        """Policy and critic are clipped separately."""
        return self.critic_gradient_clip_norm if group == "critic" else self.gradient_clip_norm

    def algorithm_metrics(self, batch: Sequence[Problem], rollout: Rollout, experience: Experience) -> Means:
        """Log the critic's values and the KL coefficient."""
        values, returns = experience.old_values, experience.returns
        assert values is not None and returns is not None
        mask = self.estimator.targets(experience.loss_mask)
        means = Means()
        variance = explained_variance(values, returns, mask, sum_over_ranks=sum_over_ranks)
        means.add({"critic/explained_variance": variance})
        means.add_sum("critic/value_mean", values[mask].sum(), mask.sum())
        if self.objective.kl_coef:
            means.add({"policy/kl_coef": self.kl_coef})
        return means

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The KL coefficient moves, so it is state."""
        super().on_save_checkpoint(checkpoint)
        checkpoint["kl_coef"] = self.kl_coef

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore it."""
        super().on_load_checkpoint(checkpoint)
        self.kl_coef = checkpoint["kl_coef"]
