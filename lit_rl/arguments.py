"""Checks of arguments that users give, before anything is loaded or run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from lit_rl.renamed import value_now


def require_at_least(least: float, **values: float | None) -> None:
    """Check whether numbers are large enough; ``None`` is ignored, NaN is too small.

    Raises:
        ValueError: one is below; the message names it.
    """
    for name, value in values.items():
        if value is not None and not value >= least:
            raise ValueError(f"{name} must be at least {least}, got {value}")


def require_above(bound: float, **values: float | None) -> None:
    """Check whether numbers are above a bound; ``None`` is ignored.

    Raises:
        ValueError: one is not; the message names it.
    """
    for name, value in values.items():
        if value is not None and not value > bound:
            raise ValueError(f"{name} must be above {bound}, got {value}")


def require_share(**values: float | None) -> None:
    """Check whether numbers are from 0 to 1; ``None`` is ignored.

    Raises:
        ValueError: one is not; the message names it.
    """
    for name, value in values.items():
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"{name} must be from 0 to 1, got {value}")


def require_clip(**values: float | None) -> None:
    """Check whether distances of a ratio's lower bound from 1 are in (0, 1]; ``None`` is ignored.

    Raises:
        ValueError: one is not; the message names it.
    """
    for name, value in values.items():
        if value is not None and not 0 < value <= 1:
            raise ValueError(
                f"{name} must be above 0 and at most 1, got {value}: ratios are above 0, so 1 is no lower bound; "
                "0.2 is usual"
            )


def require_kind(kind: type, example: str, **values: object) -> None:
    """Check whether arguments are objects of a class.

    Args:
        kind: the class.
        example: an object of it as one writes it, such as ``Sampling(num_samples=8)``.
        **values: the arguments by name.

    Raises:
        ValueError: one is something else; the message names it.
    """
    for name, value in values.items():
        if not isinstance(value, kind):
            raise ValueError(f"{name} takes an object such as {example}, got {shown(value)}{value_now(name, value)}")


def require_function(of: str, example: str, **values: Callable[..., object] | None) -> None:
    """Check whether arguments are functions, not what they would return; ``None`` is ignored.

    Args:
        of: what the function is called with.
        example: a function as one writes it.
        **values: the arguments by name.

    Raises:
        ValueError: one cannot be called; the message names it.
    """
    for name, value in values.items():
        if value is not None and not callable(value):
            raise ValueError(f"{name} takes a function of {of} such as {example}, got {shown(value)}")


def require_number(owner: object, key: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A constructor argument as a finite float within ``[low, high]``.

    Raises:
        ValueError: it is not; the message names the class, the key and what came.
    """
    if not _is_number(value) or not low <= value <= high:
        limits = "a finite number" if low == -math.inf and high == math.inf else f"a number in [{low}, {high}]"
        raise ValueError(f"{type(owner).__name__}.{key} must be {limits}, got {shown(value)}")
    return float(value)


def require_seconds(owner: object, *names: str) -> None:
    """Raise ValueError unless the fields hold a finite number of seconds above 0."""
    for name in names:
        _require(owner, name, "a finite number of seconds above 0", lambda value: _is_number(value) and value > 0)


def require_count(owner: object, *names: str) -> None:
    """Raise ValueError unless the fields are whole numbers of at least 1."""
    for name in names:
        _require(owner, name, "a whole number of at least 1", lambda value: type(value) is int and value >= 1)


def require_not_negative(owner: object, name: str) -> None:
    """Raise ValueError unless a field holds a finite number of at least 0."""
    _require(owner, name, "a finite number of at least 0", lambda value: _is_number(value) and value >= 0)


def require_switch(owner: object, *names: str) -> None:
    """Raise ValueError unless the fields are True or False: the text "false" would count as True."""
    for name in names:
        _require(owner, name, "True or False", lambda value: type(value) is bool)


def require_one_of(owner: object, name: str, known: Sequence[str]) -> None:
    """Raise ValueError unless a field is one of the known words."""
    _require(owner, name, f"one of {', '.join(known)}", lambda value: value in known)


def require_items(owner: object, name: str) -> None:
    """Raise ValueError unless a field is a tuple with an item: a check without tests would pass every program."""
    where, value = f"{type(owner).__name__}.{name}", getattr(owner, name)
    if not isinstance(value, tuple):
        raise ValueError(f"{where} must be a tuple, got {type(value).__name__}")
    if not value:
        raise ValueError(f"{where} is empty, so every program would pass: give at least one")


def shown(value: object, longest: int = 80) -> str:
    """The beginning of a value's ``repr`` on one line, for messages."""
    text = " ".join(f"{value!r:.300}".split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _require(owner: object, name: str, wanted: str, is_right: Callable[[Any], bool]) -> None:
    """Raise ValueError unless a field is as wanted."""
    value = getattr(owner, name)
    if not is_right(value):
        raise ValueError(f"{type(owner).__name__}.{name} must be {wanted}, got {shown(value)}")
