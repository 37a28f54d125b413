"""Lightning modules that teach code-writing language models by running what they write.

What a Python user types is here, loaded when it is first named: ``from lit_rl import GRPO, CausalLM, Sandbox``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lit_rl.lazy import load_when_used
from lit_rl.training.threads import wait_passively

if TYPE_CHECKING:
    from lit_rl.callbacks import Checkpointing, CompletionLog, Diagnostics, ExecutionEvaluation, RunRecord
    from lit_rl.data import MBPP, Basics, DeepCoder, HumanEval, MBPPPlus, PreferencePairs, TaskDataModule
    from lit_rl.evaluation import evaluate
    from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests
    from lit_rl.losses import Loss
    from lit_rl.models import CausalLM, LoRA, SeparateCritic, SharedCritic
    from lit_rl.modules import (
        DPO,
        GRPO,
        PPO,
        REINFORCE,
        SFT,
        Collect,
        CriticUpdate,
        Evaluate,
        Objective,
        Optimization,
        RolloutModule,
        Update,
    )
    from lit_rl.rewards import FormatReward, LengthPenalty, RewardTerm, SyntaxReward, TestsReward
    from lit_rl.rollout import Attempt, Environment, Repair
    from lit_rl.trainer import Trainer
    from lit_rl.types import Problem, Sampling

__version__ = "0.4.0"

wait_passively()  # before anything below this package loads torch

_PLACES = {
    "lit_rl.callbacks": ("Checkpointing", "CompletionLog", "Diagnostics", "ExecutionEvaluation", "RunRecord"),
    "lit_rl.data": ("MBPP", "Basics", "DeepCoder", "HumanEval", "MBPPPlus", "PreferencePairs", "TaskDataModule"),
    "lit_rl.evaluation": ("evaluate",),
    "lit_rl.execution": ("AssertTests", "CallTests", "Sandbox", "StdioTests"),
    "lit_rl.models": ("CausalLM", "LoRA", "SeparateCritic", "SharedCritic"),
    "lit_rl.losses": ("Loss",),
    "lit_rl.modules": (
        "DPO",
        "GRPO",
        "PPO",
        "REINFORCE",
        "SFT",
        "Collect",
        "CriticUpdate",
        "Evaluate",
        "Objective",
        "Optimization",
        "RolloutModule",
        "Update",
    ),
    "lit_rl.rewards": ("FormatReward", "LengthPenalty", "RewardTerm", "SyntaxReward", "TestsReward"),
    "lit_rl.rollout": ("Attempt", "Environment", "Repair"),
    "lit_rl.trainer": ("Trainer",),
    "lit_rl.types": ("Problem", "Sampling"),
}

__all__ = [
    "DPO",
    "GRPO",
    "MBPP",
    "PPO",
    "REINFORCE",
    "SFT",
    "AssertTests",
    "Attempt",
    "Basics",
    "CallTests",
    "CausalLM",
    "Checkpointing",
    "Collect",
    "CompletionLog",
    "CriticUpdate",
    "DeepCoder",
    "Diagnostics",
    "Environment",
    "Evaluate",
    "ExecutionEvaluation",
    "FormatReward",
    "HumanEval",
    "LengthPenalty",
    "LoRA",
    "Loss",
    "MBPPPlus",
    "Objective",
    "Optimization",
    "PreferencePairs",
    "Problem",
    "Repair",
    "RewardTerm",
    "RolloutModule",
    "RunRecord",
    "Sampling",
    "Sandbox",
    "SeparateCritic",
    "SharedCritic",
    "StdioTests",
    "SyntaxReward",
    "TaskDataModule",
    "TestsReward",
    "Trainer",
    "Update",
    "__version__",
    "evaluate",
]

__getattr__, __dir__ = load_when_used(__name__, _PLACES)
