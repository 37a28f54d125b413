"""Values of the standard library's types, and numpy's, as plain data.

Each is written as a word and the values it is made of. A type is recognised by the module and name of one of its
base classes, and imported only where such a value is read: neither a program nor a test pays for a library that it
does not use.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, ItemsView, ValuesView
from importlib import import_module
from io import BytesIO, StringIO
from typing import Any

from lit_rl.execution.wire.bounded_json import NotCarried, NotPlain
from lit_rl.execution.wire.hashed import checked_dict
from lit_rl.execution.wire.neutral_values import Array, FieldTuple
from lit_rl.execution.wire.printable import printable_name

_DECIMAL_DIGITS = 10_000
# Reducing a fraction takes time that grows with the square of its digits.
_FRACTION_DIGITS = 8_000
_MOST_FIELDS = 255

_FACTORIES = {kind.__name__: kind for kind in (bool, dict, float, int, list, set, str, tuple)}
_CONSTANTS = {"Ellipsis": Ellipsis, "NotImplemented": NotImplemented}
_ARRAY_CODES = frozenset("bBuhHiIlLqQfd")

# Of numpy's arrays.
_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex", "U": "str"}
_ITEMS = frozenset((bool, int, float, complex, str))
_MOST_AXES = 32
_EMPTY_ROWS = 10_000
_MOST_CHARACTERS = 4 << 20  # of all texts of an array, each padded to the longest


def parts_of(value: Any) -> list[Any] | None:
    """The word for a value's type and what the value is made of; ``None`` for an unknown type."""
    kind = type(value)
    for base in kind.__mro__:
        encode = _PARTS.get((base.__module__, base.__name__))
        if encode is not None:
            return encode(value)
    fields = getattr(value, "_fields", None) if isinstance(value, tuple) else None
    if isinstance(fields, tuple):
        name = value._type_name if isinstance(value, FieldTuple) else kind.__name__
        return ["fields", str(name), list(fields), list(tuple.__iter__(value))]
    if isinstance(value, ItemsView):
        return ["items", *[part for pair in value for part in pair]]
    if isinstance(value, ValuesView):
        return ["values", *value]
    return None


def from_parts(word: str, parts: list[Any]) -> Any:
    """The inverse of ``parts_of``; parts come decoded.

    Raises:
        NotPlain: if no value has such parts; also any error that the type's own constructor raises.
    """
    if type(word) is not str or word not in _MAKERS:
        raise NotPlain("an unknown tag")
    return _MAKERS[word](*parts)


def _mapping_parts(word: str, value: Any) -> list[Any]:
    return [word, *[part for pair in dict.items(value) for part in pair]]


def _defaultdict_parts(value: Any) -> list[Any] | None:
    factory = value.default_factory
    if factory is not None and factory not in _FACTORIES.values():
        return None  # written as the dict it also is
    return ["defaultdict", factory and factory.__name__, *_mapping_parts("", value)[1:]]


def _text_parts(value: Any) -> list[Any]:
    return ["StringIO" if isinstance(value.getvalue(), str) else "BytesIO", value.getvalue(), value.tell()]


def _ndarray_parts(value: Any) -> list[Any]:
    """An array as its type, its shape and its items, row by row."""
    value = _narrowed(value)
    items = value.ravel().tolist()
    if value.dtype.kind not in _KINDS or not _ITEMS.issuperset(map(type, items)):  # of a matrix, lists; masked, None
        return ["plain", value.tolist()]
    return ["ndarray", value.dtype.str, list(value.shape), items]


def _scalar_parts(value: Any) -> list[Any]:
    """A number or text as its type and its value."""
    value = _narrowed(value)
    if value.dtype.kind not in _KINDS:
        return ["plain", value.tolist()]
    return ["numpy", value.dtype.str, value.tolist()]


def _narrowed(value: Any) -> Any:
    """Numbers that are wider than Python's own types, converted to those."""
    kind, size = value.dtype.kind, value.dtype.itemsize
    return value.astype({"f": "<f8", "c": "<c16"}[kind]) if size > {"f": 8, "c": 16}.get(kind, size) else value


def _neutral_parts(value: Array) -> list[Any]:
    """An array that was read without numpy."""
    return ["array of", value.dtype, list(value.shape), list(value._items)]


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
    ("pathlib", "PurePath"): lambda value: ["path", _path_class(value), str(value)],
    ("array", "array"): lambda value: ["array", value.typecode, value.tolist()],
    ("builtins", "ellipsis"): lambda value: ["constant", "Ellipsis"],
    ("builtins", "NotImplementedType"): lambda value: ["constant", "NotImplemented"],
    ("_io", "StringIO"): _text_parts,
    ("_io", "BytesIO"): _text_parts,
    ("numpy", "ndarray"): _ndarray_parts,
    ("numpy", "generic"): _scalar_parts,
    (Array.__module__, "Array"): _neutral_parts,
}


def _path_class(value: Any) -> str:
    return next(base.__name__ for base in type(value).__mro__ if base.__module__.startswith("pathlib"))


def _named(module: str, name: str) -> Any:
    """A class of a module that is imported only now."""
    return getattr(import_module(module), name)


def _counter(*items: Any) -> Any:
    made: Counter[Any] = Counter()
    dict.update(made, checked_dict(items))
    return made


def _defaultdict(factory: str | None, *items: Any) -> Any:
    return defaultdict(None if factory is None else _FACTORIES[factory], checked_dict(items))


def _decimal(text: str) -> Any:
    if type(text) is not str or len(text) > _DECIMAL_DIGITS:
        raise NotCarried(f"a Decimal of more than {_DECIMAL_DIGITS} digits")
    value = _named("decimal", "Decimal")(text)
    if value.is_finite() and abs(value.adjusted()) > _DECIMAL_DIGITS:
        raise NotCarried("a Decimal too large to compute with")
    return value


def _fraction(numerator: str, denominator: str) -> Any:
    if max(len(numerator), len(denominator)) > _FRACTION_DIGITS:
        raise NotCarried(f"a Fraction of more than {_FRACTION_DIGITS} hexadecimal digits")
    return _named("fractions", "Fraction")(int(numerator, 16), int(denominator, 16))


def _instant(kind: str) -> Callable[[str, int], Any]:
    return lambda text, fold: _named("datetime", kind).fromisoformat(text).replace(fold=fold)


def _path(name: str, text: str) -> Any:
    if type(text) is not str or name not in ("Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath"):
        raise NotPlain("a path of an unknown kind")
    return _named("pathlib", name)(text)


def _array(code: str, items: list[Any]) -> Any:
    if code not in _ARRAY_CODES or type(items) is not list:
        raise NotPlain("an array of an unknown kind")
    return _named("array", "array")(code, "".join(items) if code == "u" else items)


def _fields(name: str, fields: list[str], items: list[Any]) -> FieldTuple:
    if len(fields) != len(items) or len(fields) > _MOST_FIELDS or len(set(fields)) != len(fields):
        raise NotPlain("a named tuple whose names do not fit its items")
    # The rule of ``namedtuple``; numpy would read memory at the address in an ``__array_interface__``.
    if not all(type(field) is str and field.isidentifier() and field[0] != "_" for field in fields):
        raise NotPlain("a named tuple with invalid names")
    return FieldTuple.of(printable_name(name), fields, items)


def _file(kind: Callable[[Any], Any]) -> Callable[[str | bytes, int], Any]:
    def make(content: str | bytes, position: int) -> Any:
        made = kind(content)
        made.seek(_within(content, position))
        return made

    return make


def _within(content: str | bytes, position: int) -> int:
    if type(position) is not int or not 0 <= position <= len(content):
        raise NotPlain("a position outside of the content")
    return position


def _ndarray(dtype: str, shape: list[int], items: list[Any]) -> Any:
    """A NumPy array if this process has loaded numpy, else a stand-in for one."""
    name = _dtype_name(dtype)
    if "U" in dtype and int(dtype[2:]) * len(items) > _MOST_CHARACTERS:
        raise NotCarried("an array of texts with more elements than can be held")
    axes = _checked_shape(shape, items)
    numpy = _numpy()
    if numpy is not None:
        return numpy.array(items, dtype=dtype).reshape(axes)
    return Array(name, axes, items)


def _scalar(dtype: str, item: Any) -> Any:
    """A NumPy scalar if this process has loaded numpy, else Python's own."""
    _dtype_name(dtype)
    numpy = _numpy()
    return item if numpy is None else numpy.dtype(dtype).type(item)


def _numpy() -> Any:
    """The package itself, if this process has loaded it; not a stand-in for it."""
    loaded = sys.modules.get("numpy")
    return loaded if hasattr(loaded, "frombuffer") else None


def _array_of(name: str, shape: list[int], items: list[Any]) -> Array:
    """An array that was read without numpy before, read again."""
    return Array(printable_name(name), _checked_shape(shape, items), items)


def _checked_shape(shape: list[int], items: list[Any]) -> tuple[int, ...]:
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


_MAKERS: dict[str, Callable[..., Any]] = {
    "Counter": _counter,
    "OrderedDict": lambda *items: OrderedDict(checked_dict(items)),
    "defaultdict": _defaultdict,
    "items": lambda *items: checked_dict(items).items(),
    "values": lambda *items: dict(enumerate(items)).values(),
    "fields": _fields,
    "Decimal": _decimal,
    "Fraction": _fraction,
    "datetime": _instant("datetime"),
    "date": lambda text: _named("datetime", "date").fromisoformat(text),
    "time": _instant("time"),
    "timedelta": lambda days, seconds, rest: _named("datetime", "timedelta")(days, seconds, rest),
    "timezone": lambda offset: _named("datetime", "timezone")(offset),
    "path": _path,
    "array": _array,
    "constant": lambda name: _CONSTANTS[name],
    "StringIO": _file(StringIO),
    "BytesIO": _file(BytesIO),
    "ndarray": _ndarray,
    "numpy": _scalar,
    "array of": _array_of,
    "plain": lambda value: value,
}
