"""Rules that name a likely cause when a run does not learn; the callback ``Diagnostics`` asks them.

A rule of your own is one class in one file, see :class:`Rule`.
"""

from lit_rl.reports.diagnosis.program_rules import (
    BrokenTests,
    FormatFalling,
    Infrastructure,
    StopStringCuts,
    TimedOut,
    Truncated,
)
from lit_rl.reports.diagnosis.reward_rules import FlatGroups, FlatReward, RewardCollapse, RewardHacking
from lit_rl.reports.diagnosis.rule import Diagnosis, Rule, ShareRule
from lit_rl.reports.diagnosis.run_history import RunHistory
from lit_rl.reports.diagnosis.update_rules import (
    EntropyCollapse,
    ExplodingKL,
    ExplodingLoss,
    FirstRatio,
    JumpingWeights,
    ReferenceDrifted,
    StaleEngine,
    StillWeights,
    UselessCritic,
)

RULES: tuple[type[Rule], ...] = (
    FlatReward,
    FlatGroups,
    RewardCollapse,
    RewardHacking,
    FormatFalling,
    Truncated,
    StopStringCuts,
    TimedOut,
    Infrastructure,
    BrokenTests,
    FirstRatio,
    StaleEngine,
    StillWeights,
    JumpingWeights,
    ExplodingLoss,
    ExplodingKL,
    EntropyCollapse,
    ReferenceDrifted,
    UselessCritic,
)
"""All that come with the package; the callback asks each, with its defaults, unless told otherwise."""

__all__ = [
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
    "Infrastructure",
    "JumpingWeights",
    "ReferenceDrifted",
    "RewardCollapse",
    "RewardHacking",
    "Rule",
    "RunHistory",
    "ShareRule",
    "StaleEngine",
    "StillWeights",
    "StopStringCuts",
    "TimedOut",
    "Truncated",
    "UselessCritic",
]
