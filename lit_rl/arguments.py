"""Errors of this library, and checks of arguments before anything is loaded or run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard


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


def require_at_least(least: float, **values: float | None) -> None:
    """Check whether numbers are large enough; ``None`` is ignored, NaN is too small.

    Raises:
        ArgumentError: one is below; the message names it.
    """
    for name, value in values.items():
        if value is not None and not value >= least:
            raise ArgumentError(name, f"at least {least}", shown(value))


def require_above(bound: float, **values: float | None) -> None:
    """Check whether numbers are above a bound; ``None`` is ignored.

    Raises:
        ArgumentError: one is not; the message names it.
    """
    for name, value in values.items():
        if value is not None and not value > bound:
            raise ArgumentError(name, f"a number above {bound}", shown(value))


def require_share(**values: float | None) -> None:
    """Check whether numbers are from 0 to 1; ``None`` is ignored.

    Raises:
        ArgumentError: one is not; the message names it.
    """
    for name, value in values.items():
        if value is not None and not 0 <= value <= 1:
            raise ArgumentError(name, "a number from 0 to 1", shown(value))


def require_clip(**values: float | None) -> None:
    """Check whether distances of a ratio's lower bound from 1 are in (0, 1]; ``None`` is ignored.

    Raises:
        ArgumentError: one is not; the message names it.
    """
    for name, value in values.items():
        if value is not None and not 0 < value <= 1:
            raise ArgumentError(
                name,
                "a number above 0 and at most 1",
                shown(value),
                "0.2 is usual, and 1 would be no lower bound, since ratios are above 0",
            )


def require_kind(kind: type, example: str, hint: Callable[[str, object], str] | None = None, **values: object) -> None:
    """Check whether arguments are objects of a class.

    Args:
        kind: the class.
        example: an object of it as one writes it, such as ``Sampling(num_samples=8)``.
        hint: from an argument's name and value to what to do, or nothing.
        **values: the arguments by name.

    Raises:
        ArgumentError: one is something else; the message names it.
    """
    for name, value in values.items():
        if not isinstance(value, kind):
            remedy = hint(name, value).removeprefix("; ") if hint is not None else ""
            raise ArgumentError(name, f"an object such as {example}", shown(value), remedy)


def require_function(of: str, example: str, **values: Callable[..., object] | None) -> None:
    """Check whether arguments are functions, not what they would return; ``None`` is ignored.

    Args:
        of: what the function is called with.
        example: a function as one writes it.
        **values: the arguments by name.

    Raises:
        ArgumentError: one cannot be called; the message names it.
    """
    for name, value in values.items():
        if value is not None and not callable(value):
            raise ArgumentError(name, f"a function of {of} such as {example}", shown(value))


def require_number(owner: object, key: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A constructor argument as a finite float within ``[low, high]``.

    Raises:
        ArgumentError: it is not; the message names the class, the key and what came.
    """
    if not _is_number(value) or not low <= value <= high:
        limits = "a finite number" if low == -math.inf and high == math.inf else f"a number in [{low}, {high}]"
        raise ArgumentError(f"{type(owner).__name__}.{key}", limits, shown(value))
    return float(value)


def require_seconds(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the fields hold a finite number of seconds above 0."""
    for name in names:
        _require(owner, name, "a finite number of seconds above 0", lambda value: _is_number(value) and value > 0)


def require_count(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the fields are whole numbers of at least 1."""
    for name in names:
        _require(owner, name, "a whole number of at least 1", lambda value: type(value) is int and value >= 1)


def require_not_negative(owner: object, name: str) -> None:
    """Raise ArgumentError unless a field holds a finite number of at least 0."""
    _require(owner, name, "a finite number of at least 0", lambda value: _is_number(value) and value >= 0)


def require_switch(owner: object, *names: str) -> None:
    """Raise ArgumentError unless the fields are True or False: the text "false" would count as True."""
    for name in names:
        _require(owner, name, "True or False", lambda value: type(value) is bool)


def require_one_of(owner: object, name: str, known: Sequence[str]) -> None:
    """Raise ArgumentError unless a field is one of the known words."""
    _require(owner, name, f"one of {', '.join(known)}", lambda value: value in known)


def require_items(owner: object, name: str) -> None:
    """Raise ArgumentError unless a field is a tuple with an item: a check without tests would pass every program."""
    where, value = f"{type(owner).__name__}.{name}", getattr(owner, name)
    if not isinstance(value, tuple):
        raise ArgumentError(where, "a tuple", type(value).__name__)
    if not value:
        raise ArgumentError(where, "at least one", "none", "every program would pass")


def shown(value: object, longest: int = 80) -> str:
    """The beginning of a value's ``repr`` on one line, for messages."""
    text = " ".join(f"{value!r:.300}".split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _require(owner: object, name: str, wanted: str, is_right: Callable[[Any], bool]) -> None:
    """Raise ArgumentError unless a field is as wanted."""
    value = getattr(owner, name)
    if not is_right(value):
        raise ArgumentError(f"{type(owner).__name__}.{name}", wanted, shown(value))
