"""What comes out of a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lit_rl.execution.outcome import Outcome, Verdict
from lit_rl.rewards.term import RewardOutput
from lit_rl.types import Completions, Experience, Judgement


@dataclass(frozen=True)
class Rollout:
    """N rows of turns and the judgements of their programs.

    Args:
        completions: the rows.
        judgements: N judgements, of each row's last turn; they decide the reward.
        turn_judgements: N tuples, one judgement per turn of the row, under the same check. The last of a row is
            its entry in ``judgements``.
        max_turns: turns that a row could have had.
    """

    completions: Completions
    judgements: tuple[Judgement, ...]
    turn_judgements: tuple[tuple[Judgement, ...], ...] = ()
    max_turns: int = 1

    def __post_init__(self) -> None:
        if not self.turn_judgements:
            object.__setattr__(self, "turn_judgements", tuple((judgement,) for judgement in self.judgements))

    def after_turn(self, number: int) -> tuple[Judgement, ...]:
        """N judgements of the rows after this many turns; a row with fewer turns keeps its last one."""
        return tuple(of_row[min(number, len(of_row)) - 1] for of_row in self.turn_judgements)

    @property
    def infrastructure_failures(self) -> int:
        """Rows whose program could not be judged through no fault of its own."""
        return sum(j.outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE for j in self.judgements)


class FinishedRollout(NamedTuple):
    """A training rollout of one rank and everything that was made of it.

    Attributes:
        rollout: N rows of turns and their judgements.
        rewards: of the same rows.
        experience: the tensors made from them; log-probabilities are ``None`` if nothing read them.
        metrics: what was logged about this rollout, means over all ranks.
    """

    rollout: Rollout
    rewards: RewardOutput
    experience: Experience
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Evaluated:
    """What a validation batch produced.

    Args:
        rollouts: by the name of the sampling.
        rewards: of the same rows, by the same names; empty if the module has no reward terms.
        silence: outcome of the empty program by task id, for problems whose checks have stages.
    """

    rollouts: Mapping[str, Rollout]
    rewards: Mapping[str, RewardOutput] = field(default_factory=dict)
    silence: Mapping[str, Outcome] = field(default_factory=dict)
