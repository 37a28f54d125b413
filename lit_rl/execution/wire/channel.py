"""Lines of JSON over a socket: how two processes of the sandbox talk.

Neither end trusts the other with more than a line of plain data: the reader bounds its length.
"""

from __future__ import annotations

import os

LONGEST_LINE = 64 << 20


class ChannelClosed(Exception):
    """The other end is gone, or wrote what no honest one would."""


class LineTooLong(ChannelClosed):
    """The other end writes a line that is longer than allowed, which is not read on."""


class Channel:
    """Blocking lines over one stream-socket descriptor.

    Args:
        descriptor: the socket's file descriptor; closed by the caller.
        longest: bytes after which a line is refused.
    """

    def __init__(self, descriptor: int, longest: int = LONGEST_LINE) -> None:
        self.descriptor = descriptor
        self._longest = longest
        self._buffer = bytearray()
        self._searched = 0  # bytes of it that hold no end of a line

    def send(self, text: str) -> None:
        """Write one line.

        Raises:
            ChannelClosed: if the other end hung up.
        """
        view = memoryview(text.encode("utf-8") + b"\n")
        try:
            while view:
                view = view[os.write(self.descriptor, view) :]
        except OSError as error:
            raise ChannelClosed(str(error)) from None

    def receive(self) -> bytes:
        """The next line, without its end. Blocks.

        Raises:
            ChannelClosed: at the end of the stream, or if a line is longer than allowed.
        """
        while True:
            line = self.take_line()
            if line is not None:
                return line
            self.fill()

    def fill(self) -> None:
        """Read what is there (at least one byte) into the buffer; same errors as ``receive``."""
        try:
            chunk = os.read(self.descriptor, 1 << 16)
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        if not chunk:
            raise ChannelClosed("the other end hung up")
        self._buffer += chunk
        if len(self._buffer) > self._longest:
            raise LineTooLong(f"a line of more than {self._longest} bytes")

    def take_line(self) -> bytes | None:
        """A whole line if the buffer holds one."""
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            return None
        self._searched = 0
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line
