"""Threads of a run on a CPU: how they wait for each other, and how many there are.

The module starts without torch, since how OpenMP's threads wait is settled before torch loads OpenMP.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn

LARGE_MODEL_PARAMETERS = 10_000_000
"""Number of parameters from which several threads beat one on an idle machine; docs/speed.md has the figures."""

_WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables that say how threads wait: OpenMP's own, that of GNU, and that of Intel and LLVM."""

_NUMBER = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")

_torch_was_first = False


def let_openmp_threads_sleep() -> None:
    """Make waiting OpenMP threads sleep, unless the user set how they wait.

    By default they spin; beside other work, each thread spins until another thread gets a core. All runtimes that torch
    comes with read ``OMP_WAIT_POLICY`` when they are loaded; processes that this one starts inherit the variable.
    """
    global _torch_was_first
    if not any(name in os.environ for name in _WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        _torch_was_first = "torch" in sys.modules


def number_of_threads(parameters: int, now: int, *, chosen: bool) -> int:
    """Return the number of threads: one for a small model, which loses more by waiting than a second one gains."""
    return now if chosen or parameters >= LARGE_MODEL_PARAMETERS else 1


@contextmanager
def using_run_threads(models: nn.Module, device: torch.device, saved: int | None = None) -> Iterator[int | None]:
    """Inside, torch has the run's number of threads, which is returned; ``None`` on a device that is no CPU.

    The number decides how sums are rounded, so a resumed run takes the number of its checkpoint.
    """
    global _torch_was_first
    if device.type != "cpu":
        yield None
        return
    import torch

    before = torch.get_num_threads()
    chosen = any(name in os.environ for name in _NUMBER) or before not in default_thread_counts()
    size = sum(weights.numel() for weights in models.parameters())
    fresh = number_of_threads(size, before, chosen=chosen)
    number = fresh if saved is None else saved
    if number != fresh:
        _log_line(
            f"torch has {number} threads as before, so that the run stays the same to the last bit; a new run would "
            f"have {fresh}"
        )
    if number > 1 and _torch_was_first:
        _torch_was_first = False
        _log_line(
            "torch was imported before lit_rl, so its threads spin while they wait, which is several times slower "
            "beside other programs: import lit_rl first, or set OMP_WAIT_POLICY=PASSIVE"
        )
    torch.set_num_threads(number)
    try:
        yield number
    finally:
        torch.set_num_threads(before)


def default_thread_counts() -> set[int]:
    """Return the numbers that torch may have chosen itself: the processors of this process, or their cores (MKL)."""
    processors = os.sched_getaffinity(0)
    siblings = (Path(f"/sys/devices/system/cpu/cpu{one}/topology/thread_siblings_list") for one in processors)
    return {len(processors), len({file.read_text() for file in siblings if file.exists()})}


def _log_line(line: str) -> None:
    from lightning.pytorch.utilities import rank_zero_info  # loaded by now, except if evaluate is used alone

    rank_zero_info(line)
