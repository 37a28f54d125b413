"""Losses of the policy, one class per file: what a token's log-probability and advantage cost."""

from lit_rl.losses.base import Loss, Tokens
from lit_rl.losses.cispo import CISPO
from lit_rl.losses.clipped import Clipped
from lit_rl.losses.correction import Correction, MaskedBand, SequenceMask, TruncatedWeights
from lit_rl.losses.importance_sampling import ImportanceSampling
from lit_rl.losses.policy_gradient import PolicyGradient
from lit_rl.losses.unclipped import Unclipped

__all__ = [
    "CISPO",
    "Clipped",
    "Correction",
    "ImportanceSampling",
    "Loss",
    "MaskedBand",
    "PolicyGradient",
    "SequenceMask",
    "Tokens",
    "TruncatedWeights",
    "Unclipped",
]
