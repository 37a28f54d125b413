"""Which rows of a rollout to keep."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence


def choose_rows(
    groups: Mapping[int, Sequence[int]], rewards: Sequence[float | None], num_groups: int, num_rows: int, seed: int
) -> list[int]:
    """Rows, the most informative first: the caller keeps as many as its budget allows.

    First the group whose rewards differ most, then the best and the worst row of the rollout, the first row without a
    reward, and then groups drawn at random. Within a group the best and the worst row come first, then the others.

    Args:
        groups: rows of each group.
        rewards: reward of each row; ``None`` if it has none.
        num_groups: groups to keep, in addition to the best and the worst row.
        num_rows: most rows of a group.
        seed: of the random draw.
    """
    widest = sorted(groups.values(), key=lambda rows: _spread(rows, rewards), reverse=True)[: min(1, num_groups)]
    others = [rows for rows in groups.values() if rows not in widest]
    drawn = random.Random(seed).sample(others, min(len(others), num_groups - len(widest)))
    extremes = _best_first([row for rows in groups.values() for row in rows], rewards)
    lost = [row for rows in groups.values() for row in rows if rewards[row] is None]
    wanted = [
        *(row for rows in widest for row in _of_group(rows, rewards, num_rows)),
        *extremes[:1],
        *extremes[-1:],
        *lost[:1],
        *(row for rows in drawn for row in _of_group(rows, rewards, num_rows)),
    ]
    return list(dict.fromkeys(wanted))


def _spread(rows: Sequence[int], rewards: Sequence[float | None]) -> float:
    known = [reward for row in rows if (reward := rewards[row]) is not None]
    return max(known) - min(known) if known else -1.0


def _best_first(rows: Sequence[int], rewards: Sequence[float | None]) -> list[int]:
    """The rows that have a reward."""
    return sorted((row for row in rows if rewards[row] is not None), key=lambda row: (-(rewards[row] or 0.0), row))


def _of_group(rows: Sequence[int], rewards: Sequence[float | None], num_rows: int) -> list[int]:
    """The best, the worst, what lies between at equal distances, and then those without a reward."""
    ordered = _best_first(rows, rewards)
    kept = min(num_rows, len(ordered))
    places = [round(i * (len(ordered) - 1) / max(1, kept - 1)) for i in range(kept)]
    lost = [row for row in rows if rewards[row] is None]
    return [*(ordered[place] for place in places[:1] + places[1:][::-1]), *lost[: num_rows - kept]]
