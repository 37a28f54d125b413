"""Rules that name a likely cause when a run does not learn; ``Diagnostics`` and ``--smoke`` ask them.

A rule of your own is one class in one file, see :class:`Rule`.
"""

from lit_rl.reports.diagnosis.program_rules import (
    BrokenTests,
    FormatFalling,
    Infrastructure,
    NoPrograms,
    StopStringCuts,
    TimedOut,
    Truncated,
)
from lit_rl.reports.diagnosis.reward_rules import FlatGroups, FlatReward, NegativeWeight, RewardCollapse, RewardHacking
from lit_rl.reports.diagnosis.rule import LimitRule, Rule, ShareRule
from lit_rl.reports.diagnosis.run_history import RunHistory
from lit_rl.reports.diagnosis.update_rules import (
    EntropyCollapse,
    ExplodingKL,
    ExplodingLoss,
    FirstRatio,
    GrowingMemory,
    JumpingWeights,
    NotFinite,
    ReferenceDrifted,
    StaleEngine,
    StillWeights,
    StuckLoss,
    TeacherCollapse,
    UselessCritic,
    WeightDecay,
    WrongSign,
)
from lit_rl.reports.run_files import Diagnosis

RULES: tuple[type[Rule], ...] = (
    NotFinite,
    NegativeWeight,
    WrongSign,
    WeightDecay,
    StillWeights,
    JumpingWeights,
    FirstRatio,
    StaleEngine,
    Infrastructure,
    TimedOut,
    BrokenTests,
    StopStringCuts,
    RewardHacking,
    ExplodingLoss,
    ExplodingKL,
    ReferenceDrifted,
    UselessCritic,
    TeacherCollapse,
    RewardCollapse,
    EntropyCollapse,
    FlatReward,
    FlatGroups,
    FormatFalling,
    Truncated,
)
"""All that come with the package, causes before symptoms; the callback asks each unless told otherwise."""

CHECKS: dict[str, tuple[type[Rule], ...]] = {
    "programs run": (NoPrograms, Infrastructure, TimedOut),
    "rewards vary": (FlatReward, FlatGroups),
    "the first ratio is 1": (FirstRatio,),
    "the loss moves": (StuckLoss,),
    "the weights move": (StillWeights, JumpingWeights),
    "memory stays flat": (GrowingMemory,),
}
"""Checks of ``lit-rl fit --smoke``, and the rules that fail them."""

__all__ = [
    "CHECKS",
    "RULES",
    "BrokenTests",
    "Diagnosis",
    "EntropyCollapse",
    "ExplodingKL",
    "ExplodingLoss",
    "FirstRatio",
    "FlatGroups",
    "FlatReward",
    "FormatFalling",
    "GrowingMemory",
    "Infrastructure",
    "JumpingWeights",
    "LimitRule",
    "NegativeWeight",
    "NoPrograms",
    "NotFinite",
    "ReferenceDrifted",
    "RewardCollapse",
    "RewardHacking",
    "Rule",
    "RunHistory",
    "ShareRule",
    "StaleEngine",
    "StillWeights",
    "StopStringCuts",
    "StuckLoss",
    "TeacherCollapse",
    "TimedOut",
    "Truncated",
    "UselessCritic",
    "WeightDecay",
    "WrongSign",
]
