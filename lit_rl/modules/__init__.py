"""The algorithms as LightningModules."""

from lit_rl.modules.distillation import Distil, Distillation
from lit_rl.modules.dpo import DPO
from lit_rl.modules.grpo import GRPO
from lit_rl.modules.objective import Objective
from lit_rl.modules.policy_module import PolicyModule
from lit_rl.modules.ppo import PPO
from lit_rl.modules.reinforce import REINFORCE
from lit_rl.modules.rollout_module import RolloutModule
from lit_rl.modules.settings import CriticUpdate, Evaluate, Optimization, Update
from lit_rl.modules.sft import SFT
from lit_rl.modules.text_module import TextModule
from lit_rl.rollout import Collect

__all__ = [
    "DPO",
    "GRPO",
    "PPO",
    "REINFORCE",
    "SFT",
    "Collect",
    "CriticUpdate",
    "Distil",
    "Distillation",
    "Evaluate",
    "Objective",
    "Optimization",
    "PolicyModule",
    "RolloutModule",
    "TextModule",
    "Update",
]
