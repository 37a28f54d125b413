"""Values as plain data, the only form in which anything crosses a border of the sandbox.

A value becomes a JSON tree in which every list starts with a tag. Decoding checks exact shapes, calls no code
of the sender, and cannot be made slow: bytes, depth, items and digits are bounded, and a set or dict whose keys
were chosen to collide is refused.

Tags of builtin types: ``l`` list, ``t`` tuple, ``s`` set, ``f`` frozenset,
``d`` dict (keys, values in turn), ``b`` bytes, ``B`` bytearray, ``i`` large int (hexadecimal), ``c`` complex,
``r`` range, ``q`` deque, ``I`` iterator, ``T`` type, ``o`` anything else (by the number that its owner gave it), and
``!`` the reason why a value cannot be carried. Types of the standard library and numpy's arrays have words as tags:
see ``library_values``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from lit_rl.execution.wire import library_values
from lit_rl.execution.wire.bounded_json import NotCarried as NotCarried
from lit_rl.execution.wire.bounded_json import NotPlain as NotPlain
from lit_rl.execution.wire.bounded_json import (
    checked_dict_from_flat,
    checked_json_text,
    collision_free_keys,
    parse_bounded_json,
)
from lit_rl.execution.wire.library_values import Opaque as Opaque
from lit_rl.execution.wire.printable import make_printable, printable_name

_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_SMALL_INT = 1 << 63
_ITERATOR_ITEMS = 100_000
_SIMPLE = frozenset((bool, float, str, type(None)))
_MAX_RANGE_LENGTH = 1_000_000
# Lists within lists; more could not be compared or printed within the interpreter's own limit.
_MAX_DEPTH = 100
TOO_DEEP = f"lists nested deeper than {_MAX_DEPTH}"
# All that is done to an int is linear, with two exceptions: comparing it with a Decimal takes 0.2 seconds at 100,000
# digits and 20 seconds at a million; comparing it with each of many fractions multiplies it each time.
_HEX_DIGITS = 8_000_000
DIGITS_BESIDE_OTHERS = 100_000
_NOT_BESIDE_LARGE = ("Decimal", "Fraction")
_TOO_LARGE = f"an int of more than {_HEX_DIGITS} hexadecimal digits"
_RANGE_BITS = 4096
_MAX_REASON_LENGTH = 200

# Types are data where tests pass them as arguments.
_TYPES = {
    kind.__name__: kind for kind in (bool, bytes, complex, dict, float, frozenset, int, list, object, set, str, tuple)
}

ToRef = Callable[[Any], list[Any]]
FromRef = Callable[[list[Any]], Any]


def dumps(value: Any) -> str:
    """Return ``value`` as a JSON text, with the type's name in place of an object that is not plain data."""
    return checked_json_text(_ENCODE(to_json_tree(value, lambda other: ["o", 0, type(other).__name__])))


def dumps_or_reason(value: Any) -> str:
    """Return ``value`` as a JSON text. If ``value`` cannot be carried, the text makes ``loads`` raise the reason."""
    try:
        return dumps(value)
    except NotCarried as error:
        return _ENCODE(not_carried_tree(error))


def not_carried_tree(error: NotCarried) -> list[Any]:
    """Return the tree for a value that cannot be carried."""
    return ["!", str(error)]


def loads(text: str | bytes, *, beside_large: bool = False) -> Any:
    """Return the value in a JSON text.

    Args:
        text: the text as it arrived.
        beside_large: whether the value is compared with what may hold large ints; then no Decimal or Fraction is read.
    """
    return from_json_tree(parse_bounded_json(text), beside_large=beside_large)


def to_json_tree(value: Any, to_ref: ToRef, depth: int = _MAX_DEPTH) -> Any:
    """Return ``value`` as a JSON tree; subclasses of builtin types are reduced to what the builtin type holds."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        if -_SMALL_INT < value < _SMALL_INT:
            return value
        if value.bit_length() > 4 * _HEX_DIGITS:
            raise NotCarried(_TOO_LARGE)
        return ["i", hex(value)]
    if not depth:
        raise NotCarried(TOO_DEEP)
    if kind is list or kind is tuple:
        tag = "l" if kind is list else "t"
        return (
            [tag, *value] if _all_simple(value) else [tag, *[to_json_tree(item, to_ref, depth - 1) for item in value]]
        )
    if kind is dict:
        return ["d", *[to_json_tree(part, to_ref, depth - 1) for pair in value.items() for part in pair]]
    return _uncommon_to_json_tree(value, to_ref, depth)


def _all_simple(items: Sequence[Any]) -> bool:
    """Return whether all items are written as they are, as a short cut for long flat sequences."""
    kinds = set(map(type, items))
    if kinds <= _SIMPLE:
        return True
    return kinds == {int} and min(items) > -_SMALL_INT and max(items) < _SMALL_INT


def _uncommon_to_json_tree(value: Any, to_ref: ToRef, depth: int) -> Any:
    parts = library_values.type_and_parts(value)
    if parts is not None:
        return [parts[0], *[to_json_tree(part, to_ref, depth - 1) for part in parts[1:]]]
    for base, encode in _ENCODERS:
        if isinstance(value, base):
            return encode(value, to_ref, depth)
    return to_ref(value)


def _items_encoder(tag: str, iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any, ToRef, int], list[Any]]:
    return lambda value, to_ref, depth: [tag, *[to_json_tree(item, to_ref, depth - 1) for item in iterate(value)]]


_ENCODERS: tuple[tuple[Any, Callable[[Any, ToRef, int], Any]], ...] = (
    (bool, lambda value, to_ref, depth: bool(value)),
    (int, lambda value, to_ref, depth: to_json_tree(int.__pos__(value), to_ref, depth)),
    (float, lambda value, to_ref, depth: float.__pos__(value)),
    (str, lambda value, to_ref, depth: str.__str__(value)),
    (list, _items_encoder("l", list.__iter__)),
    (tuple, _items_encoder("t", tuple.__iter__)),
    (set, _items_encoder("s", set.__iter__)),
    (frozenset, _items_encoder("f", frozenset.__iter__)),
    (dict, _items_encoder("d", lambda value: chain.from_iterable(dict.items(value)))),
    (bytearray, lambda value, to_ref, depth: ["B", bytes(value).decode("latin-1")]),
    (bytes, lambda value, to_ref, depth: ["b", bytes(memoryview(value)).decode("latin-1")]),
    (complex, lambda value, to_ref, depth: ["c", value.real, value.imag]),
    (type, lambda value, to_ref, depth: ["T", value.__name__] if value in _TYPES.values() else to_ref(value)),
    (range, _items_encoder("r", lambda value: iter((value.start, value.stop, value.step)))),
    (deque, _items_encoder("q", lambda value: chain((value.maxlen,), deque.__iter__(value)))),
    (Iterator, _items_encoder("I", lambda value: islice(value, _ITERATOR_ITEMS))),
)


def from_json_tree(tree: Any, from_ref: FromRef | None = None, *, beside_large: bool = False) -> Any:
    """Return the value that a JSON tree encodes.

    Args:
        tree: what ``to_json_tree`` made.
        from_ref: turns ``["o", ...]`` into an object.
        beside_large: as for ``loads``.
    """
    try:
        try:
            if not beside_large:
                return _decode_tree(tree, from_ref or opaque_from_tree, _MAX_DEPTH)
        except _LargeIntFound:
            pass
        return _decode_tree(_decode_large_ints(tree, _MAX_DEPTH), from_ref or opaque_from_tree, _MAX_DEPTH)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        fault = f"not plain data: {type(error).__name__}: {str(error)[:100]}"
        raise error if isinstance(error, NotPlain) else NotPlain(fault) from None


def opaque_from_tree(tree: list[Any]) -> Opaque:
    """Return a placeholder for an object of the program that is not plain data."""
    return Opaque(printable_name(tree[2]))


def _decode_tree(tree: Any, from_ref: FromRef, depth: int) -> Any:
    if type(tree) is not list:
        if type(tree) is dict:
            raise NotPlain("a JSON object, where lists with a tag are used")
        return tree
    if not depth:
        raise NotCarried(TOO_DEEP)
    tag = tree[0]
    if tag == "l" or tag == "t":
        items = _decode_items(tree, from_ref, depth - 1)
        return items if tag == "l" else tuple(items)
    if tag == "o":
        return from_ref(tree)
    if tag in _SCALARS:
        return _SCALARS[tag](*tree[1:])
    items = _decode_items(tree, from_ref, depth - 1)
    return _CONTAINERS[tag](items) if tag in _CONTAINERS else library_values.value_from_parts(tag, items)


def _decode_items(tree: list[Any], from_ref: FromRef, depth: int) -> list[Any]:
    """Decode the items after the tag; items that are written as they are need no decoding."""
    items = tree[1:]
    kinds = set(map(type, items))
    if list in kinds or dict in kinds:
        return [_decode_tree(item, from_ref, depth) for item in items]
    return items


class _LargeIntFound(Exception):
    """A tree holds an int that must not be compared with everything."""


def _parse_small_int(digits: str) -> int:
    if len(digits) > DIGITS_BESIDE_OTHERS:
        raise _LargeIntFound
    return int(digits, 16)


def _decode_large_ints(tree: Any, depth: int) -> Any:
    """Return a tree with its large ints decoded; refuse it if anything in it is slow to compare with them."""
    if type(tree) is not list or not depth:
        return tree
    if tree[:1] == ["i"]:
        (digits,) = tree[1:]
        if len(digits) > _HEX_DIGITS + len("-0x"):
            raise NotCarried(_TOO_LARGE)
        return int(digits, 16)
    if tree and tree[0] in _NOT_BESIDE_LARGE:
        raise NotCarried(f"a {tree[0]} beside an int of more than {DIGITS_BESIDE_OTHERS} hexadecimal digits")
    return [_decode_large_ints(part, depth - 1) for part in tree]


def _raise_not_carried(text: str) -> Any:
    raise NotCarried(make_printable(text[:_MAX_REASON_LENGTH]))


def _decode_range(items: list[Any]) -> range:
    start, stop, step = items
    is_large = max(part.bit_length() for part in items) > _RANGE_BITS
    # ``list(result)`` in a test must not be a memory bomb.
    if is_large or (range(start, stop, step) and abs(stop - start) // abs(step) > _MAX_RANGE_LENGTH):
        raise NotCarried(f"a range of more than {_MAX_RANGE_LENGTH} items, or of ints of more than {_RANGE_BITS} bits")
    return range(start, stop, step)


# Decoders of the content itself, and of a list of decoded values.
_SCALARS: dict[str, Callable[..., Any]] = {
    "b": lambda text: text.encode("latin-1"),
    "B": lambda text: bytearray(text.encode("latin-1")),
    "i": _parse_small_int,
    "!": _raise_not_carried,
    "c": complex,
    "T": lambda name: _TYPES[name],
}
_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "s": lambda items: set(collision_free_keys(items)),
    "f": lambda items: frozenset(collision_free_keys(items)),
    "d": checked_dict_from_flat,
    "r": _decode_range,
    "q": lambda items: deque(items[1:], items[0]),
    "I": iter,
}
