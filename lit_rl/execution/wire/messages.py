"""Messages between the trainer and its supervisors: both are ours, so they are pickled."""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

_HEADER = struct.Struct("=I")


def pack(value: Any) -> bytes:
    """A value as bytes, for :func:`unpack` on the other side."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def unpack(data: bytes) -> Any:
    """The value that was packed. Never for bytes that a program may have written."""
    return pickle.loads(data)


def send_message(connection: socket.socket, message: Any) -> None:
    """One pickled message with its length before it. Only trainer and supervisor talk this way."""
    data = pack(message)
    connection.sendall(_HEADER.pack(len(data)) + data)


def receive_message(connection: socket.socket) -> Any:
    """The next message.

    Raises:
        EOFError: if the other end hung up.
    """
    (length,) = _HEADER.unpack(_receive_exactly(connection, _HEADER.size))
    return unpack(_receive_exactly(connection, length))


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        chunk = connection.recv(min(length - len(data), 1 << 20))
        if not chunk:
            raise EOFError("the other end hung up")
        data += chunk
    return bytes(data)
