"""Batches of problems in an order that the seed decides, without duplicates, and with a position that resumes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b

import torch
from lightning_utilities.core.rank_zero import rank_zero_warn
from torch.utils.data import SequentialSampler

from lit_rl.errors import UsageError
from lit_rl.types import Problem


class ProblemLoader:
    """A loader of batches of problems that keeps its position, which is the same on every rank.

    The class is no ``DataLoader``, so Lightning leaves it alone (and adds no ``DistributedSampler``, which pads with
    duplicates), and the position is counted where the batches are consumed. The order of an epoch depends only on
    ``(seed, epoch)``. Each global batch is dealt out to the ranks row by row.

    Args:
        problems: the problems to iterate over, the same on every rank.
        batch_size: problems per batch on one rank.
        shuffle: a new order each epoch; otherwise the given order.
        drop_last: leave out a last batch that is not full, as training wants; a problem left out in one epoch
            comes in another. Never set for evaluation.
        seed: seed of the order.
        rank: number of this process.
        world_size: number of processes.
        arrange: function from an epoch's shuffled problem numbers to the order in which the problems come.
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
        arrange: Callable[[Sequence[int]], Sequence[int]] = lambda shuffled: shuffled,
    ) -> None:
        self.problems = problems
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.arrange = arrange
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.drop_last = drop_last
        if drop_last and len(problems) < batch_size * world_size:
            none = (
                "the task has no training problems (see its split), or all prompts are too long: take a policy with a "
                "longer context, or raise max_row_tokens"
            )
            raise UsageError(
                f"a training batch needs {batch_size * world_size} problems (batch_size {batch_size} on "
                f"{world_size} ranks), got {len(problems)}: "
                + ("lower batch_size or load more problems" if problems else none)
            )
        self.epoch = 0
        self.position = 0
        self._resumed = False
        # Lightning calls ``set_epoch`` on the sampler, whose type says whether problems come in order.
        self.sampler = _EpochForwarder(self) if shuffle else _InOrderMarker(self)
        self.batch_sampler = None

    def __len__(self) -> int:
        """Return the number of batches in an epoch, the same on every rank; a rank may get empty batches at the end."""
        global_batch = self.batch_size * self.world_size
        return len(self.problems) // global_batch if self.drop_last else -(-len(self.problems) // global_batch)

    def __iter__(self) -> Iterator[tuple[Problem, ...]]:
        if self._resumed:
            self._resumed = False
        else:
            self.position = 0
        order = self._epoch_order(self.epoch)
        while self.position < len(self):
            self.position += 1
            yield self._batch_at(order, self.position - 1)

    def peek_next_batch(self, num_batches: int) -> tuple[int, tuple[Problem, ...]]:
        """Return the epoch and the problems of the next batch; the trainer takes ``num_batches`` from each epoch."""
        ends = self.position >= min(num_batches, len(self))
        epoch, position = (self.epoch + 1, 0) if ends else (self.epoch, self.position)
        return epoch, self._batch_at(self._epoch_order(epoch), position)

    def _batch_at(self, order: Sequence[int], position: int) -> tuple[Problem, ...]:
        global_batch = self.batch_size * self.world_size
        start = position * global_batch
        mine = order[start : start + global_batch][self.rank :: self.world_size]
        return tuple(self.problems[i] for i in mine)

    def _epoch_order(self, epoch: int) -> Sequence[int]:
        number = len(self.problems)
        return self.arrange(_shuffled_indices(self.seed, epoch, number)) if self.shuffle else range(number)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch; Lightning calls this before each epoch."""
        self.epoch = epoch

    def state_dict(self) -> dict[str, int]:
        """Return the position, in global batches, and everything that the order depends on."""
        global_batch = self.batch_size * self.world_size
        position = {"epoch": self.epoch, "position": self.position, "global_batch": global_batch}
        return position | {"problems": len(self.problems), "seed": self.seed, "digest": self._problems_digest}

    @cached_property
    def _problems_digest(self) -> int:
        digest = blake2b(digest_size=8)
        for one in self.problems:
            digest.update(f"{one.task_id}\0{one.prompt_text}\0".encode(errors="surrogatepass"))
        return int.from_bytes(digest.digest())

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue from a saved position, or with the next epoch if the saved one was finished."""
        here = self.batch_size * self.world_size
        if (saved := state["global_batch"]) != here:
            fits = saved % self.world_size == 0
            advice = (
                f"set batch_size to {saved // self.world_size}"
                if fits
                else f"use a number of ranks that divides {saved}"
            )
            raise UsageError(
                f"the checkpoint was made with a global batch of {saved} problems, but this run has {here} "
                f"({self.batch_size} on each of {self.world_size} ranks): {advice} to resume"
            )
        self.warn_if_order_differs(state)
        self.epoch, self.position = state["epoch"], state["position"]
        self._resumed = self.position < len(self)

    def warn_if_order_differs(self, state: dict[str, int]) -> None:
        """Warn if the problems or their order have changed since the position was saved."""
        before = f"{state['problems']} problems and seed {state['seed']}"
        now = f"{len(self.problems)} problems and seed {self.seed}"
        twice = ": some problems of this epoch come twice and some not at all" if state["position"] else ""
        if before != now and self.shuffle and twice:
            rank_zero_warn(f"the checkpoint's order of problems had {before}, this run's has {now}{twice}")
        elif before == now and state["digest"] != self._problems_digest:
            rank_zero_warn(
                f"the training problems differ from the checkpoint's, or are in another order{twice}; unless that is "
                "meant, make load_problems return the same list at each start"
            )


@lru_cache(maxsize=2)
def _shuffled_indices(seed: int, epoch: int, number: int) -> tuple[int, ...]:
    # Each seed has one stream, from which each epoch takes the next order: neighbouring seeds share no order.
    generator = torch.Generator().manual_seed(seed)
    orders = (torch.randperm(number, generator=generator) for _ in range(epoch + 1))
    return tuple(deque(orders, maxlen=1)[0].tolist())


class _EpochForwarder:
    """The object whose ``set_epoch`` Lightning calls."""

    def __init__(self, loader: ProblemLoader) -> None:
        self.loader = loader

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)


class _InOrderMarker(_EpochForwarder, SequentialSampler):
    """A sampler whose type says that problems come in order, so that Lightning keeps that order."""
