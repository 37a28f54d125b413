"""Avoid two costs of every rollout: garbage collection of old objects, and returning freed memory to the system."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Any

import torch

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Numbers of glibc's options."""

_MAX_HEAP_ALLOCATION = 32 * 2**20
"""Bytes; the most that glibc accepts on 64 bits."""

_KEPT_FREE = 512 * 2**20
"""Bytes at the end of the heap that stay with the process."""


def freeze_gc() -> None:
    """Leave what exists now out of later garbage collections."""
    gc.collect()
    gc.freeze()


def unfreeze_gc() -> None:
    """Undo :func:`freeze_gc`."""
    gc.unfreeze()


def keep_freed_memory(device: torch.device) -> None:
    """Keep the memory of freed CPU tensors in this process.

    By default glibc maps each large tensor anew, and the system fills its pages with zeros. If glibc's own variables,
    such as ``MALLOC_MMAP_THRESHOLD_``, are set, nothing is changed.
    """
    libc: Any = ctypes.CDLL(None) if os.name == "posix" else None
    is_set = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if device.type == "cpu" and hasattr(libc, "mallopt") and not is_set:
        libc.mallopt(_M_MMAP_THRESHOLD, _MAX_HEAP_ALLOCATION)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE)
