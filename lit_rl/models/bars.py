"""transformers without its progress bars for reading and writing weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_bars() -> Iterator[None]:
    """Draw no bar for reading or writing weights; downloads from the Hub, which may take long, keep theirs."""
    from transformers.utils import logging

    set_hook: Any = getattr(logging, "set_tqdm_hook", None)
    if set_hook is None:
        yield
        return
    before = set_hook(lambda factory, args, kwargs: logging.EmptyTqdm(*args, **kwargs))
    try:
        yield
    finally:
        set_hook(before)
