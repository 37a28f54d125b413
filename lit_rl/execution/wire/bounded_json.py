"""JSON that an untrusted process may have written, read within bounds of memory and time."""

from __future__ import annotations

import json
import re
from typing import Any

LONGEST = 16 << 20
"""Bytes of one text: the longest file that a program may write by default."""

LONGEST_CALL = 1 << 20
"""Bytes of a call of a function that lives in the supervisor."""

MOST_UNITS = 2_000_000
"""Most memory that one text may need once it is read, in units of about 64 bytes."""

# The characters that stand for memory: a list takes as much as three numbers, an object as six.
_COSTS = ((",", 1), ("[", 3), ("{", 6))
# A string that is never closed matches too, so that each search begins where the last one ended: linear time.
_STRINGS = re.compile(r'"[^"\\]*(?:\\(?:.|\Z)[^"\\]*)*(?:"|\Z)', re.DOTALL)


NOT_CARRIED = "NotCarried"
"""Name, in place of an exception's, under which an outcome says that a value of the program cannot be carried."""


class NotPlain(ValueError):
    """Data that no honest program's process would write: the program's fault."""


class NotCarried(NotPlain):
    """A value is larger, deeper or slower to handle than what is carried between processes."""


def not_carried(error: NotCarried) -> dict[str, Any]:
    """The description of a program that gave a value which cannot be carried: the same in every check."""
    message = f"a value that cannot be carried: {error}"
    return {"stage": "run", "types": [NOT_CARRIED], "message": message, "line": None}


def parse(text: bytes | str, longest: int = LONGEST, most_units: int = MOST_UNITS) -> Any:
    """The content of a JSON text.

    Args:
        text: as it arrived.
        longest: bytes after which it is refused unread.
        most_units: what it may need in memory, see ``MOST_UNITS``.
    """
    _require_length(text, longest)
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        _require_units(decoded, most_units)
        return json.loads(decoded)
    except NotPlain:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPlain(f"not JSON: {type(error).__name__}: {str(error)[:100]}") from None


def readable(text: str, longest: int = LONGEST) -> str:
    """A text in ASCII, if ``parse`` reads as much on the other side."""
    _require_length(text, longest)
    if len(text) > MOST_UNITS // _COSTS[-1][1]:  # a shorter one cannot cost more
        _require_units(text, MOST_UNITS)
    return text


def _require_length(text: bytes | str, longest: int) -> None:
    if len(text) > longest:
        raise NotCarried(f"more than {longest} bytes")


def _require_units(text: str, most_units: int) -> None:
    if _units(text) <= most_units:
        return
    num_quotes = text.count('"') - text.count('\\"')  # it may merely hold strings full of commas
    if num_quotes > 2 * most_units or _units(_STRINGS.sub("", text)) > most_units:
        raise NotCarried("more values than can be held")


def _units(text: str) -> int:
    return sum(cost * text.count(character) for character, cost in _COSTS)
