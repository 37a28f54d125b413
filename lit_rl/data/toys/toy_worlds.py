"""Toy worlds in numbers: sorting a few numbers, walking along a corridor. No text, no program.

Source:
    sorting and its rewards: the policy-gradient lecture of Stanford CS336, 2025
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

STAY_AWAY, APPROACH = 0, 1
"""The two actions in the corridor."""


def sort_distance(prompt: Sequence[int], response: Sequence[int]) -> int:
    """Number of positions where the response equals the sorted prompt.

    Args:
        prompt: n numbers.
        response: what was answered; missing positions count as wrong.

    Returns:
        0 to n.

    Example:
        >>> sort_distance([3, 1, 0, 2], [0, 3, 1, 2])
        1
    """
    return sum(ours == right for ours, right in zip(response, sorted(prompt), strict=False))


def sort_inclusion_ordering(prompt: Sequence[int], response: Sequence[int]) -> int:
    """One point for each number of the prompt that occurs in the response, one for each ordered pair of neighbours.

    Gives more partial credit than :func:`sort_distance`.

    Args:
        prompt: n numbers.
        response: what was answered.

    Returns:
        0 to 2n - 1 for a response of n numbers.

    Example:
        >>> sort_inclusion_ordering([3, 1, 0, 2], [0, 3, 1, 2])
        6
    """
    included = sum(number in response for number in prompt)
    ordered = sum(first <= second for first, second in pairwise(response))
    return included + ordered


def corridor_distances(num_cells: int, start: int, actions: Sequence[int]) -> list[int]:
    """Distance to the goal before each action and after the last.

    The corridor has ``num_cells`` cells, then the goal. Approaching takes one off the distance; going the other
    way adds one, but not past the wall at the far end. Actions after the goal was reached have no effect.

    Args:
        num_cells: cells besides the goal; the largest distance.
        start: distance at the beginning, 1 to ``num_cells``.
        actions: each ``APPROACH`` (1) or ``STAY_AWAY`` (0).

    Returns:
        ``len(actions) + 1`` distances; 0 is the goal.

    Example:
        >>> corridor_distances(3, 2, [0, 0, 1, 1, 1])
        [2, 3, 3, 2, 1, 0]
    """
    distances = [start]
    for action in actions:
        here = distances[-1]
        step = here - 1 if action == APPROACH else min(here + 1, num_cells)
        distances.append(step if here > 0 else 0)
    return distances
