"""Checks of what kind of thing a user gives in Python, where no command line has read it."""

from __future__ import annotations

from collections.abc import Callable


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
            raise ValueError(f"{name} takes an object such as {example}, got {shown(value)}")


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


def shown(value: object) -> str:
    """The beginning of what a value looks like, on one line."""
    return " ".join(f"{value!r:.300}".split())[:80]
