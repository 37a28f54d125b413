"""Values as plain data: the only form in which anything crosses a border of the sandbox.

A value becomes a JSON tree in which every list starts with a tag. Decoding checks exact shapes, calls no code
of the sender, and cannot be made slow: bytes, depth, items and digits are bounded, and a set or dict whose keys
were chosen to collide is refused.

Tags of builtin types: ``l`` list, ``t`` tuple, ``s`` set, ``f`` frozenset (``S``, ``F``: built in one step),
``d`` dict (keys, values in turn), ``b`` bytes, ``B`` bytearray, ``i`` large int (hexadecimal), ``c`` complex,
``r`` range, ``q`` deque, ``I`` iterator, ``T`` type, ``k`` keys of a dict, ``o`` anything else: the number its
owner gave it. Types of the standard library and of numpy have words for tags: see ``library_values``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, KeysView, Sequence
from itertools import islice
from typing import Any

from lit_rl.execution.wire import library_values
from lit_rl.execution.wire.bounded_json import NotPlain, parse
from lit_rl.execution.wire.collisions import checked_dict, checked_keys
from lit_rl.execution.wire.neutral_values import Opaque
from lit_rl.execution.wire.printable import printable_name
from lit_rl.execution.wire.set_order import Kind, build, recipe

__all__ = ["Hold", "NotPlain", "Opaque", "Revive", "dumps", "from_tree", "loads", "opaque", "to_tree"]

_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_SMALL_INT = 1 << 63
_ITERATOR_ITEMS = 100_000
_SIMPLE = frozenset((bool, float, str, type(None)))
_LONGEST_RANGE = 1_000_000
# Lists within lists; more could not be compared or printed within the interpreter's own limit.
_DEEPEST = 100
# Comparing such an int with a Decimal takes a tenth of a second, and that grows with the square.
_HEX_DIGITS = 100_000

# Types are data where tests pass them as arguments.
_TYPES = {
    kind.__name__: kind for kind in (bool, bytes, complex, dict, float, frozenset, int, list, object, set, str, tuple)
}

Hold = Callable[[Any], list[Any]]
Revive = Callable[[list[Any]], Any]


def dumps(value: Any, hold: Hold | None = None) -> str:
    """``value`` as a JSON text; ``hold`` turns what is not plain data into its ``["o", ...]``."""
    return _ENCODE(to_tree(value, hold or _forget))


def loads(text: str | bytes, revive: Revive | None = None) -> Any:
    """The value in a JSON text; ``revive`` turns ``["o", ...]`` into an object.

    Raises:
        NotPlain: if the text is not what ``dumps`` writes.
    """
    return from_tree(parse(text), revive)


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
    parts = library_values.parts_of(value)
    if parts is not None:
        return [parts[0], *[to_tree(part, hold) for part in parts[1:]]]
    for base, encode in _ENCODERS:
        if isinstance(value, base):
            return encode(value, hold)
    return hold(value)


def _items(tag: str, iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any, Hold], list[Any]]:
    return lambda value, hold: [tag, *[to_tree(item, hold) for item in iterate(value)]]


def _set_tree(tag: str, value: Any, kind: Kind, hold: Hold) -> list[Any]:
    at_once, items = recipe(value, kind)
    return [tag.upper() if at_once else tag, *[to_tree(item, hold) for item in items]]


_ENCODERS: tuple[tuple[Any, Callable[[Any, Hold], Any]], ...] = (
    (bool, lambda value, hold: bool(value)),
    (int, lambda value, hold: to_tree(int.__pos__(value), hold)),
    (float, lambda value, hold: float.__pos__(value)),
    (str, lambda value, hold: str.__str__(value)),
    (list, _items("l", list.__iter__)),
    (tuple, _items("t", tuple.__iter__)),
    (set, lambda value, hold: _set_tree("s", value, set, hold)),
    (frozenset, lambda value, hold: _set_tree("f", value, frozenset, hold)),
    (dict, lambda value, hold: ["d", *[to_tree(x, hold) for pair in dict.items(value) for x in pair]]),
    (bytearray, lambda value, hold: ["B", bytes(value).decode("latin-1")]),
    (bytes, lambda value, hold: ["b", bytes(memoryview(value)).decode("latin-1")]),
    (complex, lambda value, hold: ["c", value.real, value.imag]),
    (type, lambda value, hold: ["T", value.__name__] if value in _TYPES.values() else hold(value)),
    (range, lambda value, hold: ["r", *[to_tree(part, hold) for part in (value.start, value.stop, value.step)]]),
    (deque, lambda value, hold: ["q", value.maxlen, *[to_tree(item, hold) for item in deque.__iter__(value)]]),
    (KeysView, _items("k", iter)),
    (Iterator, _items("I", lambda value: islice(value, _ITERATOR_ITEMS))),
)


def from_tree(tree: Any, revive: Revive | None = None) -> Any:
    """The value that a JSON tree stands for.

    Raises:
        NotPlain: if it is not what ``to_tree`` makes.
    """
    try:
        return _value(tree, revive or opaque, _DEEPEST)
    except NotPlain:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise NotPlain(f"not plain data: {type(error).__name__}: {str(error)[:100]}") from None


def opaque(tree: list[Any]) -> Opaque:
    """An object that cannot be used here."""
    _, number, type_name = tree
    if type(number) is not int or type(type_name) is not str:
        raise NotPlain("an object without a number and a name")
    return Opaque(printable_name(type_name))


def _value(tree: Any, revive: Revive, depth: int) -> Any:
    if type(tree) is not list:
        if type(tree) is dict:
            raise NotPlain("a JSON object, where lists with a tag are used")
        return tree
    if not depth:
        raise NotPlain(f"lists nested deeper than {_DEEPEST}")
    tag = tree[0]
    if tag == "l" or tag == "t":
        items = _values(tree, revive, depth - 1)
        return items if tag == "l" else tuple(items)
    if tag == "o":
        return revive(tree)
    if tag in _SCALARS:
        return _SCALARS[tag](*tree[1:])
    items = _values(tree, revive, depth - 1)
    return _CONTAINERS[tag](items) if tag in _CONTAINERS else library_values.from_parts(tag, items)


def _values(tree: list[Any], revive: Revive, depth: int) -> list[Any]:
    """What follows the tag; items that are written as they are need no decoding."""
    items = tree[1:]
    kinds = set(map(type, items))
    if list in kinds or dict in kinds:
        return [_value(item, revive, depth) for item in items]
    return items


def _large_int(digits: str) -> int:
    if len(digits) > _HEX_DIGITS:
        raise NotPlain(f"an int of more than {_HEX_DIGITS} hexadecimal digits")
    return int(digits, 16)


def _complex(real: float, imaginary: float) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise NotPlain("a complex number whose parts are not floats")
    return complex(real, imaginary)


def _range(items: list[Any]) -> range:
    start, stop, step = items
    value = range(start, stop, step)
    # ``list(result)`` in a test must not be a memory bomb.
    if value and abs(value.stop - value.start) // abs(value.step) > _LONGEST_RANGE:
        raise NotPlain(f"a range of more than {_LONGEST_RANGE} items")
    return value


# Decoders of the content itself, and of a list of decoded values.
_SCALARS: dict[str, Callable[..., Any]] = {
    "b": lambda text: text.encode("latin-1"),
    "B": lambda text: bytearray(text.encode("latin-1")),
    "i": _large_int,
    "c": _complex,
    "T": lambda name: _TYPES[name],
}
_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "s": lambda items: build(set, False, checked_keys(items)),
    "f": lambda items: build(frozenset, False, checked_keys(items)),
    "S": lambda items: build(set, True, checked_keys(items)),
    "F": lambda items: build(frozenset, True, checked_keys(items)),
    "d": checked_dict,
    "r": _range,
    "q": lambda items: deque(items[1:], items[0]),
    "k": lambda items: dict.fromkeys(checked_keys(items)).keys(),
    "I": iter,
}


def _forget(value: Any) -> list[Any]:
    return ["o", 0, str(type(value).__name__)]
