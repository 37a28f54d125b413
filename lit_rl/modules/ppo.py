"""PPO with a critic: every token gets its own advantage from what happened to the program.

    1. sample completions and run their programs                             RolloutModule.collect
    2. token reward = credit of the token - KL to the reference              make_experience
    3. values from the critic; advantages and returns by GAE                 make_experience
    4. whiten the advantages over all ranks, once                            make_experience
    5. minimise the clipped surrogate, and the critic's squared error        microbatch_losses

Differences from common practice: reward with a place in the text is put on the token that decided it, only the rest
on the last token (:mod:`lit_rl.rewards.token_credit`); policy and critic have their backward passes one after the other
and are clipped by norms of their own.

Letters: N completions, T completion tokens, n rows of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lit_rl.errors import UsageError
from lit_rl.math.advantages import GAE, TokenAdvantages
from lit_rl.math.masking import (
    SumOverRanks,
    aggregate,
    masked_mean,
    masked_moments,
    masked_whiten,
    require_same_shape,
)
from lit_rl.math.returns import Truncation, treat_truncation
from lit_rl.models.critic import Critic
from lit_rl.models.policy import Policy
from lit_rl.modules.minibatches import all_microbatches, equalize_microbatch_count
from lit_rl.modules.objective import Objective
from lit_rl.modules.rollout_module import Losses, RolloutModule, RolloutModuleBaseOptions
from lit_rl.modules.settings import CriticConfig
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.penalties import OverlongPenalty
from lit_rl.rewards.term import RewardOutput, RewardTerm
from lit_rl.rewards.token_credit import Credit, assign_credit, credit_decided_before_end
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import Means, sum_over_ranks
from lit_rl.training.strategy import allow_unused_parameters
from lit_rl.types import Completions, Experience, Problem, Sampling

MIN_CRITIC_RATE = 1e-5


class PPO(RolloutModule):
    """Proximal Policy Optimization with an execution reward and a critic.

    Args:
        policy: the policy to train.
        rewards: reward terms.
        critic: predicts the value of the state before each token.
        estimator: turns token rewards and values into advantages and critic's targets. With ``credit: terminal``,
            gamma and lambda 1 and no KL, the critic's target at every token is the reward, and the critic's loss is
            half the squared error.
        credit: ``spans`` puts reward with a source span on the token that decides it, and the rest on the last token;
            ``tokens`` spreads reward over the tokens of its span, and the rest over the program, which can
            make programs longer; ``terminal`` puts all reward on the last token.
        critic_update: how the critic learns.
        sampling: sampling settings of training; one completion per problem is enough.
        objective: the policy's loss. A KL is in the reward by default, so that the critic predicts it.
        **options: arguments of :class:`~lit_rl.modules.rollout_module.RolloutModule`.

    Source:
        Schulman et al. 2017, https://arxiv.org/abs/1707.06347
    """

    kl_in = "reward"

    def __init__(
        self,
        policy: Policy,
        rewards: list[RewardTerm] | Composite,
        critic: Critic,
        *,
        estimator: TokenAdvantages = GAE(),  # noqa: B008  # has no state
        credit: Credit = "spans",
        critic_update: CriticConfig = CriticConfig(),  # noqa: B008  # frozen
        sampling: Sampling = Sampling(num_samples=1),  # noqa: B008
        objective: Objective = Objective(),  # noqa: B008
        **options: Unpack[RolloutModuleBaseOptions],
    ) -> None:
        super().__init__(policy, rewards, sampling=sampling, objective=objective, **options)
        assert self.rewards is not None
        overlong = [term.name for term in self.rewards.terms if isinstance(term, OverlongPenalty) and term.weight]
        if critic_update.bootstrap_truncated and overlong:
            raise UsageError(
                f"critic_update.bootstrap_truncated replaces the reward of cut rows, {overlong[0]} included: use only "
                "one of the two"
            )
        self.critic = critic
        self.estimator = estimator
        self.credit: Credit = credit
        self.critic_update = critic_update

    # -- experience ----------------------------------------------------------------------------------------

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        completions, valid = rollout.completions, rewards.valid
        counted, truncated = completions.completion_mask & valid[:, None], completions.truncated
        logprobs = self.logprobs_of(completions, valid)  # every valid row teaches the critic, so every one has rewards
        values, tail_values = self.values_and_tail_values(completions)
        treatment: Truncation = "bootstrap" if self.critic_update.bootstrap_truncated else "zero"
        treatment = "mask" if self.update.mask_truncated else treatment
        credit = assign_credit(rewards, completions.completion_mask, self.credit)
        if treatment == "bootstrap":
            passed = [judgement.outcome.passed for judgement in rollout.judgements]
            truncated = truncated & ~torch.tensor(passed, device=truncated.device)
            open_end = credit_decided_before_end(rewards, completions.completion_mask, self.credit)
            credit = torch.where(truncated[:, None], open_end, credit)
        mask, bootstrap = treat_truncation(counted, truncated, tail_values, treatment=treatment)
        token_rewards = self.objective.token_rewards(credit, logprobs, mask)
        advantages, returns = self.estimator.estimate(token_rewards, values, mask, bootstrap)
        require_same_shape(mask, advantages=advantages, returns=returns)
        if self.estimator.whiten:
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

    def values_and_tail_values(self, completions: Completions) -> tuple[Tensor, Tensor]:
        """Return values [N, T] and tail values [N] of the dealt rows, read as in the updates but without gradients."""
        values = torch.zeros_like(completions.sampler_logprobs)
        tails = values.new_zeros(len(completions))
        for rows in equalize_microbatch_count(all_microbatches(self.dealt), values.device):
            part = completions.select(rows if len(rows) else [0]).trim()
            found, tail = self.critic(part)
            values, tails = values.to(found.dtype), tails.to(found.dtype)  # also on a rank without rows
            if len(rows):
                where = rows.to(values.device)
                values[where, : found.shape[1]] = found
                tails[where] = tail
        return values * completions.completion_mask, tails

    def rows_to_train(self, row_mask: Tensor, advantages: Tensor) -> Tensor:
        return row_mask

    # -- losses --------------------------------------------------------------------------------------------

    def microbatch_losses(self, micro: Experience, denominator: Tensor) -> Losses:
        if self.clock.count >= self.critic_update.warmup_rollouts:
            yield self.policy_loss(micro, denominator)
        assert micro.old_values is not None and micro.returns is not None
        settings, mask = self.critic_update, micro.loss_mask
        with self.critic.forward_backward_context():
            values, _ = self.critic(micro.completions)
            loss = clipped_value_loss(values, micro.old_values, micro.returns, value_clip=settings.value_clip)
            reduced = aggregate(loss, mask, mode=self.update.aggregate, denominator=denominator)
            yield settings.coef * reduced, {"critic/value_loss": masked_mean(loss.detach(), mask)}

    # -- what learns ---------------------------------------------------------------------------------------

    def load_models(self) -> None:
        super().load_models()
        self.critic.load(self.policy)

    def configure_model(self) -> None:
        super().configure_model()
        allow_unused_parameters(self.trainer.strategy)

    def trained_parameters_by_group(self) -> dict[str, list[nn.Parameter]]:
        """Return policy's and critic's parameters; the critic's adapter inside the policy's model is the critic's."""
        critic = self.critic.trained_parameters()
        of_critic = {id(parameter) for parameter in critic}
        policy = [p for p in self.policy.parameters() if p.requires_grad and id(p) not in of_critic]
        return {"policy": policy, "critic": critic}

    def set_group_learning_rates(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            if group.get("name") == "critic":
                group["lr"] = self.critic_update.learning_rate or max(group["lr"], MIN_CRITIC_RATE)

    def max_gradient_norm(self, group: str) -> float | None:
        return (self.critic_update if group == "critic" else self.update).gradient_clip_norm

    def algorithm_metrics(self, batch: Sequence[Problem], rollout: Rollout, experience: Experience) -> Means:
        values, returns = experience.old_values, experience.returns
        assert values is not None and returns is not None
        mask = experience.loss_mask
        means = Means()
        variance = explained_variance(values, returns, mask, sum_over_ranks=sum_over_ranks)
        means.add({"critic/explained_variance": variance})
        means.add_sum("critic/value_mean", values[mask].sum(), mask.sum())
        return means


def clipped_value_loss(values: Tensor, old_values: Tensor, returns: Tensor, *, value_clip: float | None) -> Tensor:
    """Return half the squared error of the critic, pessimistic about moves larger than ``value_clip``.

        near = old_values + clip(values - old_values, -value_clip, value_clip)
        loss = 1/2 max((values - returns)^2, (near - returns)^2)

    The gradient vanishes once a value has moved by ``value_clip`` towards its return. Without a clip this is half the
    squared error. Reduce this loss with :func:`lit_rl.math.masking.aggregate`, by the denominator of the whole update
    like the policy loss; the factor 1/2 is here, once.

    Args:
        values: [N, T] the critic's values, reward units. Carries the gradient.
        old_values: [N, T] the critic's values when the rollout was collected. No gradient.
        returns: [N, T] targets: advantages plus old values, or any other. No gradient.
        value_clip: largest useful move per rollout, > 0, **reward units**, not the ratio's; None: no clip.

    Returns:
        [N, T] loss per token, squared reward units.

    Source:
        detail 9 of Huang et al. 2022,
        https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/

    Example:
        >>> values, old, returns = torch.tensor([[0.9]]), torch.tensor([[0.5]]), torch.tensor([[1.0]])
        >>> clipped_value_loss(values, old, returns, value_clip=0.2)  # counts as 0.7: 1/2 * 0.3^2
        tensor([[0.0450]])
    """
    require_same_shape(values, old_values=old_values, returns=returns)
    old_values, returns = old_values.detach(), returns.detach()
    error = (values - returns).square()
    if value_clip is None:
        return 0.5 * error
    near = old_values + (values - old_values).clamp(-value_clip, value_clip)
    return 0.5 * torch.maximum(error, (near - returns).square())


def explained_variance(
    values: Tensor, returns: Tensor, mask: Tensor, *, sum_over_ranks: SumOverRanks | None = None
) -> Tensor:
    """Return the share of the variance of the returns that the critic's values explain.

        1 - Var(returns - values) / Var(returns)

    1 is perfect, 0 is as good as one constant, below 0 is worse. A constant offset costs nothing here.

    Args:
        values: [N, T] reward units.
        returns: [N, T] reward units.
        mask: [N, T] bool.
        sum_over_ranks: as in :func:`lit_rl.math.masking.masked_whiten`; called four times.

    Returns:
        Scalar, at most 1, without gradient; 0 where the returns do not vary and nothing can be explained.

    Source:
        detail 12 of Huang et al. 2022,
        https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/

    Example:
        >>> returns = torch.tensor([[0.0, 2.0, 4.0]])
        >>> explained_variance(returns / 2, returns, torch.tensor([[True, True, True]]))
        tensor(0.7500)
    """
    errors = returns.detach() - values.detach()
    _, unexplained, _ = masked_moments(errors, mask, sum_over_ranks=sum_over_ranks)
    mean, variance, _ = masked_moments(returns.detach(), mask, sum_over_ranks=sum_over_ranks)
    varies = variance > (8 * torch.finfo(mean.dtype).eps * mean) ** 2  # more than the mean's rounding
    share = 1.0 - unexplained / torch.where(varies, variance, torch.ones_like(variance))
    return torch.where(varies, share, torch.zeros_like(share)).to(values.dtype)
