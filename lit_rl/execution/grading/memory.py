"""Whether the tests' process may have run out of memory because of what came from the program."""

from __future__ import annotations

import resource

from lit_rl.execution.confinement.limits import ADDRESS_SLACK

_SHARE = 16


def peak_bytes() -> int:
    """Most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def has_grown(before: int) -> bool:
    """Whether this process used a sixteenth of its memory limit, or cannot get the rest.

    A single line that asks for too much leaves a small process behind. A process that has grown may have done so
    through values of the program's, whatever line came last.

    Args:
        before: what ``peak_bytes`` was when no message of the program's had been read.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0] - ADDRESS_SLACK
    if limit <= 0:
        return True
    if (peak_bytes() - before) * _SHARE >= limit:
        return True
    try:
        bytearray(limit - limit // _SHARE)  # never touched: takes address space but no memory
    except MemoryError:
        return True
    return False
