"""Files in memory by which a job's process gets its input and leaves its output."""

from __future__ import annotations

import marshal
import os
from typing import Any

from lit_rl.execution.wire.printable import make_printable

TAIL_BYTES = 4096
_MAX_LINE_LENGTH = 500
# A program's memfd may be as long as the output limit; no more than this is ever read.
_MAX_READ_LENGTH = 64 << 20


class ChildFiles:
    """Descriptors of one child: its job, its three standard streams, and a channel.

    Args:
        job: what ``child.run_job`` reads; builtin types only.
        stdin: bytes of its standard input, or ``None`` for the null device.
        channel: descriptor for the channel; by default a memfd that is read afterwards.
        answers_in_job: the program writes its answers where its job was, because the channel held the program itself.
    """

    def __init__(
        self,
        job: dict[str, Any],
        stdin: bytes | None = None,
        channel: int | None = None,
        answers_in_job: bool = False,
    ) -> None:
        self.job = make_memfd(marshal.dumps(job))
        # Never shared: the offset, flags and locks of an open file would pass from one program to the next.
        self.stdin = make_memfd(stdin) if stdin is not None else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.stdout, self.stderr = make_memfd(), make_memfd()
        self.channel = make_memfd() if channel is None else channel
        self.answers = self.job if answers_in_job else self.channel

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors in the order in which the zygote expects them."""
        return (self.stdin, self.stdout, self.stderr, self.job, self.channel)

    def close_channel(self) -> None:
        """Close this side's copy of the channel's descriptor, once the child has its own."""
        os.close(self.channel)
        self.channel = -1

    def close(self) -> None:
        for descriptor in self.descriptors:
            if descriptor >= 0:
                os.close(descriptor)

    def __enter__(self) -> ChildFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_whole(descriptor: int) -> bytes:
    """Read what a child wrote into a memfd."""
    size = min(os.fstat(descriptor).st_size, _MAX_READ_LENGTH)
    return os.pread(descriptor, size, 0) if size else b""


def read_ends(descriptor: int, num_bytes: int) -> bytes:
    """Return the first and last ``num_bytes`` bytes of a file; the whole file if it is no longer than both together."""
    size = os.fstat(descriptor).st_size
    if size <= 2 * num_bytes:
        return os.pread(descriptor, size, 0) if size else b""
    return os.pread(descriptor, num_bytes, 0) + os.pread(descriptor, num_bytes, size - num_bytes)


def read_head(descriptor: int) -> str:
    """Return the first line of a file, at most 500 bytes of it, as printable text."""
    return make_printable(os.pread(descriptor, _MAX_LINE_LENGTH, 0).decode("utf-8", "replace").partition("\n")[0])


def read_tail(descriptor: int) -> str:
    """Return the last bytes of a file as printable text."""
    size = os.fstat(descriptor).st_size
    if not size:
        return ""
    start = max(0, size - TAIL_BYTES)
    return make_printable(os.pread(descriptor, TAIL_BYTES, start).decode("utf-8", "replace"))


def make_memfd(content: bytes | None = None) -> int:
    """Make a file in memory with this content, to be read from its start."""
    # Without permission to seal: a program must not be able to freeze our descriptors.
    descriptor = os.memfd_create("lit_rl", os.MFD_CLOEXEC)
    if content:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def make_executable_memfd(binary: bytes) -> int:
    """Make a file in memory that can be executed but not read.

    A process that executes an unreadable file stays closed to other processes of this user, as ``confine`` requires.
    """
    descriptor = make_memfd(binary)
    os.fchmod(descriptor, 0o111)
    return descriptor
