"""Where tokens stand in a text: byte spans of thousands of tokens, held as tensors."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, overload

import torch
from torch import Tensor

ByteSpan = tuple[int, int]


class ByteSpans(Sequence[ByteSpan]):
    """The ``(start, end)`` byte spans of tokens, in order; reads like a tuple of pairs and is equal to one.

    Args:
        starts: [T] int64 on the CPU, first byte of each token.
        ends: [T] int64 on the CPU, byte after its last.

    Example:
        >>> spans = ByteSpans.of([(0, 2), (2, 5)])
        >>> spans[1], spans == ((0, 2), (2, 5)), spans.ends
        ((2, 5), True, tensor([2, 5]))
    """

    __slots__ = ("ends", "starts")

    def __init__(self, starts: Tensor, ends: Tensor) -> None:
        self.starts = starts
        self.ends = ends

    @classmethod
    def of(cls, spans: Sequence[ByteSpan]) -> ByteSpans:
        """The given pairs."""
        if isinstance(spans, ByteSpans):
            return spans
        pairs = integers(chain.from_iterable(spans)).view(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    def within(self, start: int, size: int) -> ByteSpans:
        """The same tokens in a part of the text: what stands after it is empty at its end.

        Args:
            start: byte of the text at which the part begins, not after the first token.
            size: bytes of the part.
        """
        return ByteSpans((self.starts - start).clamp(max=size), (self.ends - start).clamp(max=size))

    def followed_by(self, count: int, place: int) -> ByteSpans:
        """These and more tokens, which are empty at a byte."""
        if not count:
            return self
        more = self.starts.new_full((count,), place)
        return ByteSpans(torch.cat([self.starts, more]), torch.cat([self.ends, more]))

    def first_over(self, start: int, end: int) -> int | None:
        """The first token that wrote one of the bytes ``start`` to ``end``; for an empty place the one at its byte."""
        found = (self.ends > self.starts) & (self.ends > start) & (self.starts < max(end, start + 1))
        return int(found.nonzero()[0, 0]) if found.any() else None

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> ByteSpan: ...
    @overload
    def __getitem__(self, index: slice) -> ByteSpans: ...
    def __getitem__(self, index: int | slice) -> ByteSpan | ByteSpans:
        if isinstance(index, slice):
            return ByteSpans(self.starts[index], self.ends[index])
        return int(self.starts[index]), int(self.ends[index])

    def __iter__(self) -> Iterator[ByteSpan]:
        return iter(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, ByteSpans):
            return torch.equal(self.starts, other.starts) and torch.equal(self.ends, other.ends)
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"ByteSpans.of({list(self)})"


def integers(numbers: Iterable[int]) -> Tensor:
    """[T] int64 of numbers, several times faster than ``torch.tensor`` of a list."""
    held = array("q", numbers)
    return torch.frombuffer(held, dtype=torch.int64) if held else torch.zeros(0, dtype=torch.int64)
