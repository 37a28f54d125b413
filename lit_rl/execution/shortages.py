"""One-line remedies for when no further file can be opened or no further process started."""

from __future__ import annotations

import errno
import os
import resource

_FILES = (errno.EMFILE, errno.ENFILE)


def is_shortage(error: BaseException) -> bool:
    """Whether an error says that the machine, or this user's share of it, is used up."""
    return isinstance(error, OSError) and error.errno in (*_FILES, errno.EAGAIN)


def remedy(error: OSError) -> str:
    """One line for an error: what is used up, how much there is, what to do; other errors as they are."""
    if not is_shortage(error) or "ulimit" in str(error):
        return (error.strerror if "ulimit" in str(error) else None) or str(error)
    if error.errno in _FILES:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"no further file can be opened, the limit is {soft}: raise it with ulimit -n"
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    shown = "unlimited" if limit == resource.RLIM_INFINITY else limit
    return (
        f"no further process or thread can be started, this user's limit is {shown}: raise it with ulimit -u, "
        "end other processes, or use fewer workers"
    )


def need_descriptors(num_wanted: int, num_each: int) -> None:
    """Check that this process can open this many further files, and each that it starts this many in all.

    Raises:
        OSError: if not, saying how many are needed.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    num_open = len(os.listdir("/proc/self/fd")) if num_wanted else 0
    needed = max(num_open + num_wanted, num_each)
    if soft != resource.RLIM_INFINITY and soft < needed:
        raise OSError(
            errno.EMFILE,
            f"{needed} files must be open at a time, the limit is {soft}: raise it with ulimit -n {needed}",
        )
