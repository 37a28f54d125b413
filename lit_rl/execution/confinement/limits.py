"""Resource limits that every program of a worker inherits from its zygote."""

from __future__ import annotations

import resource

# Address space beyond the stated memory: thread stacks (128 MiB is common in contests), malloc arenas and
# mapped libraries are reserved, not used. Whether a program *used* too much is told by its resident peak.
ADDRESS_SLACK = 384 << 20
OPEN_FILES = 64


def set_limits(memory_bytes: int, output_bytes: int) -> None:
    """Lower this process's limits for itself and all its children. Never raises one: hard limits stay."""
    _lower(resource.RLIMIT_AS, memory_bytes + ADDRESS_SLACK)
    _lower(resource.RLIMIT_FSIZE, output_bytes)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_MEMLOCK, 0)
    _lower(resource.RLIMIT_MSGQUEUE, 0)


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))
