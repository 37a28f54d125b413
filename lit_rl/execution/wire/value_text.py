"""Values and texts as shown to a reader: shortened, the same in each run, without calling the value's own code.

The text depends on the value alone: it shows no address, and no order of a set. The work depends on what is shown, not
on the size of the value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any

from lit_rl.execution.wire.library_values import FieldTuple, Opaque
from lit_rl.execution.wire.printable import make_printable

MAX_SHOWN_LENGTH = 500
"""Characters of one value or text."""

_CUT = " ... "
# The middle of a text up to this long is cut out; of a longer one, only the beginning is shown.
_MAX_WRITTEN = 4 * MAX_SHOWN_LENGTH
_MAX_SET = 1000
_MAX_PIECES_OF_AN_ITEM = 100
_MAX_INT_BITS = 4096
_MAX_DEPTH = 100
_WRITTEN_AS_THEY_ARE = (bool, complex, float, range, type, type(None), type(...))
_MODULES_WRITTEN_AS_THEY_ARE = frozenset(("datetime", "decimal", "fractions"))


def shorten_text(text: str, longest: int = MAX_SHOWN_LENGTH) -> str:
    """Return a printable text; of a text longer than the limit, only the beginning and the end.

    Example:
        >>> shorten_text("0123456789" * 3, 15)
        '01234 ... 56789'
    """
    if len(text) > longest:
        kept = longest - len(_CUT)
        text = text[: kept - kept // 2] + _CUT + text[len(text) - kept // 2 :]
    return make_printable(text)


def value_text(value: Any) -> str:
    """Return a value as Python writes it, shortened; empty if the value cannot be written.

    Example:
        >>> value_text({"b": {3, 1, 2}})
        "{'b': {1, 2, 3}}"
    """
    pieces, length = [], 0
    try:
        for piece in _value_text_pieces(value, _MAX_DEPTH):
            pieces.append(piece)
            length += len(piece)
            if length > _MAX_WRITTEN:
                is_counted = isinstance(value, Collection) and not isinstance(value, str | bytes)
                size = f" ({len(value)} items)" if is_counted else ""
                return (
                    make_printable("".join(pieces)[: MAX_SHOWN_LENGTH - len(_CUT) - len(size)]) + _CUT.rstrip() + size
                )
    except Exception:  # whatever a value of a test's own class raises; a text never decides anything
        return ""
    return shorten_text("".join(pieces))


def call_text(name: str, args: Collection[Any], kwargs: dict[str, Any]) -> str:
    """Return a call as Python writes it, shortened."""
    parts = [value_text(value) for value in islice(args, MAX_SHOWN_LENGTH)]
    parts += [f"{key}={value_text(value)}" for key, value in islice(kwargs.items(), MAX_SHOWN_LENGTH)]
    return shorten_text(f"{name}({', '.join(parts)})")


def source_excerpt(source: str, first: int, last: int) -> str:
    """Return lines of a source, given by 1-based numbers, shortened and without the indentation of the first."""
    return shorten_text("\n".join(source.split("\n")[first - 1 : last]).strip())


def _value_text_pieces(value: Any, depth: int) -> Iterator[str]:
    """Yield the text of a value, a little at a time."""
    if not depth:
        yield "..."
    elif isinstance(value, _WRITTEN_AS_THEY_ARE):
        yield repr(value)
    elif isinstance(value, int):
        yield int.__repr__(value) if value.bit_length() <= _MAX_INT_BITS else shorten_text(hex(value))
    elif isinstance(value, str | bytes | bytearray):
        yield repr(_without_middle(value))
    elif isinstance(value, FieldTuple):
        yield from _items_text(f"{value._type_name}(", value._asdict().items(), ")", depth, _field_text)
    else:
        yield from _container_text(value, depth)


def _container_text(value: Any, depth: int) -> Iterator[str]:
    for kind, opening, closing in _SEQUENCES:
        if isinstance(value, kind):
            if kind is tuple and len(value) == 1:
                closing = ",)"
            yield from _items_text(opening, value, closing, depth, _value_text_pieces)
            return
    if isinstance(value, set | frozenset):
        yield from _set_text(value, depth)
    elif isinstance(value, dict):
        name = "" if type(value) is dict else type(value).__name__
        yield from _items_text(f"{name}({{" if name else "{", value.items(), "})" if name else "}", depth, _pair_text)
    elif type(value).__module__ == "numpy":
        yield "array("
        yield from _value_text_pieces(value.tolist(), depth - 1)
        yield ")"
    elif type(value).__module__.partition(".")[0] in _MODULES_WRITTEN_AS_THEY_ARE:
        yield shorten_text(repr(value))
    else:
        yield f"<{value.type_name if isinstance(value, Opaque) else type(value).__name__} object>"


def _items_text(
    opening: str, items: Any, closing: str, depth: int, write: Callable[[Any, int], Iterator[str]]
) -> Iterator[str]:
    yield opening
    for index, item in enumerate(items):
        if index:
            yield ", "
        yield from write(item, depth - 1)
    yield closing


def _pair_text(pair: tuple[Any, Any], depth: int) -> Iterator[str]:
    yield from _value_text_pieces(pair[0], depth)
    yield ": "
    yield from _value_text_pieces(pair[1], depth)


def _field_text(pair: tuple[str, Any], depth: int) -> Iterator[str]:
    yield f"{pair[0]}="
    yield from _value_text_pieces(pair[1], depth)


def _set_text(value: Collection[Any], depth: int) -> Iterator[str]:
    """Yield the items in a fixed order, because a set of texts iterates differently in each process."""
    name = type(value).__name__
    if len(value) > _MAX_SET:
        yield f"<{name} of {len(value)} items>"
        return
    kinds = {type(item) for item in value}
    if kinds <= {int, bool} or kinds in ({str}, {float}):
        ordered: list[Any] = [*_pieces_of_each(sorted(value), depth)]
    else:
        ordered = sorted(_pieces_of_each(value, depth))
    opening, closing = (
        ("{", "}") if isinstance(value, set) and value else (f"{name}({{", "})") if value else (name, "()")
    )
    yield f"{opening}{', '.join(ordered)}{closing}"


def _pieces_of_each(items: Collection[Any], depth: int) -> Iterator[str]:
    return ("".join(islice(_value_text_pieces(item, depth - 1), _MAX_PIECES_OF_AN_ITEM)) for item in items)


def _without_middle(text: Any) -> Any:
    """Cut text or bytes before they are written, so that what is too long is never written whole."""
    if len(text) <= MAX_SHOWN_LENGTH:
        return text
    half, cut = MAX_SHOWN_LENGTH // 2, _CUT if isinstance(text, str) else _CUT.encode()
    return text[:half] + cut + text[-half:]


_SEQUENCES: tuple[tuple[Any, str, str], ...] = (
    (list, "[", "]"),
    (tuple, "(", ")"),
    (deque, "deque([", "])"),
)
