"""Builtin functions that tests apply to results, bounded so that no result can keep the supervisor busy.

Most builtins take time linear in their arguments. These need not: a table of keys that collide, a sum of numbers
or lists that grows with each item, rounding to a billion digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from lit_rl.execution.wire.bounded_json import NotPlain
from lit_rl.execution.wire.hashed import checked_keys, refuse_collisions

_MOST_STEPS = 10**8
_MOST_PLACES = 10_000


def _careful_set(kind: Callable[[Iterable[Any]], Any]) -> Callable[..., Any]:
    def build(items: Iterable[Any] = ()) -> Any:
        return kind(checked_keys(list(items)))

    return build


def _careful_dict(items: Any = ()) -> dict[Any, Any]:
    pairs = [*(items.items() if isinstance(items, Mapping) else items)]
    refuse_collisions([key for key, _ in pairs])
    return dict(pairs)


def _careful_sum(items: Iterable[Any], /, start: Any = 0) -> Any:
    """The sum, unless adding item by item would copy too much."""
    parts = [start, *items]
    sizes = [_size(part) for part in parts]
    steps = len(parts) * sum(sizes)
    if any(isinstance(part, Fraction) for part in parts):
        steps *= max(1, sum(sizes))  # each step reduces a fraction
    if steps > _MOST_STEPS:
        raise NotPlain(f"a sum of {len(parts)} items that would take too long")
    return sum(parts[1:], start)


def _size(value: Any) -> int:
    """Machine words or items beyond the first, which adding goes through."""
    if isinstance(value, Fraction):
        return (value.numerator.bit_length() + value.denominator.bit_length()) // 64
    if isinstance(value, int):
        return value.bit_length() // 64
    return len(value) if hasattr(value, "__len__") else 0


def _careful_round(number: Any, ndigits: int | None = None) -> Any:
    if ndigits is not None and (abs(ndigits) > _MOST_PLACES or abs(ndigits) * _size(number) > _MOST_STEPS):
        raise NotPlain(f"rounding to {ndigits} places")
    return round(number, ndigits)


CAREFUL: Mapping[str, Callable[..., Any]] = {
    "dict": _careful_dict,
    "frozenset": _careful_set(frozenset),
    "round": _careful_round,
    "set": _careful_set(set),
    "sum": _careful_sum,
}
