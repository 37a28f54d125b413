"""Checks of numbers that a user gives, before anything is loaded."""

from __future__ import annotations


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
