"""Rewards for the number of turns that a row took."""

from __future__ import annotations

from collections.abc import Sequence

from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement


class TurnPenalty(RewardTerm):
    """-1 for every turn before the last, which the environment rejected; each is charged to its own turn.

    Under ``credit: spans`` a turn's penalty goes to its last token: later turns do not learn from it.

    Args:
        weight: cost of a turn in the reward.
        name: name in logs.

    Source:
        Gehring et al. 2024 (RLEF), section 2.2, https://arxiv.org/abs/2410.02089, which penalises with 0.2, and only
        turns without valid code
    """

    default_name = "turn_penalty"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions."""
        failed = [len(turns) - 1 for turns in completions.turns]
        return [TermScore(-float(count), turn_values=(-1.0,) * count) for count in failed]
