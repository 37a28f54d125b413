"""What this process is doing, for messages about ranks that wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

from lit_rl.training.ranks import world_size

_phases: list[str] = []


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Name what happens inside. After an exception the name stays, so that a message can use it."""
    depth = len(_phases)
    _phases.append(name)
    yield
    del _phases[depth:]


def where() -> str:
    """Rank and phase, such as ``rank 1 of 2, while sampling``; empty in a run of one process."""
    if world_size() == 1:
        return ""
    doing = f", while {_phases[-1]}" if _phases else ""
    return f"rank {dist.get_rank()} of {world_size()}{doing}"
