"""Validation of the fields of checks, with one-line errors."""

from __future__ import annotations

import copy
import marshal
import math
from collections.abc import Sequence
from typing import Any

from lit_rl.execution.wire import plain

# Whatever marshal writes in fewer bytes is within all limits, as most values are; or within those of size.
_SURELY_CARRIED, _SURELY_SMALL = 200, 2_000_000
_WITHOUT_REFERENCES = 2  # a version of marshal in which a list that occurs twice is written twice


def require_seconds(owner: object, *names: str) -> None:
    """Raise ValueError unless the fields hold a finite number of seconds above 0."""
    for name in names:
        value = getattr(owner, name)
        if not _is_number(value) or value <= 0:
            raise ValueError(f"{_field(owner, name)} must be a finite number of seconds above 0, got {value!r}")


def require_count(owner: object, *names: str) -> None:
    """Raise ValueError unless the fields are whole numbers of at least 1."""
    for name in names:
        value = getattr(owner, name)
        if type(value) is not int or value < 1:
            raise ValueError(f"{_field(owner, name)} must be a whole number of at least 1, got {value!r}")


def require_not_negative(owner: object, name: str) -> None:
    """Raise ValueError unless a field holds a finite number of at least 0."""
    value = getattr(owner, name)
    if not _is_number(value) or value < 0:
        raise ValueError(f"{_field(owner, name)} must be a finite number of at least 0, got {value!r}")


def require_switch(owner: object, *names: str) -> None:
    """Raise ValueError unless the fields are True or False: the text "false" would count as True."""
    for name in names:
        if type(getattr(owner, name)) is not bool:
            raise ValueError(f"{_field(owner, name)} must be True or False, got {getattr(owner, name)!r}")


def require_one_of(owner: object, name: str, known: Sequence[str]) -> None:
    """Raise ValueError unless a field is one of the known words."""
    if getattr(owner, name) not in known:
        raise ValueError(f"{_field(owner, name)} must be one of {', '.join(known)}, got {getattr(owner, name)!r}")


def require_items(owner: object, name: str) -> None:
    """Raise ValueError unless a field is a tuple with an item: a check without tests would pass every program."""
    value = getattr(owner, name)
    if not isinstance(value, tuple):
        raise ValueError(f"{_field(owner, name)} must be a tuple, got {type(value).__name__}")
    if not value:
        raise ValueError(f"{_field(owner, name)} is empty, so every program would pass: give at least one")


def require_carried(value: Any, where: str) -> None:
    """Raise ValueError if no program could return, or be given, a value: it is too large or too deep to be carried.

    Args:
        value: of a check.
        where: what it is, for the message.
    """
    try:
        num_bytes: float = len(marshal.dumps(value, _WITHOUT_REFERENCES))
    except ValueError:
        num_bytes = math.inf  # of another type, or nested too deep
    if num_bytes < _SURELY_CARRIED:
        return
    try:
        if num_bytes < _SURELY_SMALL:
            plain.to_tree(value, plain.forget)
        elif num_bytes < math.inf:
            plain.dumps(value)
        else:
            plain.loads(plain.dumps(copy.deepcopy(value)))  # a copy: an iterator is used up when it is written
    except plain.NotCarried as error:
        raise ValueError(f"{where} cannot be carried: {error}") from None
    except RecursionError:
        raise ValueError(f"{where} cannot be carried: {plain.TOO_DEEP}") from None
    except TypeError:
        return  # no copy can be made of it: it is not plain data, and equals no answer


def shown(value: object) -> str:
    """The ``repr`` of a value, cut to fit in a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _field(owner: object, name: str) -> str:
    return f"{type(owner).__name__}.{name}"
