"""Whether the completion holds a program in the form that was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from lit_rl.arguments import UsageError
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement, Problem


class FormatReward(RewardTerm):
    """-1 for a completion without a fenced program, 0 with one: a penalty, never a bonus.

    With the default weight a badly formatted completion loses 0.1, so that it stays below a well formatted
    one that fails its tests.

    Args:
        weight: factor in the reward.
        name: name in logs.
        fence: whether the program must stand in a fenced block; with False any program will do.
    """

    default_name = "format"

    def __init__(self, weight: float = 0.1, name: str | None = None, fence: bool = True) -> None:
        super().__init__(weight, name)
        self.fence = fence

    def check_problem(self, problem: Problem) -> None:
        """Raise ValueError if the completion continues a program (completion form), where no fence is wanted."""
        if self.fence and problem.continues_program:
            raise UsageError(
                "FormatReward wants a fenced block, but the completion continues a program: set fence to False, or the "
                "task's form to instruct"
            )

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions, without places."""
        good = [j.program is not None and (j.program.fenced or not self.fence) for j in judgements]
        return [TermScore(0.0 if ok else -1.0) for ok in good]
