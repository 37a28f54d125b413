"""Batches of problems: an order that the seed decides, a position that resumes, no duplicates.

Problems that are solved now and then may come more often than those that are always or never solved.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import accumulate
from math import ceil
from typing import Any

import torch
from lightning_utilities.core.rank_zero import rank_zero_warn
from torch.utils.data import SequentialSampler

from lit_rl.arguments import ArgumentError, TypedArguments, UsageError, require_at_least
from lit_rl.types import Problem

_UNIT = 1000
"""Weight of a problem that is not taken less often; whole numbers, so that all ranks draw the same."""


class PreferMixed(TypedArguments):
    """Takes problems less often whose last completions all passed, or none of which did: they teach little.

    Decided anew at the beginning of each epoch, from the verdicts of this run. An epoch keeps its length: places that
    become free go to the other problems, which then come more than once, never twice in one rollout. While nothing is
    known, as in the first epoch, the order is that without it; problems that were not seen yet count as mixed. It
    helps where a run takes several epochs.

    Groups that ``max_resamples`` replaced are not seen. The verdicts are part of the checkpoint. Those of an epoch's
    last rollout count one epoch later, so that a run that samples ahead (``staleness: 1``) knows the next epoch in
    time.

    Args:
        rarely: how often such a problem is sampled, compared to the others, in (0, 1]; 1 samples all alike. Not below
            one in as many rollouts as an epoch has.

    Raises:
        ValueError: ``rarely`` is outside (0, 1].

    Example:
        >>> order = PreferMixed(rarely=0.25)
        >>> order.count_solved({"a": (8, 8), "b": (3, 8), "c": (0, 8), "d": (7, 8)})  # passed, judged
        >>> order.visits("abcd", [1, 3, 0, 2], 1, ahead=True)
        [1, 1, 3, 0]
    """

    def __init__(self, rarely: float = 0.25) -> None:
        if not 0 < rarely <= 1:
            raise ArgumentError("PreferMixed.rarely", "a share above 0 and at most 1", str(rarely), "0.25 is usual")
        self.rarely = rarely
        self.reads_verdicts = True
        self.reset()

    def reset(self) -> None:
        """Forget everything of a previous run."""
        self._known: dict[str, bool] = {}  # by task id, whether some passed and some did not
        self._last: dict[str, bool] = {}  # the same of the last rollout
        self._began: dict[str, bool] = {}  # what was known when this epoch began

    def count_solved(self, solved: Mapping[str, tuple[int, int]]) -> None:
        """Count a rollout's verdicts, of all ranks.

        Args:
            solved: by task id, how many completions passed, and how many were judged.
        """
        self._known |= self._last
        self._last = {task_id: 0 < passed < judged for task_id, (passed, judged) in solved.items() if judged}

    def begin(self) -> None:
        """Begin an epoch."""
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
        known = self.known(ahead)
        rare = ceil(_UNIT * max(self.rarely, 1 / (len(shuffled) // global_batch)))
        weights = [_UNIT if known.get(task_ids[i], True) else rare for i in shuffled]
        return shuffled if min(weights) == max(weights) else spread(shuffled, weights, global_batch)

    def known(self, ahead: bool) -> Mapping[str, bool]:
        """By task id, whether some passed and some did not, when this epoch began, or ``ahead`` for the next."""
        return self._known | self._last if ahead else self._began

    def state_dict(self) -> dict[str, Any]:
        """Return the known results, now and when the epoch began."""
        return {"known": dict(self._known), "last": dict(self._last), "began": dict(self._began)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore it."""
        self._known, self._last, self._began = dict(state["known"]), dict(state["last"]), dict(state["began"])


def spread(
    order: Sequence[int], weights: Sequence[int], global_batch: int, start: tuple[int, int] = (0, 1)
) -> list[int]:
    """Draw an epoch from a line on which each problem is as long as its weight, by evenly spaced points.

    Args:
        order: of the problems on the line.
        weights: of the problems in that order.
        global_batch: problems of a rollout.
        start: i and n: the first point is at (i + 1/2) / n of the distance of two.

    Returns:
        as many as fill whole rollouts; each rollout has its share, to within one, of every stretch of the line.
    """
    (first, parts), num_batches = start, len(order) // global_batch
    ends, wanted = list(accumulate(weights)), num_batches * global_batch
    points = ((2 * (parts * k + first) + 1) * ends[-1] // (2 * parts * wanted) for k in range(wanted))
    chosen = [order[bisect_right(ends, point)] for point in points]
    # Neighbours, such as visits of one problem, go to different rollouts.
    return [i for number in range(num_batches) for i in chosen[number::num_batches]]


class ProblemLoader:
    """Batches of problems; keeps its position, which is the same on every rank.

    Not a ``DataLoader``: Lightning then leaves it alone (no ``DistributedSampler``, which pads with
    duplicates), and its position is counted where the batches are consumed. The order of an epoch depends on
    ``(seed, epoch)`` only, with a preference also on earlier verdicts. Each global batch is dealt out to the ranks row
    by row.

    Args:
        problems: what to iterate over, the same on every rank.
        batch_size: problems per batch on one rank.
        shuffle: a new order each epoch; otherwise the given order.
        drop_last: leave out a last batch that is not full, as training wants; a problem left out in one epoch
            comes in another. Never set for evaluation.
        seed: seed of the order.
        rank: this process.
        world_size: number of processes.
        prefer: which problems come more often, where the order is new each epoch; the task keeps its state.
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        batch_size: int,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        prefer: PreferMixed | None = None,
    ) -> None:
        require_at_least(1, self, batch_size=batch_size)
        self.problems = problems
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.prefer = prefer if shuffle else None
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.drop_last = drop_last
        if drop_last and len(problems) < batch_size * world_size:
            raise UsageError(
                f"a training batch needs {batch_size * world_size} problems (batch_size {batch_size} on "
                f"{world_size} ranks), got {len(problems)}: lower batch_size or load more problems"
            )
        self.epoch = 0
        self.position = 0
        self._resumed = False
        # Lightning calls ``set_epoch`` on it, and asks it whether the order is that of the problems.
        self.sampler = _Sampler(self) if shuffle else _InOrder(self)
        self.batch_sampler = None

    def __len__(self) -> int:
        """Batches in an epoch, the same on every rank; a rank whose share has run out gets an empty one."""
        global_batch = self.batch_size * self.world_size
        return len(self.problems) // global_batch if self.drop_last else -(-len(self.problems) // global_batch)

    def __iter__(self) -> Iterator[tuple[Problem, ...]]:
        if self._resumed:
            self._resumed = False
        else:
            self.position = 0
        if self.prefer is not None and self.position == 0:
            self.prefer.begin()
        order = self._order(self.epoch)
        while self.position < len(self):
            self.position += 1
            yield self._batch(order, self.position - 1)

    def following(self, num_batches: int) -> tuple[int, tuple[Problem, ...]]:
        """Return the epoch and the problems of the batch after the one handed out last.

        Args:
            num_batches: that the trainer takes from each epoch.
        """
        ends = self.position >= min(num_batches, len(self))
        epoch, position = (self.epoch + 1, 0) if ends else (self.epoch, self.position)
        return epoch, self._batch(self._order(epoch, ahead=ends), position)

    def _batch(self, order: Sequence[int], position: int) -> tuple[Problem, ...]:
        global_batch = self.batch_size * self.world_size
        start = position * global_batch
        mine = order[start : start + global_batch][self.rank :: self.world_size]
        return tuple(self.problems[i] for i in mine)

    def _order(self, epoch: int, ahead: bool = False) -> Sequence[int]:
        number = len(self.problems)
        if not self.shuffle:
            return range(number)
        shuffled = _shuffled(self.seed, epoch, number)
        if self.prefer is None:
            return shuffled
        task_ids = [problem.task_id for problem in self.problems]
        return self.prefer.visits(task_ids, shuffled, self.batch_size * self.world_size, ahead=ahead)

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning before each epoch."""
        self.epoch = epoch

    def state_dict(self) -> dict[str, int]:
        """The position, in global batches, and what the order depends on."""
        global_batch = self.batch_size * self.world_size
        position = {"epoch": self.epoch, "position": self.position, "global_batch": global_batch}
        return position | {"problems": len(self.problems), "seed": self.seed, "digest": self._digest}

    @cached_property
    def _digest(self) -> int:
        """Digest of the problems' names and prompts, in order."""
        digest = blake2b(digest_size=8)
        for one in self.problems:
            digest.update(f"{one.task_id}\0{one.prompt_text}\0".encode(errors="surrogatepass"))
        return int.from_bytes(digest.digest())

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue from a saved position; after a finished epoch, with the next one.

        Raises:
            ValueError: the position was counted in global batches of another size.
        """
        here = self.batch_size * self.world_size
        saved = state.get("global_batch", here)
        if saved != here:
            fits = saved % self.world_size == 0
            advice = f"set batch_size to {saved // self.world_size}" if fits else "take a number of ranks that divides"
            raise UsageError(
                f"the checkpoint was made with a global batch of {saved} problems, this run has {here} "
                f"({self.batch_size} on each of {self.world_size} ranks): {advice} to resume"
            )
        self.doubt_order(state)
        self.epoch, self.position = state["epoch"], state["position"]
        self._resumed = self.position < len(self)

    def doubt_order(self, state: dict[str, int]) -> None:
        """Warn where a saved position counts problems that are others now, or in another order."""
        before = f"{state.get('problems', len(self.problems))} problems and seed {state.get('seed', self.seed)}"
        now = f"{len(self.problems)} problems and seed {self.seed}"
        twice = ": some problems of this epoch come twice and some not at all" if state["position"] else ""
        if before != now and self.shuffle and twice:
            rank_zero_warn(f"the checkpoint's order was that of {before}, now it is that of {now}{twice}")
        elif before == now and state.get("digest", self._digest) != self._digest:  # older ones have none
            rank_zero_warn(
                f"the training problems are others than the checkpoint's, or in another order{twice}; unless that is "
                "meant, have load_problems return the same list at each start"
            )


@lru_cache(maxsize=2)
def _shuffled(seed: int, epoch: int, number: int) -> tuple[int, ...]:
    # One stream per seed, of which each epoch takes the next order: neighbouring seeds share none.
    generator = torch.Generator().manual_seed(seed)
    orders = (torch.randperm(number, generator=generator) for _ in range(epoch + 1))
    return tuple(deque(orders, maxlen=1)[0].tolist())


class _Sampler:
    """The object whose ``set_epoch`` Lightning calls."""

    def __init__(self, loader: ProblemLoader) -> None:
        self.loader = loader

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)


class _InOrder(_Sampler, SequentialSampler):
    """Marks by its type the order of the problems, and keeps Lightning from changing it."""
