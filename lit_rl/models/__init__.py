"""Policies, critics and how they are sharded; toy models are loaded when first used."""

from typing import TYPE_CHECKING

from lit_rl.lazy import load_when_used
from lit_rl.models.adapters import LoRA as LoRA
from lit_rl.models.causal_lm import CausalLM as CausalLM
from lit_rl.models.critic import Critic as Critic
from lit_rl.models.critic import SeparateCritic as SeparateCritic
from lit_rl.models.critic import SharedCritic as SharedCritic
from lit_rl.models.policy import Policy as Policy
from lit_rl.models.reference import FrozenScorer as FrozenScorer
from lit_rl.training.strategy import FSDP2Strategy as FSDP2Strategy

if TYPE_CHECKING:
    from lit_rl.data.toys.toy_models import CorridorCritic as CorridorCritic
    from lit_rl.data.toys.toy_models import CorridorPolicy as CorridorPolicy
    from lit_rl.data.toys.toy_models import SortingPolicy as SortingPolicy

__getattr__, __dir__, __all__ = load_when_used(__name__, __file__)
