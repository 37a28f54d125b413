"""Policies, critics and how they are sharded; toy models are loaded when first used."""

from typing import TYPE_CHECKING

from lit_rl.lazy import load_when_used
from lit_rl.models.adapters import LoRA
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.critic import Critic, SeparateCritic, SharedCritic
from lit_rl.models.policy import Policy
from lit_rl.models.reference import FrozenScorer
from lit_rl.training.strategy import FSDP2Strategy

if TYPE_CHECKING:
    from lit_rl.data.toys.toy_models import CorridorCritic, CorridorPolicy, SortingPolicy

__all__ = [
    "CausalLM",
    "CorridorCritic",
    "CorridorPolicy",
    "Critic",
    "FSDP2Strategy",
    "FrozenScorer",
    "LoRA",
    "Policy",
    "SeparateCritic",
    "SharedCritic",
    "SortingPolicy",
]

__getattr__, __dir__ = load_when_used(
    __name__,
    {
        "lit_rl.data.toys.toy_models": ("CorridorCritic", "CorridorPolicy", "SortingPolicy"),
    },
)
