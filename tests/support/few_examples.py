"""Properties of functions of short inputs, tried on fewer examples than hypothesis takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis


def given(*strategies: Any, **named: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As :func:`hypothesis.given`, with 30 examples."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        return hypothesis.settings(max_examples=30)(hypothesis.given(*strategies, **named)(test))

    return decorate
