"""Policies, critics and how they are sharded."""

from lit_rl.models.adapters import LoRA
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.critic import Critic, OwnTrunk, SharedBase
from lit_rl.models.policy import Policy
from lit_rl.models.toy_models import CorridorCritic, CorridorPolicy, SortingPolicy
from lit_rl.training.strategy import FSDP2Strategy

__all__ = [
    "CausalLM",
    "CorridorCritic",
    "CorridorPolicy",
    "Critic",
    "FSDP2Strategy",
    "LoRA",
    "OwnTrunk",
    "Policy",
    "SharedBase",
    "SortingPolicy",
]
