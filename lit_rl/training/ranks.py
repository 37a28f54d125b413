"""Sums, maxima and gathers over ranks; in a run of one process they return what they get."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

Gathered = TypeVar("Gathered")


def world_size() -> int:
    """Number of ranks; 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process; 0 without a process group."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def sum_over_ranks(values: Tensor) -> Tensor:
    """The sum of a small tensor over all ranks, the same on each."""
    if world_size() == 1:
        return values
    total = values.detach().clone()
    dist.all_reduce(total)
    return total


def max_over_ranks(value: int, device: torch.device) -> int:
    """The largest of one number per rank."""
    if world_size() == 1:
        return value
    largest = torch.tensor(value, device=device)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return int(largest)


class Means:
    """Means over micro-batches, updates and ranks: sums and counts are kept, divided once at the end.

    Extremes of the same things can be kept beside them.
    """

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: dict[str, float] = defaultdict(float)
        self._largest: dict[str, float] = {}
        self._smallest: dict[str, float] = {}

    def add(self, values: Mapping[str, Tensor | float], count: float = 1.0) -> None:
        """Add means of ``count`` things each."""
        for name, value in values.items():
            self._sums[name] += float(value) * count
            self._counts[name] += count

    def add_sum(self, name: str, total: Tensor | float, count: Tensor | float) -> None:
        """Add a sum over ``count`` things."""
        self._sums[name] += float(total.detach() if isinstance(total, Tensor) else total)
        self._counts[name] += float(count)

    def add_largest(self, name: str, value: float) -> None:
        """Keep the largest value that was ever given under a name."""
        self._largest[name] = max(value, self._largest.get(name, value))

    def add_smallest(self, name: str, value: float) -> None:
        """Keep the smallest value that was ever given under a name."""
        self._smallest[name] = min(value, self._smallest.get(name, value))

    def merge(self, other: Means) -> None:
        """Add another's sums, counts and extremes."""
        for name, total in other._sums.items():
            self._sums[name] += total
            self._counts[name] += other._counts[name]
        self._merge_extremes(other._largest, other._smallest)

    def _merge_extremes(self, largest: Mapping[str, float], smallest: Mapping[str, float]) -> None:
        for name, value in largest.items():
            self.add_largest(name, value)
        for name, value in smallest.items():
            self.add_smallest(name, value)

    def reduce(self, device: torch.device) -> dict[str, float]:
        """Means over all ranks, also of names that only some ranks have."""
        names = _names_of_all_ranks(sorted(self._sums))
        both = torch.tensor([[self._sums[n] for n in names], [self._counts[n] for n in names]], dtype=torch.float64)
        if device.type != "mps":
            both = both.to(device)
        sums, counts = sum_over_ranks(both)
        for largest, smallest in gather_over_ranks((self._largest, self._smallest)):
            self._merge_extremes(largest, smallest)
        found = {n: float(s / c) for n, s, c in zip(names, sums, counts, strict=True) if c > 0}
        return found | self._largest | self._smallest

    def local(self) -> dict[str, float]:
        """Means of what this object was given, without asking other ranks."""
        means = {name: total / self._counts[name] for name, total in self._sums.items() if self._counts[name] > 0}
        return means | self._largest | self._smallest


def gather_over_ranks(value: Gathered) -> list[Gathered]:
    """A small plain value from each rank, in the order of the ranks; every rank calls."""
    if world_size() == 1:
        return [value]
    gathered = [value] * world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def _names_of_all_ranks(names: list[str]) -> list[str]:
    """A rank with nothing to do has fewer names, and the sums must line up."""
    return sorted({name for of_rank in gather_over_ranks(names) for name in of_rank})


_phases: list[str] = []


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Name what happens inside. After an exception the name stays, so that a message can use it."""
    depth = len(_phases)
    _phases.append(name)
    yield
    del _phases[depth:]


def where() -> str:
    """Rank and phase, such as ``rank 1 of 2, while sampling``; empty in a run of one process."""
    if world_size() == 1:
        return ""
    doing = f", while {_phases[-1]}" if _phases else ""
    return f"rank {dist.get_rank()} of {world_size()}{doing}"
