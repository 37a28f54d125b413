"""Errors of this library, the one "did you mean", and checks of numbers."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeGuard

_ENVIRONMENT_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_MOST_NAMES = 24


class LitRLError(Exception):
    """An error of this library's own: one line that says what is wrong and what to do.

    The command line prints it as it is; other exceptions come with their class and a way to see the traceback.
    """


class UsageError(LitRLError, ValueError):
    """Something the user gave that cannot be used: a file, a combination of settings, an object of the wrong kind."""


class UnknownArgumentError(LitRLError, TypeError):
    """A name that a constructor does not have, with the name that was probably meant."""


class ArgumentError(UsageError):
    """An argument that cannot be used: ``key: expected X, got Y; do Z``.

    Args:
        key: the argument's name, dotted as in a configuration where it belongs to a group or class.
        expected: a phrase that describes what the argument takes.
        got: what came, as text; empty where the key says it.
        remedy: what to do; empty where ``expected`` says it.
    """

    def __init__(self, key: str, expected: str, got: str = "", remedy: str = "") -> None:
        super().__init__(key, expected, got, remedy)  # all of them, so that another process can rebuild it
        self.key, self.expected, self.got, self.remedy = key, expected, got, remedy

    def __str__(self) -> str:
        """The line."""
        line = f"{self.key}: expected {self.expected}"
        return line + (f", got {self.got}" if self.got else "") + (f"; {self.remedy}" if self.remedy else "")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean A?`` for the nearest of some names, else the names, to append to a message."""
    names = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), names, n=1)
    if near:
        return f"did you mean {names[near[0]]}?"
    return f"there are {', '.join(names.values())}" if 0 < len(names) <= _MOST_NAMES else ""


def shown(value: object, longest: int = 80) -> str:
    """The beginning of a value's ``repr`` on one line, for messages."""
    text = " ".join(f"{value!r:.300}".split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def require_at_least(least: float, owner: object = None, /, **values: float | None) -> None:
    """Raise ArgumentError, which names the owner's class, unless numbers are large enough; NaN is not, None is."""
    _require_each(owner, values, f"at least {least}", lambda value: value >= least)


def require_above(bound: float, owner: object = None, /, **values: float | None) -> None:
    """Raise ArgumentError unless numbers are above a bound; ``None`` is ignored, NaN is not above it."""
    _require_each(owner, values, f"a number above {bound}", lambda value: value > bound)


def require_share(owner: object, /, **values: float | None) -> None:
    """Raise ArgumentError unless numbers are from 0 to 1; ``None`` is ignored."""
    _require_each(owner, values, "a number from 0 to 1", lambda value: 0 <= value <= 1)


def require_clip(owner: object, /, **values: float | None) -> None:
    """Raise ArgumentError unless distances of a ratio's lower bound from 1 are in (0, 1]; ``None`` is ignored."""
    remedy = "0.2 is usual, and 1 would be no lower bound, since ratios are above 0"
    _require_each(owner, values, "a number above 0 and at most 1", lambda value: 0 < value <= 1, remedy)


def _require_each(
    owner: object, values: Mapping[str, float | None], wanted: str, right: Callable[[float], bool], remedy: str = ""
) -> None:
    of = "" if owner is None else f"{type(owner).__name__}."
    for name, value in values.items():
        if value is not None and not right(value):
            raise ArgumentError(f"{of}{name}", wanted, shown(value), remedy)


def require_number(owner: object, key: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A constructor argument as a finite float within ``[low, high]``; else raise ArgumentError."""
    if not _is_number(value) or not low <= value <= high:
        limits = "a finite number" if low == -math.inf and high == math.inf else f"a number in [{low}, {high}]"
        raise ArgumentError(f"{type(owner).__name__}.{key}", limits, shown(value))
    return float(value)


def require_seconds(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the fields hold a finite number of seconds above 0."""
    _require(owner, names, "a finite number of seconds above 0", lambda value: _is_number(value) and value > 0)


def require_count(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the fields are whole numbers of at least 1."""
    _require(owner, names, "a whole number of at least 1", lambda value: type(value) is int and value >= 1)


def require_not_negative(owner: object, name: str) -> None:
    """Raise ArgumentError unless a field holds a finite number of at least 0."""
    _require(owner, [name], "a finite number of at least 0", lambda value: _is_number(value) and value >= 0)


def require_switch(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the fields are True or False: the text "false" would count as True."""
    _require(owner, names, "True or False", lambda value: type(value) is bool)


def require_one_of(owner: object, name: str, known: Sequence[str]) -> None:
    """Raise ArgumentError unless a field is one of the known words."""
    _require(owner, [name], f"one of {', '.join(known)}", lambda value: value in known)


def require_items(owner: object, name: str) -> None:
    """Raise ArgumentError unless a field has an item: a check without any passes every program. Make a list a tuple."""
    where, value = f"{type(owner).__name__}.{name}", getattr(owner, name)
    if not isinstance(value, tuple | list):
        raise ArgumentError(where, "a tuple", type(value).__name__)
    if not value:
        raise ArgumentError(where, "at least one", "none", "every program would pass")
    object.__setattr__(owner, name, tuple(value))


def seed_or_global(seed: int | None) -> int:
    """Return a seed that is given, else that of Lightning's ``seed_everything`` if it was called, else 0."""
    return int(os.environ.get("PL_GLOBAL_SEED", 0)) if seed is None else seed


def with_variables(text: str) -> str:
    """Expand the environment variables in a path."""
    expanded = os.path.expandvars(text)
    if unset := _ENVIRONMENT_VARIABLE.search(expanded):
        name = unset[1] or unset[2]
        raise FileNotFoundError(
            f"{text}: the environment variable {name} is not set: `export {name}=FOLDER`, or give another path"
        )
    return expanded


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _require(owner: object, names: Sequence[str], wanted: str, is_right: Callable[[Any], bool]) -> None:
    for name in names:
        value = getattr(owner, name)
        if not is_right(value):
            raise ArgumentError(f"{type(owner).__name__}.{name}", wanted, shown(value))
