"""Dtypes by name, as configurations give them."""

from __future__ import annotations

import torch

from lit_rl.arguments import UsageError


def torch_dtype(name: str) -> torch.dtype:
    """The dtype of a name.

    Raises:
        ValueError: torch has none of this name.
    """
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"unknown dtype {name!r}: give a name of torch's, such as float32 or bfloat16")
    return found
