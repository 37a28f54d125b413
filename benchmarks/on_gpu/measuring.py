"""Seconds and memory on a device, and tables of them."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

Row = dict[str, Any]
"""Of a table: values by column."""


def finish(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(call: Callable[[], Any], device: torch.device, times: int) -> float:
    """Wall seconds of a call, the median of several after one that warms up."""
    taken = []
    for _ in range(times + 1):
        finish(device)
        began = time.perf_counter()
        call()
        finish(device)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def peak_gigabytes(device: torch.device) -> float:
    """Most memory taken: on a GPU since the last :func:`forget`, else by the process since its start."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def forget(device: torch.device) -> None:
    """Free what nobody holds, and begin to measure the peak again."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def as_markdown(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, ["---"] * len(names), *([shown(row.get(name, "")) for name in names] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(value: Any) -> str:
    """A number with a few digits, anything else as it is."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if value < 1e4 else f"{value:,.0f}"
