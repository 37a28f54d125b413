"""Values of the standard library's types, and numpy's, as plain data.

Each is written as a word and the values it is made of. A type is recognised by the module and name of one of its
base classes, and imported only where such a value is read: neither a program nor a test pays for a library that it
does not use.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, ItemsView, ValuesView
from importlib import import_module
from io import BytesIO, StringIO
from typing import Any

from lit_rl.execution.wire import array_values
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
    ("numpy", "ndarray"): array_values.ndarray_parts,
    ("numpy", "generic"): array_values.scalar_parts,
    (Array.__module__, "Array"): array_values.neutral_parts,
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
    "ndarray": array_values.ndarray,
    "numpy": array_values.scalar,
    "array of": array_values.array_of,
    "plain": lambda value: value,
}
