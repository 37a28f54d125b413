"""Policies, critics and how they are sharded."""

from lit_rl.lazy import lazy_exports
from lit_rl.models.adapters import LoRA as LoRA
from lit_rl.models.causal_lm import CausalLM as CausalLM
from lit_rl.models.critic import Critic as Critic
from lit_rl.models.critic import SeparateCritic as SeparateCritic
from lit_rl.models.critic import SharedCritic as SharedCritic
from lit_rl.models.policy import Policy as Policy
from lit_rl.models.reference import NoGradScorer as NoGradScorer
from lit_rl.training.strategy import FSDP2Strategy as FSDP2Strategy

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
