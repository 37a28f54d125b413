"""Problems that are solved now and then come more often than those that are always or never solved."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import ceil
from typing import Any

from lit_rl.arguments import ArgumentError

_UNIT = 1000
"""Weight of a problem that is not taken less often; whole numbers, so that all ranks draw the same."""


class PreferMixed:
    """Takes problems less often whose last completions all passed, or none of which did: they teach little.

    Decided anew at the beginning of each epoch, from the verdicts of this run. An epoch keeps its length: places that
    become free go to the other problems, which then come more than once, never twice in one rollout. While nothing is
    known, as in the first epoch, the order is that without it; problems that were not seen yet count as mixed. It
    helps where a run takes several epochs.

    Groups that ``max_resamples`` replaced are not seen. The verdicts are part of the checkpoint. Those of an epoch's
    last rollout count one epoch later, so that a run that samples ahead (``staleness: 1``) knows the next epoch in
    time.

    Args:
        rarely: how often such a problem comes, compared to the others, in (0, 1]; 1 takes all alike. Not below
            one in as many rollouts as an epoch has.

    Raises:
        ValueError: ``rarely`` is outside (0, 1].

    Example:
        >>> order = PreferMixed(rarely=0.25)
        >>> order.note({"a": (8, 8), "b": (3, 8), "c": (0, 8), "d": (7, 8)})  # passed, judged
        >>> order.visits("abcd", [1, 3, 0, 2], 1, ahead=True)
        [1, 1, 3, 0]
    """

    def __init__(self, rarely: float = 0.25) -> None:
        if not 0 < rarely <= 1:
            raise ArgumentError("rarely", "a share above 0 and at most 1", str(rarely), "0.25 for a quarter as often")
        self.rarely = rarely
        self.reset()

    def reset(self) -> None:
        """Forget everything: another run begins."""
        self._known: dict[str, bool] = {}  # by task id, whether some passed and some did not
        self._last: dict[str, bool] = {}  # the same of the last rollout
        self._began: dict[str, bool] = {}  # what was known when this epoch began

    def note(self, solved: Mapping[str, tuple[int, int]]) -> None:
        """Take over a rollout's verdicts, of all ranks.

        Args:
            solved: by task id, how many completions passed, and how many were judged.
        """
        self._known |= self._last
        self._last = {task_id: 0 < passed < judged for task_id, (passed, judged) in solved.items() if judged}

    def begin(self) -> None:
        """An epoch begins."""
        self._began = dict(self._known)

    def visits(
        self, task_ids: Sequence[str], shuffled: Sequence[int], global_batch: int, *, ahead: bool = False
    ) -> Sequence[int]:
        """The order of an epoch.

        Args:
            task_ids: of all problems.
            shuffled: numbers of all problems in the epoch's order without preference.
            global_batch: problems of a rollout, on all ranks.
            ahead: the next epoch's, asked for during the last rollout of this one.

        Returns:
            one problem after the other, as many as fill whole rollouts; ``shuffled`` itself where all weigh the same.
        """
        known = self._known | self._last if ahead else self._began
        num_batches = len(shuffled) // global_batch
        rare = ceil(_UNIT * max(self.rarely, 1 / num_batches))
        weights = [_UNIT if known.get(task_ids[i], True) else rare for i in shuffled]
        if min(weights) == max(weights):
            return shuffled
        ends, wanted = list(accumulate(weights)), num_batches * global_batch
        # Evenly spaced points on a line on which each problem is as long as its weight.
        points = ((2 * k + 1) * ends[-1] // (2 * wanted) for k in range(wanted))
        chosen = [shuffled[bisect_right(ends, point)] for point in points]
        # Neighbours, such as visits of one problem, go to different rollouts.
        return [i for number in range(num_batches) for i in chosen[number::num_batches]]

    def state_dict(self) -> dict[str, Any]:
        """What is known, and was known when the epoch began."""
        return {"known": dict(self._known), "last": dict(self._last), "began": dict(self._began)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""
        self._known, self._last, self._began = dict(state["known"]), dict(state["last"]), dict(state["began"])
