"""The order in which to rebuild a set so that it iterates in the same order."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import permutations
from sys import getsizeof
from typing import Any

# Larger sets do not keep their order; those of tests are small.
_MOST_ITEMS = 10_000
_TRIES = 10
_FEW = 5  # up to this many items every order is tried

Kind = Callable[[Iterable[Any]], Collection[Any]]


def recipe(values: Collection[Any], kind: Kind) -> tuple[bool, list[Any]]:
    """How to build a set that iterates as this one does: see ``build``.

    Which of two items comes first can depend on which one was added first, because a slot that is taken makes the
    second one go elsewhere. It also depends on how often the table grew: a copy is made in one step. If no way is
    found, the items come in the set's own order.

    Args:
        values: a set or frozenset.
        kind: which of the two.
    """
    wanted = list(kind.__iter__(values))  # type: ignore[attr-defined]
    if len(wanted) > _MOST_ITEMS:
        return False, wanted
    for at_once in (False, True):
        order: list[Any] = []
        for order in _candidates(wanted, values):
            built = list(build(kind, at_once, order))
            if _same(built, wanted):
                return at_once, order
        for _ in range(_TRIES):
            order = _first_fault_last(order, built, wanted)
            built = list(build(kind, at_once, order))
            if _same(built, wanted):
                return at_once, order
    return False, wanted


def build(kind: Kind, at_once: bool, items: Sequence[Any]) -> Collection[Any]:
    """A set of ``items``, added one by one, or all to a table that is large enough from the start."""
    return kind(dict.fromkeys(items) if at_once else items)


def _same(built: list[Any], wanted: list[Any]) -> bool:
    return len(built) == len(wanted) and all(map(operator.is_, built, wanted))


def _first_fault_last(order: list[Any], built: list[Any], wanted: list[Any]) -> list[Any]:
    """The order with the first item that came out too late moved to the end, after what displaces it."""
    for mine, theirs in zip(built, wanted, strict=False):
        if mine is not theirs:
            return [item for item in order if item is not theirs] + [theirs]
    return order


def _candidates(wanted: list[Any], values: Collection[Any]) -> Iterator[list[Any]]:
    yield wanted
    if len(wanted) <= _FEW:
        yield from map(list, permutations(wanted))
        return
    slots = max(8, (getsizeof(values) - getsizeof(type(values)())) // 16)
    homes = [hash(item) & (slots - 1) for item in wanted]
    at_home, behind, elsewhere = _by_slot(homes)
    # A table that grows is refilled in its own order, which does not move what lies where its hash says.
    for first in (at_home, at_home[::-1]):
        for last in (elsewhere, elsewhere[::-1]):
            yield [wanted[index] for index in (*first, *behind, *last)]
            yield [wanted[index] for index in (*first, *last, *behind)]


def _by_slot(homes: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Which items lie where their hash says, which just behind because that was taken, and which elsewhere."""
    in_turn = _longest_run(homes)
    at_home: list[int] = []
    behind: list[int] = []
    elsewhere: list[int] = []
    slot = -1
    for index, home in enumerate(homes):
        if index not in in_turn:
            elsewhere.append(index)
            continue
        (at_home if home > slot else behind).append(index)
        slot = max(slot + 1, home)
    return at_home, behind, elsewhere


def _longest_run(numbers: list[int]) -> set[int]:
    """Indices of the longest subsequence of numbers that do not fall, by patience sorting."""
    ends: list[int] = []
    lengths = []
    for number in numbers:
        position = bisect_right(ends, number)
        ends[position : position + 1] = [number]
        lengths.append(position)
    run, length = set(), len(ends) - 1
    for index in range(len(numbers) - 1, -1, -1):
        if lengths[index] == length and length >= 0:
            run.add(index)
            length -= 1
    return run
