"""Sets and dicts of items that another process sent: built in linear time, with the same iteration order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import permutations
from typing import Any

from lit_rl.execution.wire.bounded_json import NotCarried

# Larger sets do not keep their order; those of tests are small.
_MOST_ITEMS = 10_000
_TRIES = 12
_COLLISIONS = 64
_FEW = 5  # up to this many items every order is tried

Kind = Callable[[Iterable[Any]], Collection[Any]]


def recipe(values: Collection[Any], kind: Kind) -> tuple[bool, list[Any]]:
    """Return a recipe for a set that iterates in the order of this one: see ``build``.

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
        for first in (wanted, wanted[::-1]):
            for which in (1, 0):
                order = first
                for _ in range(_TRIES):
                    fault = _first_fault(kind, at_once, order, wanted)
                    if fault is None:
                        return at_once, order
                    order = [item for item in order if item is not fault[which]] + [fault[which]]
        if len(wanted) <= _FEW:
            for few in permutations(wanted):
                if _first_fault(kind, at_once, few, wanted) is None:
                    return at_once, list(few)
    return False, wanted


def build(kind: Kind, at_once: bool, items: Sequence[Any]) -> Collection[Any]:
    """A set of ``items``, added one by one, or all to a table that is large enough from the start."""
    return kind(dict.fromkeys(items) if at_once else items)


def _first_fault(kind: Kind, at_once: bool, order: Sequence[Any], wanted: list[Any]) -> tuple[Any, Any] | None:
    """An item that is too early in the order and the one due in its place; adding either one last may repair it.

    ``None`` if the set built from ``order`` iterates as wanted.
    """
    pairs = zip(build(kind, at_once, order), wanted, strict=False)
    return next(((mine, theirs) for mine, theirs in pairs if mine is not theirs), None)


def refuse_collisions(keys: Sequence[Any]) -> None:
    """Refuse keys of which many share a hash: a table of them would take quadratic time."""
    if len(keys) <= _COLLISIONS:
        return
    hashes = Counter(map(hash, keys))
    crowded = {value for value, count in hashes.items() if count > _COLLISIONS}
    if not crowded:
        return
    # Many equal keys are honest, and cheap: each is found at the first probe.
    firsts: dict[int, Any] = {}
    differing: Counter[int] = Counter()
    for key in keys:
        value = hash(key)
        if value in crowded and firsts.setdefault(value, key) != key:
            differing[value] += 1
    if max(differing.values(), default=0) > _COLLISIONS:
        raise NotCarried("keys of a set or dict that collide")


def checked_keys(items: list[Any]) -> list[Any]:
    """``items``, if a set of them can be built in linear time."""
    refuse_collisions(items)
    return items


def checked_dict(items: Sequence[Any]) -> dict[Any, Any]:
    """A dict of keys and values that follow each other."""
    refuse_collisions(items[::2])
    return dict(zip(items[::2], items[1::2], strict=True))
