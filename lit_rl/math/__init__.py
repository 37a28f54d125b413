"""Pure math: tensors in, tensors out; imports torch and nothing else."""

from lit_rl.math.kl import kl_estimate as kl_estimate
from lit_rl.math.kl import kl_penalised_rewards as kl_penalised_rewards
from lit_rl.math.logprobs import chunked_logprobs_and_entropy as chunked_logprobs_and_entropy
from lit_rl.math.logprobs import completion_logprobs as completion_logprobs
from lit_rl.math.logprobs import completion_positions as completion_positions
from lit_rl.math.masking import aggregate as aggregate
from lit_rl.math.masking import loss_denominator as loss_denominator
from lit_rl.math.masking import masked_mean as masked_mean
from lit_rl.math.masking import masked_moments as masked_moments
from lit_rl.math.masking import masked_whiten as masked_whiten
from lit_rl.math.pass_at_k import pass_at_k as pass_at_k
from lit_rl.math.ratios import approximate_kl as approximate_kl
from lit_rl.math.ratios import importance_weights as importance_weights
from lit_rl.math.ratios import log_ratio as log_ratio
from lit_rl.math.returns import reward_to_go as reward_to_go
from lit_rl.math.returns import treat_truncation as treat_truncation
