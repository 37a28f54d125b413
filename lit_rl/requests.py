"""Requests to an engine, its answers, and the byte spans of tokens in the text.

:mod:`lit_rl.types` exports the names of requests and answers too.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, overload

import torch
from torch import Tensor

from lit_rl.arguments import ArgumentError, UsageError, require_above, require_at_least, require_share, typed_group


@typed_group
@dataclass(frozen=True)
class Sampling:
    """Sampling settings.

    Args:
        num_samples: completions per prompt; the group size G when training.
        temperature: temperature of the softmax; 0 is greedy.
        top_p: keep the smallest set of tokens that has this much probability; 1 keeps all.
        top_k: keep this many of the most likely tokens; 0 keeps all.
        max_tokens: a completion is cut after this many tokens.
    """

    num_samples: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256

    def __post_init__(self) -> None:
        require_at_least(1, self, num_samples=self.num_samples, max_tokens=self.max_tokens)
        require_at_least(0, self, temperature=self.temperature, top_k=self.top_k)
        require_above(0, self, top_p=self.top_p)
        require_share(self, top_p=self.top_p)
        if self.temperature == 0 and self.num_samples > 1:
            raise UsageError(
                f"greedy sampling gives the same completion each time, got num_samples={self.num_samples}: "
                "use num_samples: 1 or a temperature above 0"
            )


class StopReason(StrEnum):
    """Reason a completion ended; recorded by the sampler, never guessed from ids or lengths."""

    EOS = "eos"
    LENGTH = "length"
    STOP_STRING = "stop_string"


@dataclass(frozen=True)
class Request:
    """Request to an engine to continue these ids.

    Args:
        row: number of the rollout's row, handed back with the answer.
        prompt_ids: everything so far; ids of earlier turns exactly as they were sampled.
        stream: seed of the request's own random stream, see :class:`lit_rl.models.sampling.StreamKey`.
        max_tokens: the completion is cut after this many tokens.
        stop_strings: the completion ends with the token that completes the first of these.
    """

    row: int
    prompt_ids: tuple[int, ...]
    stream: int
    max_tokens: int
    stop_strings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.prompt_ids:
            raise UsageError(f"the prompt of row {self.row} has no tokens: give the policy at least one to continue")
        if self.max_tokens < 1:
            raise ArgumentError("max_tokens", "at least 1", f"{self.max_tokens} in the request of row {self.row}")


@dataclass(frozen=True)
class Generation:
    """Answer of an engine to a :class:`Request`.

    Args:
        row: the request's.
        ids: the sampled ids, at least one; EOS and the tokens of a stop string included.
        logprobs: log-probability of each id (nats), under the distribution that it was drawn from.
        reason: why the completion ended.
        weights_version: the policy's ``version`` that its tokens were sampled with; the lowest, if there were several.
    """

    row: int
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    reason: StopReason
    weights_version: int


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
        """The same tokens in a part of the text: tokens after it are empty at its end.

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
