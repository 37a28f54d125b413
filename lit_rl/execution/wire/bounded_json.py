"""JSON that an untrusted process may have written, read within bounds of memory and time."""

from __future__ import annotations

import json
import re
from typing import Any

LONGEST = 16 << 20
"""Bytes of one text: the longest file that a program may write by default."""

MOST_UNITS = 2_000_000
"""What one text may need in memory once it is read, in units of about 64 bytes."""

# The characters that stand for memory: a list takes as much as three numbers, an object as six.
_COSTS = ((",", 1), ("[", 3), ("{", 6))
# A string that is never closed matches too, so that each search begins where the last one ended: linear time.
_STRINGS = re.compile(r'"[^"\\]*(?:\\(?:.|\Z)[^"\\]*)*(?:"|\Z)', re.DOTALL)


class NotPlain(ValueError):
    """What arrived is not what an honest program's process would write: the program's fault."""


def parse(text: bytes | str, longest: int = LONGEST, most_units: int = MOST_UNITS) -> Any:
    """The content of a JSON text.

    Args:
        text: as it arrived.
        longest: bytes after which it is refused unread.
        most_units: what it may need in memory, see ``MOST_UNITS``.

    Raises:
        NotPlain: if it is not JSON, or would take more memory or time than is allowed.
    """
    if len(text) > longest:
        raise NotPlain(f"{len(text)} bytes, but at most {longest} are allowed")
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        if _units(decoded) > most_units and not _fits_without_strings(decoded, most_units):
            raise NotPlain("more values than can be held")
        return json.loads(decoded)
    except NotPlain:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPlain(f"not JSON: {type(error).__name__}: {str(error)[:100]}") from None


def _fits_without_strings(text: str, most_units: int) -> bool:
    """The exact answer, for texts that may merely hold strings full of commas."""
    num_quotes = text.count('"') - text.count('\\"')
    return num_quotes <= 2 * most_units and _units(_STRINGS.sub("", text)) <= most_units


def _units(text: str) -> int:
    return sum(cost * text.count(character) for character, cost in _COSTS)
