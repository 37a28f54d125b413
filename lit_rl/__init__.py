"""Lightning modules that teach code-writing language models by running what they write.

What a Python user types is here, loaded when it is first named: ``from lit_rl import GRPO, CausalLM, Sandbox``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lit_rl.callbacks import Board, Checkpointing, CompletionLog, ExecutionEvaluation, RunRecord, Screen
    from lit_rl.data import MBPP, Basics, DeepCoder, HumanEval, MBPPPlus, PreferencePairs, TaskDataModule
    from lit_rl.evaluation import Evaluation, evaluate
    from lit_rl.execution import AssertTests, CallTests, Sandbox, SandboxFusionClient, StdioTests, Verdict
    from lit_rl.models import CausalLM, LoRA, OwnTrunk, SharedBase
    from lit_rl.modules import DPO, GRPO, PPO, REINFORCE, SFT, Objective
    from lit_rl.rewards import FormatReward, LengthPenalty, RewardTerm, SyntaxReward, TestsReward
    from lit_rl.rollout import Attempt, Environment, Repair, SingleTurn
    from lit_rl.trainer import Trainer
    from lit_rl.types import Problem, Sampling

__version__ = "0.3.0"

_PLACES = {
    "lit_rl.callbacks": ("Board", "Checkpointing", "CompletionLog", "ExecutionEvaluation", "RunRecord", "Screen"),
    "lit_rl.data": ("MBPP", "Basics", "DeepCoder", "HumanEval", "MBPPPlus", "PreferencePairs", "TaskDataModule"),
    "lit_rl.evaluation": ("Evaluation", "evaluate"),
    "lit_rl.execution": ("AssertTests", "CallTests", "Sandbox", "SandboxFusionClient", "StdioTests", "Verdict"),
    "lit_rl.models": ("CausalLM", "LoRA", "OwnTrunk", "SharedBase"),
    "lit_rl.modules": ("DPO", "GRPO", "PPO", "REINFORCE", "SFT", "Objective"),
    "lit_rl.rewards": ("FormatReward", "LengthPenalty", "RewardTerm", "SyntaxReward", "TestsReward"),
    "lit_rl.rollout": ("Attempt", "Environment", "Repair", "SingleTurn"),
    "lit_rl.trainer": ("Trainer",),
    "lit_rl.types": ("Problem", "Sampling"),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}

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
    "Board",
    "CallTests",
    "CausalLM",
    "Checkpointing",
    "CompletionLog",
    "DeepCoder",
    "Environment",
    "Evaluation",
    "ExecutionEvaluation",
    "FormatReward",
    "HumanEval",
    "LengthPenalty",
    "LoRA",
    "MBPPPlus",
    "Objective",
    "OwnTrunk",
    "PreferencePairs",
    "Problem",
    "Repair",
    "RewardTerm",
    "RunRecord",
    "Sampling",
    "Sandbox",
    "SandboxFusionClient",
    "Screen",
    "SharedBase",
    "SingleTurn",
    "StdioTests",
    "SyntaxReward",
    "TaskDataModule",
    "TestsReward",
    "Trainer",
    "Verdict",
    "__version__",
    "evaluate",
]


def __getattr__(name: str) -> object:
    """Load a public name where it is defined; the sandbox alone then loads no torch."""
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'lit_rl' has no attribute {name!r}")
    found = getattr(import_module(_PLACE_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
