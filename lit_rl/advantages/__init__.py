"""Advantages: what a completion, or a token, was worth beyond what was expected of it."""

from lit_rl.advantages.base import Baseline, RowAdvantages
from lit_rl.advantages.batch import BatchMean, NoBaseline, RunningMean
from lit_rl.advantages.group import GroupMean, LeaveOneOut, MaxRewards
from lit_rl.advantages.tokens import GAE, TokenAdvantages, TurnGAE

__all__ = [
    "GAE",
    "Baseline",
    "BatchMean",
    "GroupMean",
    "LeaveOneOut",
    "MaxRewards",
    "NoBaseline",
    "RowAdvantages",
    "RunningMean",
    "TokenAdvantages",
    "TurnGAE",
]
