"""NumPy arrays and scalars as plain data, read with or without numpy."""

from __future__ import annotations

import sys
from typing import Any

from lit_rl.execution.wire.bounded_json import NotCarried, NotPlain
from lit_rl.execution.wire.neutral_values import Array
from lit_rl.execution.wire.printable import printable_name

_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "U": "str"}
_ITEMS = frozenset((bool, int, float, complex, str))
_MOST_AXES = 32
_EMPTY_ROWS = 10_000
_MOST_CHARACTERS = 4 << 20  # of all texts of an array, each padded to the longest


def ndarray_parts(value: Any) -> list[Any]:
    """An array as its type, its shape and its items, row by row."""
    value = _narrowed(value)
    items = value.ravel().tolist()
    if value.dtype.kind not in _KINDS or not _ITEMS.issuperset(map(type, items)):  # of a matrix, lists; masked, None
        return ["plain", value.tolist()]
    return ["ndarray", value.dtype.str, list(value.shape), items]


def scalar_parts(value: Any) -> list[Any]:
    """A number or text as its type and its value."""
    value = _narrowed(value)
    if value.dtype.kind not in _KINDS:
        return ["plain", value.tolist()]
    return ["numpy", value.dtype.str, value.tolist()]


def _narrowed(value: Any) -> Any:
    """Numbers that are wider than Python's own types, converted to those."""
    kind, size = value.dtype.kind, value.dtype.itemsize
    return value.astype({"f": "<f8", "c": "<c16"}[kind]) if size > {"f": 8, "c": 16}.get(kind, size) else value


def ndarray(dtype: str, shape: list[int], items: list[Any]) -> Any:
    """A NumPy array if this process has loaded numpy, else a stand-in for one."""
    name = _dtype_name(dtype)
    if "U" in dtype and int(dtype[2:]) * len(items) > _MOST_CHARACTERS:
        raise NotCarried("an array of texts with more elements than can be held")
    axes = _shape(shape, items)
    numpy = _numpy()
    if numpy is not None:
        return numpy.array(items, dtype=dtype).reshape(axes)
    return Array(name, axes, items)


def scalar(dtype: str, item: Any) -> Any:
    """A NumPy scalar if this process has loaded numpy, else Python's own."""
    _dtype_name(dtype)
    numpy = _numpy()
    return item if numpy is None else numpy.dtype(dtype).type(item)


def _numpy() -> Any:
    """The package itself, if this process has loaded it; not a stand-in for it."""
    loaded = sys.modules.get("numpy")
    return loaded if hasattr(loaded, "frombuffer") else None


def array_of(name: str, shape: list[int], items: list[Any]) -> Array:
    """An array that was read without numpy before, read again."""
    return Array(printable_name(name), _shape(shape, items), items)


def _shape(shape: list[int], items: list[Any]) -> tuple[int, ...]:
    """The shape, if the items fill it and walking it takes no longer than walking the items."""
    if len(shape) > _MOST_AXES or not all(type(length) is int and length >= 0 for length in shape):
        raise NotPlain("an array without a valid shape")
    size, rows = 1, 1
    for length in shape:
        size, rows = size * length, rows * max(1, length)
        if rows > max(len(items), _EMPTY_ROWS):
            raise NotPlain("an array with more elements than items")
    if size != len(items) or any(type(item) not in _ITEMS for item in items):
        raise NotPlain("an array whose items do not fit its shape")
    return tuple(shape)


def _dtype_name(dtype: str) -> str:
    """``int64`` for ``<i8``."""
    kind, size = dtype[1:2], dtype[2:]
    if dtype[:1] not in ("<", "|", ">", "=") or kind not in _KINDS or not (size.isdecimal() and len(size) < 6):
        raise NotPlain("an array of an unknown type")
    return _KINDS[kind] if kind in "bU" else f"{_KINDS[kind]}{8 * int(size)}"


def neutral_parts(value: Array) -> list[Any]:
    """An array that was read without numpy."""
    return ["array of", value.dtype, list(value.shape), list(value._items)]
