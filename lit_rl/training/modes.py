"""Switching to eval mode, and back in any case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """Inside, the modules and all their parts are in eval mode (no dropout); afterwards as before."""
    before = [(part, part.training) for module in modules for part in module.modules()]
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        for part, training in before:
            part.training = training
