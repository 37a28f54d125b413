"""Lightning modules that teach code-writing language models by running what they write.

The names that Python users need are here, each loaded at its first use: ``from lit_rl import GRPO, CausalLM``.
"""

from typing import TYPE_CHECKING

from lit_rl.lazy import lazy_exports
from lit_rl.training.threads import let_openmp_threads_sleep

if TYPE_CHECKING:
    from lit_rl.callbacks import Checkpointing as Checkpointing
    from lit_rl.callbacks import CompletionLog as CompletionLog
    from lit_rl.callbacks import Diagnostics as Diagnostics
    from lit_rl.callbacks import ExecutionEvaluation as ExecutionEvaluation
    from lit_rl.callbacks import RunRecord as RunRecord
    from lit_rl.data import MBPP as MBPP
    from lit_rl.data import Basics as Basics
    from lit_rl.data import DeepCoder as DeepCoder
    from lit_rl.data import HumanEval as HumanEval
    from lit_rl.data import MBPPPlus as MBPPPlus
    from lit_rl.data import PreferencePairs as PreferencePairs
    from lit_rl.data import TaskDataModule as TaskDataModule
    from lit_rl.evaluation import evaluate as evaluate
    from lit_rl.execution import AssertTests as AssertTests
    from lit_rl.execution import CallTests as CallTests
    from lit_rl.execution import Sandbox as Sandbox
    from lit_rl.execution import StdioTests as StdioTests
    from lit_rl.math.losses import Loss as Loss
    from lit_rl.models import CausalLM as CausalLM
    from lit_rl.models import LoRA as LoRA
    from lit_rl.models import SeparateCritic as SeparateCritic
    from lit_rl.models import SharedCritic as SharedCritic
    from lit_rl.modules import DPO as DPO
    from lit_rl.modules import GRPO as GRPO
    from lit_rl.modules import PPO as PPO
    from lit_rl.modules import REINFORCE as REINFORCE
    from lit_rl.modules import SFT as SFT
    from lit_rl.modules import CriticConfig as CriticConfig
    from lit_rl.modules import EvaluationConfig as EvaluationConfig
    from lit_rl.modules import Objective as Objective
    from lit_rl.modules import Optimization as Optimization
    from lit_rl.modules import RolloutConfig as RolloutConfig
    from lit_rl.modules import RolloutModule as RolloutModule
    from lit_rl.modules import UpdateConfig as UpdateConfig
    from lit_rl.rewards import FormatReward as FormatReward
    from lit_rl.rewards import LengthPenalty as LengthPenalty
    from lit_rl.rewards import RewardTerm as RewardTerm
    from lit_rl.rewards import SyntaxReward as SyntaxReward
    from lit_rl.rewards import TestsReward as TestsReward
    from lit_rl.rollout import Attempt as Attempt
    from lit_rl.rollout import Environment as Environment
    from lit_rl.rollout import Repair as Repair
    from lit_rl.trainer import Trainer as Trainer
    from lit_rl.types import Problem as Problem
    from lit_rl.types import Sampling as Sampling

__version__ = "1.0.0"

let_openmp_threads_sleep()  # before anything below this package loads torch

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
