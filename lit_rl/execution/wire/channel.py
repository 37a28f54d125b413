"""Lines of JSON over a socket: how two processes of the sandbox talk.

Neither end trusts the other with more than a line of plain data: the reader bounds the length of a line.
"""

from __future__ import annotations

import os

MAX_LINE_LENGTH = 64 << 20


class ChannelClosed(Exception):
    """The other end is gone, or wrote a message that no honest one would."""


class LineTooLong(ChannelClosed):
    """The other end writes a line that is longer than allowed; the rest of the line is not read."""


class Channel:
    """Lines over one stream-socket descriptor. Something may stay unsent or unread only if it is non-blocking."""

    def __init__(self, descriptor: int, longest: int = MAX_LINE_LENGTH) -> None:
        self.descriptor = descriptor
        self._longest = longest
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer that hold no end of a line
        self.unsent = memoryview(b"")

    def send(self, text: str) -> None:
        """Write one line; the next one must wait until nothing of this one is ``unsent``."""
        self.unsent = memoryview(text.encode("utf-8") + b"\n")
        self.flush()

    def flush(self) -> None:
        """Continue to write an unsent line; raise the same errors as ``send``."""
        try:
            while self.unsent:
                self.unsent = self.unsent[os.write(self.descriptor, self.unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            raise ChannelClosed(str(error)) from None

    def receive(self) -> bytes:
        while True:
            line = self.take_line()
            if line is not None:
                return line
            self.read_available()

    def read_available(self) -> bool:
        """Read available bytes into the buffer; return whether there were any, or raise as ``receive`` does."""
        try:
            chunk = os.read(self.descriptor, 1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            raise ChannelClosed("the other end hung up")
        self._buffer += chunk
        if len(self._buffer) > self._longest:
            raise LineTooLong(f"a line of more than {self._longest} bytes")
        return True

    def take_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            return None
        self._searched = 0
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line
