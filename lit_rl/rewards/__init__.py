"""Reward terms, their composition, and the credit of each token."""

from lit_rl.lazy import lazy_exports
from lit_rl.rewards.composite import Composite as Composite
from lit_rl.rewards.graders import Grader as Grader
from lit_rl.rewards.graders import LocalGrader as LocalGrader
from lit_rl.rewards.graders import ServerGrader as ServerGrader
from lit_rl.rewards.lint import LintReward as LintReward
from lit_rl.rewards.llm_judge import LLMJudgeReward as LLMJudgeReward
from lit_rl.rewards.penalties import FormatReward as FormatReward
from lit_rl.rewards.penalties import LengthPenalty as LengthPenalty
from lit_rl.rewards.penalties import OverlongPenalty as OverlongPenalty
from lit_rl.rewards.program_tests import TestsReward as TestsReward
from lit_rl.rewards.similarity import BleuReward as BleuReward
from lit_rl.rewards.similarity import DataflowReward as DataflowReward
from lit_rl.rewards.syntax import SyntaxReward as SyntaxReward
from lit_rl.rewards.term import ALL_TEXT as ALL_TEXT
from lit_rl.rewards.term import RewardOutput as RewardOutput
from lit_rl.rewards.term import RewardTerm as RewardTerm
from lit_rl.rewards.term import Span as Span
from lit_rl.rewards.term import TermScore as TermScore

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
