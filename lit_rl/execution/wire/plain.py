"""Values as plain data: the only form in which anything crosses a border of the sandbox.

A value becomes a JSON tree in which every list starts with a one-letter tag. Decoding checks exact shapes,
calls no code of the sender, and cannot be made slow: the JSON parser bounds depth and digits, and a set or
dict whose keys were chosen to collide is refused.

Tags: ``l`` list, ``t`` tuple, ``s`` set, ``f`` frozenset, ``d`` dict (keys, values in turn), ``b`` bytes,
``B`` bytearray, ``i`` large int (hexadecimal), ``c`` complex, ``r`` range, ``q`` deque, ``I`` iterator, ``D``
Decimal, ``F`` Fraction, ``T`` type, ``k`` dict view, ``o`` anything else: the number its owner gave it.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence, ValuesView
from itertools import islice
from typing import Any

_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_SMALL_INT = 1 << 63
_ITERATOR_ITEMS = 100_000
_SIMPLE = frozenset((bool, float, str, type(None)))
_COLLISIONS = 64
_LONGEST_DECIMAL = 10_000
_LONGEST_RANGE = 1_000_000

# Types are data where tests pass them as arguments.
_TYPES = {
    kind.__name__: kind for kind in (bool, bytes, complex, dict, float, frozenset, int, list, object, set, str, tuple)
}

Hold = Callable[[Any], list[Any]]
Revive = Callable[[list[Any]], Any]


class NotPlain(ValueError):
    """What arrived is not plain data, or was made to be slow to read."""


class Opaque:
    """An object of the program's that is no plain data. Equal to nothing but itself."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __repr__(self) -> str:
        return f"<{self.type_name} object of the program>"


def dumps(value: Any, hold: Hold | None = None) -> str:
    """``value`` as a JSON text; ``hold`` turns what is no plain data into its ``["o", ...]``."""
    return _ENCODE(to_tree(value, hold or _forget))


def loads(text: str | bytes, revive: Revive | None = None) -> Any:
    """The value in a JSON text; ``revive`` turns ``["o", ...]`` into an object.

    Raises:
        NotPlain: if the text is not what ``dumps`` writes.
    """
    try:
        return from_tree(json.loads(text), revive or _opaque)
    except NotPlain:
        raise
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise NotPlain(f"not plain data: {type(error).__name__}: {error}") from None


def to_tree(value: Any, hold: Hold) -> Any:
    """``value`` as a JSON tree. Subclasses of builtin types are reduced to what the builtin type holds."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        return value if -_SMALL_INT < value < _SMALL_INT else ["i", hex(value)]
    if kind is list or kind is tuple:
        tag = "l" if kind is list else "t"
        return [tag, *value] if _all_simple(value) else [tag, *[to_tree(item, hold) for item in value]]
    if kind is dict:
        return ["d", *[to_tree(part, hold) for pair in value.items() for part in pair]]
    return _less_common(value, hold)


def _all_simple(items: Sequence[Any]) -> bool:
    """Whether all items are written as they are: a short cut for long flat sequences."""
    kinds = set(map(type, items))
    if kinds <= _SIMPLE:
        return True
    return kinds == {int} and min(items) > -_SMALL_INT and max(items) < _SMALL_INT


def _less_common(value: Any, hold: Hold) -> Any:
    for base, encode in _ENCODERS:
        if isinstance(value, base):
            return encode(value, hold)
    # numpy scalars and arrays, without importing numpy: they know how to become plain.
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return to_tree(value.tolist(), hold)
    return _numbers(value) or hold(value)


def _numbers(value: Any) -> list[Any] | None:
    name = (type(value).__module__, type(value).__name__)
    if name == ("decimal", "Decimal"):
        return ["D", str(value)]
    if name == ("fractions", "Fraction"):
        return ["F", hex(value.numerator), hex(value.denominator)]
    return None


def _items(tag: str, iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any, Hold], list[Any]]:
    return lambda value, hold: [tag, *[to_tree(item, hold) for item in iterate(value)]]


_ENCODERS: tuple[tuple[Any, Callable[[Any, Hold], Any]], ...] = (
    (bool, lambda value, hold: bool(value)),
    (int, lambda value, hold: to_tree(int.__pos__(value), hold)),
    (float, lambda value, hold: float.__pos__(value)),
    (str, lambda value, hold: str.__str__(value)),
    (list, _items("l", list.__iter__)),
    (tuple, _items("t", tuple.__iter__)),
    (set, _items("s", set.__iter__)),
    (frozenset, _items("f", frozenset.__iter__)),
    (dict, lambda value, hold: ["d", *[to_tree(x, hold) for pair in dict.items(value) for x in pair]]),
    (bytearray, lambda value, hold: ["B", bytes(value).decode("latin-1")]),
    (bytes, lambda value, hold: ["b", bytes(memoryview(value)).decode("latin-1")]),
    (complex, lambda value, hold: ["c", value.real, value.imag]),
    (type, lambda value, hold: ["T", value.__name__] if value in _TYPES.values() else hold(value)),
    (range, lambda value, hold: ["r", to_tree([value.start, value.stop, value.step], hold)]),
    (deque, _items("q", deque.__iter__)),
    (KeysView, _items("k", iter)),
    (ValuesView, _items("I", iter)),
    (Iterator, _items("I", lambda value: islice(value, _ITERATOR_ITEMS))),
)


def from_tree(tree: Any, revive: Revive) -> Any:
    """The value that a JSON tree stands for."""
    if not isinstance(tree, list):
        if isinstance(tree, dict):
            raise NotPlain("not plain data: a JSON object, where lists with a tag are used")
        return tree
    tag = tree[0]
    if tag == "l" or tag == "t":
        items = tree[1:]
        kinds = set(map(type, items))
        if list in kinds or dict in kinds:
            items = [from_tree(item, revive) for item in items]
        return items if tag == "l" else tuple(items)
    if tag == "o":
        return revive(tree)
    return _DECODERS[tag](tree, revive)


def _hashable_items(tree: Sequence[Any], revive: Revive, step: int = 1) -> list[Any]:
    items = [from_tree(item, revive) for item in tree]
    refuse_collisions(items[::step])
    return items


def refuse_collisions(keys: Sequence[Any]) -> None:
    """Refuse keys of which many share a hash: a table of them would take quadratic time.

    Raises:
        NotPlain: if more than a few dozen different keys collide.
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
        raise NotPlain("keys of a set or dict that collide")


def _dict(tree: list[Any], revive: Revive) -> dict[Any, Any]:
    items = _hashable_items(tree[1:], revive, step=2)
    return dict(zip(items[::2], items[1::2], strict=True))


def _decimal(tree: list[Any], revive: Revive) -> Any:
    from decimal import Decimal

    value = Decimal(_short(tree[1]))
    if value.is_finite() and abs(value.adjusted()) > _LONGEST_DECIMAL:
        raise NotPlain("a Decimal too large to compute with")
    return value


def _fraction(tree: list[Any], revive: Revive) -> Any:
    from fractions import Fraction

    return Fraction(int(tree[1], 16), int(tree[2], 16))


def _short(text: str) -> str:
    if len(text) > _LONGEST_DECIMAL:
        raise NotPlain(f"a Decimal of more than {_LONGEST_DECIMAL} digits")
    return text


def _range(tree: list[Any], revive: Revive) -> range:
    value = range(*from_tree(tree[1], revive))
    # ``list(result)`` in a test must not be a memory bomb.
    if value and abs(value.stop - value.start) // abs(value.step) > _LONGEST_RANGE:
        raise NotPlain(f"a range of more than {_LONGEST_RANGE} items")
    return value


_DECODERS: Mapping[str, Callable[[list[Any], Revive], Any]] = {
    "s": lambda tree, revive: set(_hashable_items(tree[1:], revive)),
    "f": lambda tree, revive: frozenset(_hashable_items(tree[1:], revive)),
    "d": _dict,
    "b": lambda tree, revive: tree[1].encode("latin-1"),
    "B": lambda tree, revive: bytearray(tree[1].encode("latin-1")),
    "i": lambda tree, revive: int(tree[1], 16),
    "c": lambda tree, revive: complex(tree[1], tree[2]),
    "r": _range,
    "q": lambda tree, revive: deque(_plain_items(tree[1:], revive)),
    "k": lambda tree, revive: dict.fromkeys(_hashable_items(tree[1:], revive)).keys(),
    "I": lambda tree, revive: iter(_plain_items(tree[1:], revive)),
    "D": _decimal,
    "T": lambda tree, revive: _TYPES[tree[1]],
    "F": _fraction,
}


def _plain_items(tree: Sequence[Any], revive: Revive) -> list[Any]:
    return [from_tree(item, revive) for item in tree]


def _forget(value: Any) -> list[Any]:
    return ["o", 0, str(type(value).__name__)]


def _opaque(tree: list[Any]) -> Any:
    return Opaque(str(tree[-1])[:100])
