"""Pure math: tensors in, tensors out; imports torch and nothing else."""

from lit_rl.functional.kl import kl_estimate, kl_penalised_rewards
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
from lit_rl.functional.pass_at_k import pass_at_k
from lit_rl.functional.ratios import approximate_kl, importance_weights, log_ratio
from lit_rl.functional.returns import reward_to_go, treat_truncation

__all__ = [
    "aggregate",
    "approximate_kl",
    "chunked_logprobs_and_entropy",
    "completion_logprobs",
    "completion_positions",
    "importance_weights",
    "kl_estimate",
    "kl_penalised_rewards",
    "log_ratio",
    "loss_denominator",
    "masked_mean",
    "masked_moments",
    "masked_whiten",
    "pass_at_k",
    "reward_to_go",
    "treat_truncation",
]
