"""Rewards of the toy worlds: read the sampled ids, execute nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch

from lit_rl.data.toys.toy_models import distances_to_goal
from lit_rl.data.toys.toy_tasks import count_sorted_positions, numbers_of_toy_problem, sort_inclusion_ordering
from lit_rl.rewards.term import RewardTerm, Span, TermScore
from lit_rl.types import Completions, Judgement, Problem

SortingKind = Literal["sort_distance", "sort_inclusion_ordering"]
_SORTING: Mapping[str, Callable[[Sequence[int], Sequence[int]], int]] = {
    "sort_distance": count_sorted_positions,
    "sort_inclusion_ordering": sort_inclusion_ordering,
}


class SortingReward(RewardTerm):
    """Reward for sorting the prompt's numbers.

    Args:
        kind: ``sort_distance`` (positions that are right, 0 to n) or ``sort_inclusion_ordering`` (numbers that
            occur and neighbours that are ordered, 0 to 2n - 1).
    """

    default_name = "sorting"

    def __init__(
        self, weight: float = 1.0, name: str | None = None, kind: SortingKind = "sort_inclusion_ordering"
    ) -> None:
        super().__init__(weight, name)
        self.kind = kind

    def check_problem(self, problem: Problem) -> None:
        numbers_of_toy_problem(problem)

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        reward = _SORTING[self.kind]
        return [
            TermScore(float(reward(numbers_of_toy_problem(problem), ids)))
            for problem, ids in zip(completions.problems, last_turn_ids(completions), strict=True)
        ]


class CorridorReward(RewardTerm):
    """A reward of 1 for the action that reached the goal; 0 if the walk ended elsewhere."""

    default_name = "corridor"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Return scores of all N completions, with a span on the last action if the goal was reached."""
        scores = []
        walks = zip(completions.problems, last_turn_ids(completions), completions.token_byte_spans, strict=True)
        for problem, actions, spans in walks:
            walk = torch.tensor([numbers_of_toy_problem(problem)]), torch.tensor([[*actions, 0]])
            distances = distances_to_goal(*walk)[0].tolist()
            if 0 not in distances:
                scores.append(TermScore(0.0))
                continue
            first, after = spans[distances.index(0) - 1]
            scores.append(TermScore(1.0, (Span(first, after, 1.0),)))
        return scores


def last_turn_ids(completions: Completions) -> list[list[int]]:
    """Return the sampled ids of the last turn of each row."""
    rows = zip(completions.completion_ids.tolist(), completions.turns, strict=True)
    return [ids[turns[-1].start : turns[-1].end] for ids, turns in rows]
