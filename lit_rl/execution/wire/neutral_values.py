"""Stand-ins for values whose types exist only in the program's process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Opaque:
    """An object of the program's that is not plain data. Equal to nothing but itself."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __repr__(self) -> str:
        return f"<{self.type_name} object of the program>"


class FieldTuple(tuple[Any, ...]):
    """A named tuple: a tuple whose items are attributes too. Equal to a tuple of the same items.

    One class serves all: making one for each type that a program names would be slow.
    """

    _type_name: str
    _fields: tuple[str, ...]

    @classmethod
    def of(cls, type_name: str, fields: Sequence[str], items: Sequence[Any]) -> FieldTuple:
        """A tuple of ``items`` under the names ``fields``."""
        made = cls(items)
        made.__dict__.update(_type_name=type_name, _fields=tuple(fields))
        return made

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("_fields", ())
        if name in fields:
            return self[fields.index(name)]
        raise AttributeError(f"{self.__dict__.get('_type_name', 'FieldTuple')!r} object has no attribute {name!r}")

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def _replace(self, **changed: Any) -> FieldTuple:
        if not changed.keys() <= set(self._fields):
            raise ValueError(f"got unexpected field names: {sorted(changed.keys() - set(self._fields))}")
        return FieldTuple.of(self._type_name, self._fields, list({**self._asdict(), **changed}.values()))

    def __repr__(self) -> str:
        return f"{self._type_name}({', '.join(f'{name}={item!r}' for name, item in self._asdict().items())})"


class Array:
    """A NumPy array in a process without numpy: its items with a shape and a dtype.

    Like numpy's it compares item by item, and only an array of one item has a truth value.

    Args:
        dtype: name of the items' type, such as ``int64``.
        shape: length of each axis.
        items: all items, row by row.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, dtype: str, shape: tuple[int, ...], items: Sequence[Any]) -> None:
        self.dtype = dtype
        self.shape = shape
        self._items = list(items)

    @property
    def size(self) -> int:
        """Number of items."""
        return len(self._items)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def tolist(self) -> Any:
        """The items in nested lists."""
        if not self.shape:
            return self._items[0]
        return [part.tolist() if isinstance(part, Array) else part for part in map(self.__getitem__, range(len(self)))]

    def all(self) -> bool:
        """Return whether every item is true."""
        return all(self._items)

    def any(self) -> bool:
        """Return whether some item is true."""
        return any(self._items)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            head, *rest = key
            return self[head][tuple(rest)] if rest else self[head]
        step = self.size // self.shape[0] if self.shape and self.shape[0] else 0
        if isinstance(key, slice):
            indices = range(len(self))[key]
            items = [item for index in indices for item in self._items[index * step : (index + 1) * step]]
            return Array(self.dtype, (len(indices), *self.shape[1:]), items)
        index = range(len(self))[key]
        if len(self.shape) == 1:
            return self._items[index]
        return Array(self.dtype, self.shape[1:], self._items[index * step : (index + 1) * step])

    def __eq__(self, other: object) -> Any:
        return self._compared(other, lambda mine, theirs: bool(mine == theirs))

    def __ne__(self, other: object) -> Any:
        return self._compared(other, lambda mine, theirs: bool(mine != theirs))

    def _compared(self, other: object, compare: Callable[[Any, Any], bool]) -> Array:
        theirs = _flat(other, self.shape) if isinstance(other, Array | list | tuple) else [other] * self.size
        return Array("bool", self.shape, [compare(*pair) for pair in zip(self._items, theirs, strict=True)])

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError("The truth value of an array with more than one element is ambiguous")
        return bool(self._items[0])

    def __repr__(self) -> str:
        return f"array({self.tolist()!r})"


def _flat(value: Any, shape: tuple[int, ...]) -> list[Any]:
    """The items of nested sequences, row by row.

    Raises:
        ValueError: if they do not have this shape.
    """
    rows = value.tolist() if isinstance(value, Array) else value
    if isinstance(rows, list | tuple) != bool(shape) or (shape and len(rows) != shape[0]):
        raise ValueError(f"an array of the shape {shape} cannot be compared with one of another")
    return [item for part in rows for item in _flat(part, shape[1:])] if shape else [rows]
