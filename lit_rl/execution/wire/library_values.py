"""Values of the standard library's types, and numpy's arrays, as plain data; stand-ins for values without that form.

Each value is written as a word and the values that it is made of. A type is recognised by the module and name of one of
its base classes, and is imported only where such a value is read: neither a program nor a test pays for a library that
it does not use.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from lit_rl.execution.wire.bounded_json import NotCarried, NotPlain, checked_dict_from_flat
from lit_rl.execution.wire.printable import printable_name

_DECIMAL_DIGITS = 10_000
# Reducing a fraction takes time that grows with the square of its digits.
_FRACTION_DIGITS = 8_000
_MAX_FIELDS = 255
_FACTORIES = {kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple)}
# Types of numpy's arrays.
_DTYPE = re.compile(r"[<>|=][biufc](?:1|2|4|8|16)")
_NUMBERS = frozenset((bool, int, float, complex))
_MAX_AXES = 32
_EMPTY_ROWS = 10_000


class Opaque:
    """An object of the program that is not plain data; it equals nothing but itself."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __repr__(self) -> str:
        return f"<{self.type_name} object of the program>"


class FieldTuple(tuple[Any, ...]):
    """A named tuple: a tuple whose items are attributes too; it equals a tuple of the same items.

    One class serves all named tuples: making a class for each type that a program names would be slow.
    """

    _type_name: str
    _fields: tuple[str, ...]

    @classmethod
    def of(cls, type_name: str, fields: Sequence[str], items: Sequence[Any]) -> FieldTuple:
        """Make a tuple of ``items`` under the names ``fields``."""
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
        return FieldTuple.of(self._type_name, self._fields, list({**self._asdict(), **changed}.values()))

    def __repr__(self) -> str:
        return f"{self._type_name}({', '.join(f'{name}={item!r}' for name, item in self._asdict().items())})"


def type_and_parts(value: Any) -> list[Any] | None:
    """Return the word for a value's type and what the value is made of; ``None`` for an unknown type."""
    kind = type(value)
    for base in kind.__mro__:
        encode = _PARTS.get((base.__module__, base.__name__))
        if encode is not None:
            return encode(value)
    fields = getattr(value, "_fields", None) if isinstance(value, tuple) else None
    if isinstance(fields, tuple):
        name = value._type_name if isinstance(value, FieldTuple) else kind.__name__
        return ["fields", str(name), list(fields), list(tuple.__iter__(value))]
    return None


def value_from_parts(word: str, parts: list[Any]) -> Any:
    """Make a value from a word and decoded parts, as the inverse of ``type_and_parts``."""
    if type(word) is not str or word not in _MAKERS:
        raise NotPlain("an unknown tag")
    return _MAKERS[word](*parts)


def _mapping_parts(word: str, value: Any) -> list[Any]:
    return [word, *[part for pair in dict.items(value) for part in pair]]


def _defaultdict_parts(value: Any) -> list[Any] | None:
    factory = value.default_factory
    if factory is not None and factory not in _FACTORIES.values():
        return None  # it is written as a dict, which it also is
    return ["defaultdict", factory and factory.__name__, *_mapping_parts("", value)[1:]]


def _array_parts(value: Any) -> list[Any]:
    """Return an array of numbers as its type, shape and items, row by row; return any other array as its lists."""
    items = value.ravel().tolist()
    if not _DTYPE.fullmatch(value.dtype.str) or not _NUMBERS.issuperset(map(type, items)):
        return ["plain", value.tolist()]
    return ["array", value.dtype.str, list(value.shape), items]


def _numpy_scalar_parts(value: Any) -> list[Any]:
    item = value.tolist()
    is_wide = type(item).__module__ == "numpy"
    return ["plain", complex(item) if is_wide and value.dtype.kind == "c" else float(item) if is_wide else item]


_PARTS: dict[tuple[str, str], Callable[[Any], list[Any] | None]] = {
    ("collections", "Counter"): lambda value: _mapping_parts("Counter", value),
    ("collections", "OrderedDict"): lambda value: _mapping_parts("OrderedDict", value),
    ("collections", "defaultdict"): _defaultdict_parts,
    ("decimal", "Decimal"): lambda value: ["Decimal", str(value)],
    ("fractions", "Fraction"): lambda value: ["Fraction", hex(value.numerator), hex(value.denominator)],
    ("datetime", "datetime"): lambda value: ["datetime", value.isoformat(), value.fold],
    ("datetime", "date"): lambda value: ["date", value.isoformat()],
    ("datetime", "time"): lambda value: ["time", value.isoformat(), value.fold],
    ("datetime", "timedelta"): lambda value: ["timedelta", value.days, value.seconds, value.microseconds],
    ("datetime", "timezone"): lambda value: ["timezone", value.utcoffset(None)],
    ("array", "array"): lambda value: ["plain", value.tolist()],
    ("numpy", "ndarray"): _array_parts,
    ("numpy", "generic"): _numpy_scalar_parts,
}


def _import_class(module: str, name: str) -> Any:
    """Import a module and return a class of it."""
    return getattr(import_module(module), name)


def _make_decimal(text: str) -> Any:
    is_short = type(text) is str and len(text) <= _DECIMAL_DIGITS
    value = _import_class("decimal", "Decimal")(text) if is_short else None
    if value is None or (value.is_finite() and abs(value.adjusted()) > _DECIMAL_DIGITS):
        raise NotCarried("a Decimal too large to compute with")
    return value


def _make_fraction(numerator: str, denominator: str) -> Any:
    if max(len(numerator), len(denominator)) > _FRACTION_DIGITS:
        raise NotCarried(f"a Fraction of more than {_FRACTION_DIGITS} hexadecimal digits")
    return _import_class("fractions", "Fraction")(int(numerator, 16), int(denominator, 16))


def _datetime_maker(kind: str) -> Callable[[str, int], Any]:
    return lambda text, fold: _import_class("datetime", kind).fromisoformat(text).replace(fold=fold)


def _make_field_tuple(name: str, fields: list[str], items: list[Any]) -> FieldTuple:
    # The rule of ``namedtuple``; numpy would read memory at the address in an ``__array_interface__``.
    are_names = all(type(field) is str and field.isidentifier() and field[0] != "_" for field in fields)
    if not are_names or not len(set(fields)) == len(fields) == len(items) <= _MAX_FIELDS:
        raise NotPlain("a named tuple whose names do not fit its items")
    return FieldTuple.of(printable_name(name), fields, items)


def _make_array_or_lists(dtype: str, shape: list[int], items: list[Any]) -> Any:
    """Make a NumPy array if this process has loaded numpy, and nested lists otherwise.

    The items must fill the shape, and walking the shape must take no longer than walking the items.
    """
    most = max(len(items), _EMPTY_ROWS)
    is_shape = len(shape) <= _MAX_AXES and all(type(length) is int and 0 <= length <= most for length in shape)
    is_small = is_shape and math.prod(max(1, length) for length in shape) <= most
    is_filled = is_small and math.prod(shape) == len(items) and _NUMBERS.issuperset(map(type, items))
    if not is_filled or not _DTYPE.fullmatch(dtype):
        raise NotPlain("an array whose items do not fit its shape")
    numpy: Any = sys.modules.get("numpy")
    if hasattr(numpy, "frombuffer"):  # the package itself, and not a stand-in for it
        return numpy.array(items, dtype=dtype).reshape(shape)
    return _reshape_list(items, shape)


def _reshape_list(items: list[Any], shape: list[int]) -> Any:
    if not shape:
        return items[0]
    step = len(items) // shape[0] if shape[0] else 0
    return [_reshape_list(items[index * step : (index + 1) * step], shape[1:]) for index in range(shape[0])]


_MAKERS: dict[str, Callable[..., Any]] = {
    "Counter": lambda *items: Counter(checked_dict_from_flat(items)),
    "OrderedDict": lambda *items: OrderedDict(checked_dict_from_flat(items)),
    "defaultdict": lambda factory, *items: defaultdict(factory and _FACTORIES[factory], checked_dict_from_flat(items)),
    "fields": _make_field_tuple,
    "Decimal": _make_decimal,
    "Fraction": _make_fraction,
    "datetime": _datetime_maker("datetime"),
    "date": lambda text: _import_class("datetime", "date").fromisoformat(text),
    "time": _datetime_maker("time"),
    "timedelta": lambda days, seconds, rest: _import_class("datetime", "timedelta")(days, seconds, rest),
    "timezone": lambda offset: _import_class("datetime", "timezone")(offset),
    "array": _make_array_or_lists,
    "plain": lambda value: value,
}
