"""Reward terms, their composition, and the credit of each token; terms of one task are loaded when first used."""

from typing import TYPE_CHECKING

from lit_rl.lazy import load_when_used
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.graders import Grader, LocalGrader, ServerGrader
from lit_rl.rewards.lint import LintReward
from lit_rl.rewards.llm_judge import LLMJudgeReward
from lit_rl.rewards.penalties import FormatReward, LengthPenalty, OverlongPenalty
from lit_rl.rewards.program_tests import TestsReward
from lit_rl.rewards.similarity import BleuReward, DataflowReward
from lit_rl.rewards.syntax import SyntaxReward
from lit_rl.rewards.term import ALL_TEXT, RewardOutput, RewardTerm, Span, TermScore

if TYPE_CHECKING:
    from lit_rl.data.robots.robot_rewards import SimulatorReward
    from lit_rl.data.toys.toy_rewards import CorridorReward, SortingReward

__all__ = [
    "ALL_TEXT",
    "BleuReward",
    "Composite",
    "CorridorReward",
    "DataflowReward",
    "FormatReward",
    "Grader",
    "LLMJudgeReward",
    "LengthPenalty",
    "LintReward",
    "LocalGrader",
    "OverlongPenalty",
    "RewardOutput",
    "RewardTerm",
    "ServerGrader",
    "SimulatorReward",
    "SortingReward",
    "Span",
    "SyntaxReward",
    "TermScore",
    "TestsReward",
]

__getattr__, __dir__ = load_when_used(
    __name__,
    {
        "lit_rl.data.robots.robot_rewards": ("SimulatorReward",),
        "lit_rl.data.toys.toy_rewards": ("CorridorReward", "SortingReward"),
    },
)
