"""Keys of sets and dicts that were chosen to share a hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lit_rl.execution.wire.bounded_json import NotCarried

_COLLISIONS = 64


def refuse_collisions(keys: Sequence[Any]) -> None:
    """Refuse keys of which many share a hash: a table of them would take quadratic time.

    Raises:
        NotCarried: if more than a few dozen different keys collide.
    """
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
