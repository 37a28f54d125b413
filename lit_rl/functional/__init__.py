"""Pure math: tensors in, tensors out; imports torch and nothing else."""

from lit_rl.functional.advantages import (
    batch_advantages,
    degenerate_groups,
    exponential_baseline,
    group_advantages,
    max_rewards,
)
from lit_rl.functional.kl import adaptive_kl_coef, kl_estimate, kl_penalised_rewards
from lit_rl.functional.logprobs import (
    chunked_logprobs_and_entropy,
    completion_logprobs,
    completion_positions,
)
from lit_rl.functional.masking import (
    aggregate,
    loss_denominator,
    masked_mean,
    masked_moments,
    masked_whiten,
)
from lit_rl.functional.overlong import overlong_penalty
from lit_rl.functional.pass_at_k import pass_at_k
from lit_rl.functional.policy_losses import (
    cispo_loss,
    clipped_surrogate_loss,
    importance_sampling_loss,
    policy_gradient_loss,
    unclipped_loss,
)
from lit_rl.functional.preference_losses import implicit_rewards, preference_loss
from lit_rl.functional.ratios import approximate_kl, clip_fraction, importance_weights, log_ratio
from lit_rl.functional.returns import gae, reward_to_go, treat_truncation
from lit_rl.functional.turns import turn_gae
from lit_rl.functional.value_losses import clipped_value_loss, explained_variance

__all__ = [
    "adaptive_kl_coef",
    "aggregate",
    "approximate_kl",
    "batch_advantages",
    "chunked_logprobs_and_entropy",
    "cispo_loss",
    "clip_fraction",
    "clipped_surrogate_loss",
    "clipped_value_loss",
    "completion_logprobs",
    "completion_positions",
    "degenerate_groups",
    "explained_variance",
    "exponential_baseline",
    "gae",
    "group_advantages",
    "implicit_rewards",
    "importance_sampling_loss",
    "importance_weights",
    "kl_estimate",
    "kl_penalised_rewards",
    "log_ratio",
    "loss_denominator",
    "masked_mean",
    "masked_moments",
    "masked_whiten",
    "max_rewards",
    "overlong_penalty",
    "pass_at_k",
    "policy_gradient_loss",
    "preference_loss",
    "reward_to_go",
    "treat_truncation",
    "turn_gae",
    "unclipped_loss",
]
