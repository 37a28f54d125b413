"""Bounds on memory and time for reading JSON that an untrusted process may have written, and its sets and dicts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

MAX_LENGTH = 16 << 20
"""Most bytes of one text: the longest file that a program may write by default."""

MAX_CALL_LENGTH = 1 << 20
"""Most bytes of a call of a function that lives in the supervisor."""

MAX_UNITS = 2_000_000
"""Most memory that one text may need once it is read, in units of about 64 bytes."""

# The characters that stand for memory: a list takes as much memory as three numbers, an object as much as six.
_COSTS = ((",", 1), ("[", 3), ("{", 6))
# A string that is never closed matches too, so that each search begins where the last one ended: linear time.
_STRINGS = re.compile(r'"[^"\\]*(?:\\(?:.|\Z)[^"\\]*)*(?:"|\Z)', re.DOTALL)

_COLLISIONS = 64  # most different keys of a set or dict that may share a hash

NOT_CARRIED = "NotCarried"
"""Exception type in an outcome which says that a value of the program cannot be carried between processes."""


class NotPlain(ValueError):
    """Data that no honest program's process would write: the program's fault."""


class NotCarried(NotPlain):
    """A value is larger, deeper or slower to handle than what is carried between processes."""


def describe_not_carried(error: NotCarried) -> dict[str, Any]:
    """Describe a value of the program that cannot be carried, in the same way for every check."""
    message = f"a value that cannot be carried: {error}"
    return {"stage": "run", "types": [NOT_CARRIED], "message": message, "line": None}


def parse_bounded_json(text: bytes | str, longest: int = MAX_LENGTH, max_units: int = MAX_UNITS) -> Any:
    """Return the content of a JSON text."""
    _require_max_length(text, longest)
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        _require_max_memory_units(decoded, max_units)
        return json.loads(decoded)
    except (ValueError, RecursionError, MemoryError) as error:
        fault = f"not JSON: {type(error).__name__}: {str(error)[:100]}"
        raise error if isinstance(error, NotPlain) else NotPlain(fault) from None


def checked_json_text(text: str, longest: int = MAX_LENGTH) -> str:
    """Return an ASCII text, or raise if it is more than ``parse_bounded_json`` reads on the other side."""
    _require_max_length(text, longest)
    if len(text) > MAX_UNITS // _COSTS[-1][1]:  # a shorter one cannot cost more
        _require_max_memory_units(text, MAX_UNITS)
    return text


def _require_max_length(text: bytes | str, longest: int) -> None:
    if len(text) > longest:
        raise NotCarried(f"more than {longest} bytes")


def _require_max_memory_units(text: str, max_units: int) -> None:
    if _estimate_memory_units(text) <= max_units:
        return
    num_quotes = text.count('"') - text.count('\\"')  # it may merely hold strings full of commas
    if num_quotes > 2 * max_units or _estimate_memory_units(_STRINGS.sub("", text)) > max_units:
        raise NotCarried("more values than can be held")


def _estimate_memory_units(text: str) -> int:
    return sum(cost * text.count(character) for character, cost in _COSTS)


def refuse_hash_collisions(keys: Sequence[Any]) -> None:
    """Refuse keys if many of them share a hash: a table of such keys would take quadratic time."""
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
        raise NotCarried("keys of a set or dict that collide")


def collision_free_keys(items: list[Any]) -> list[Any]:
    """Return ``items`` if a set of them can be built in linear time."""
    refuse_hash_collisions(items)
    return items


def checked_dict_from_flat(items: Sequence[Any]) -> dict[Any, Any]:
    """Return a dict of keys and values that follow each other in ``items``."""
    refuse_hash_collisions(items[::2])
    return dict(zip(items[::2], items[1::2], strict=True))
