"""The algorithms as LightningModules."""

from typing import TYPE_CHECKING

from lit_rl.lazy import lazy_exports

if TYPE_CHECKING:
    from lit_rl.modules.distillation import Distillation as Distillation
    from lit_rl.modules.distillation import DistillationConfig as DistillationConfig
    from lit_rl.modules.dpo import DPO as DPO
    from lit_rl.modules.grpo import GRPO as GRPO
    from lit_rl.modules.objective import Objective as Objective
    from lit_rl.modules.policy_module import PolicyModule as PolicyModule
    from lit_rl.modules.ppo import PPO as PPO
    from lit_rl.modules.reinforce import REINFORCE as REINFORCE
    from lit_rl.modules.rollout_module import RolloutModule as RolloutModule
    from lit_rl.modules.settings import CriticConfig as CriticConfig
    from lit_rl.modules.settings import EvaluationConfig as EvaluationConfig
    from lit_rl.modules.settings import Optimization as Optimization
    from lit_rl.modules.settings import UpdateConfig as UpdateConfig
    from lit_rl.modules.sft import SFT as SFT
    from lit_rl.modules.text_module import TextModule as TextModule
    from lit_rl.rollout import RolloutConfig as RolloutConfig

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
