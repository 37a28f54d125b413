"""Whether the tests' process may have run out of memory because of what came from the program."""

from __future__ import annotations

import resource

from lit_rl.execution.confinement.limits import ADDRESS_SLACK

_SHARE = 16


def peak_bytes() -> int:
    """Most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def has_grown(before: int) -> bool:
    """Whether this process took a sixteenth of what it may, or cannot get the rest.

    One line that asks for more than there is leaves a small process behind. A process that has grown may have done so
    by values of the program's, whatever line came last.

    Args:
        before: what ``peak_bytes`` was when no message of the program's had been read.
    """
    limit = resource.getrlimit(resource.RLIMIT_AS)[0] - ADDRESS_SLACK
    if limit <= 0:
        return True
    if (peak_bytes() - before) * _SHARE >= limit:
        return True
    try:
        bytearray(limit - limit // _SHARE)  # never touched, so that it takes room and no memory
    except MemoryError:
        return True
    return False
