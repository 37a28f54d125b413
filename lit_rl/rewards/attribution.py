"""From places in the text to tokens: who gets how much of a completion's reward.

A token that overlaps a span is flagged; the span's value is split evenly over its flagged tokens. What has
no place is spread evenly over the tokens of the extracted program, and tokens outside it get nothing. Where
there is no program it is spread over all completion tokens, EOS included. The parts always sum to the value.

In a row of several turns all of this is about the last one, whose text and program are judged. Tokens of an earlier
turn only share, evenly, what a term gives to that turn. Tokens of the environment get nothing.

Letters: T completion tokens, S places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lit_rl.requests import ByteSpan, ByteSpans, integers
from lit_rl.rewards.term import TermScore
from lit_rl.types import Program

_ROUNDING = 1e-12


class Parts(NamedTuple):
    """A completion's reward before it is put on tokens.

    Args:
        flagged: [T] float64, parts of what has places, each evenly over the tokens of its place or turn.
        decided: [T] float64, parts of the same, each on the token by which its place was decided; for a turn its last.
        rest: what has no place.
    """

    flagged: Tensor
    decided: Tensor
    rest: float

    def scaled(self, factor: float) -> Parts:
        """All of it times a factor."""
        return Parts(self.flagged * factor, self.decided * factor, self.rest * factor)


class _Place(NamedTuple):
    """What earned a part of a reward: bytes ``start`` to ``end`` of the last turn, or the columns of a turn."""

    start: int
    end: int
    amount: float
    undecided: bool = False
    is_turn: bool = False


class TokenPlaces:
    """The tokens of one completion by their place in its text.

    Args:
        token_bytes: byte span of each token of the last turn, in order.
        mask: [T] bool on the CPU, tokens that the policy chose, EOS included.
        program: the program found in the turn, if any.
        start: column of the turn's first token.
        turns: columns of all turns, each from its first token to after its last; by default there is only the one.
    """

    def __init__(
        self,
        token_bytes: Sequence[ByteSpan],
        mask: Tensor,
        program: Program | None,
        start: int = 0,
        turns: Sequence[tuple[int, int]] = (),
    ) -> None:
        # Only tokens that can be flagged: bytes of their own, in the mask. A trimmed batch keeps the spans of
        # its padding, so there can be more spans than flags.
        said = mask[start:]
        spans = ByteSpans.of(token_bytes)[: len(said)]
        own = _positions(said[: len(spans)] & (spans.ends > spans.starts))
        self._tokens = own + start
        self._starts, self._ends = spans.starts.index_select(0, own), spans.ends.index_select(0, own)
        self._length = len(mask)
        self._everywhere = _positions(said) + start
        self._turns = turns or [(start, int(self._everywhere[-1]) + 1 if len(self._everywhere) else start)]
        inside = self.flagged(program.start, program.end) if program and program.end > program.start else own[:0]
        self.evenly = inside if len(inside) else self._everywhere

    def flagged(self, start: int, end: int) -> Tensor:
        """Columns of the tokens that overlap bytes ``start`` to ``end``; for an empty place the token at its byte."""
        first, after = self._flagged(integers([start]), integers([end]))
        return self._tokens[int(first) : int(after)]

    def parts(self, scores: Sequence[tuple[float, TermScore]]) -> Parts:
        """What of a sum of terms has places, on their tokens and on those that decided them, and what has none."""
        rest = [weight * (score.value or 0.0) for weight, score in scores]
        flagged, decided = torch.zeros(2, self._length, dtype=torch.float64)
        places = self._places(scores)
        if places:
            has_tokens = self._put(places, flagged, decided)
            rest += [-place.amount for place, found in zip(places, has_tokens, strict=True) if found]
        left = math.fsum(rest)
        covered = abs(left) <= _ROUNDING * math.fsum(map(abs, rest))
        return Parts(flagged, decided, 0.0 if covered else left)

    def spread(self, parts: Parts) -> Tensor:
        """[T] what has places on their tokens, and the rest evenly over the program."""
        count = len(self.evenly)
        each = torch.tensor([parts.rest / max(count, 1)], dtype=torch.float64)
        return parts.flagged.index_add(0, self.evenly, each.expand(count))

    def _places(self, scores: Sequence[tuple[float, TermScore]]) -> list[_Place]:
        """All places, term by term."""
        places = []
        for weight, score in scores:
            for span in score.spans:
                places.append(_Place(int(span.start), int(span.end), weight * span.value, span.undecided))
            for value, (first, after) in zip(score.turn_values, self._turns, strict=False):
                places.append(_Place(first, after, weight * value, is_turn=True))
        return places

    def _put(self, places: Sequence[_Place], flagged: Tensor, decided: Tensor) -> list[bool]:
        """Add what places earned to their tokens; False for a place that has none."""
        starts, ends = integers(place.start for place in places), integers(place.end for place in places)
        is_turn = torch.tensor([place.is_turn for place in places])
        amounts = torch.tensor([place.amount for place in places], dtype=torch.float64)
        # Ranges of positions: first the tokens that bytes can flag, then all columns, which turns consist of.
        positions = torch.cat([self._tokens, torch.arange(self._length)])
        first, after = self._flagged(starts, ends)
        first = torch.where(is_turn, len(self._tokens) + starts, first)
        counts = torch.where(is_turn, len(self._tokens) + ends, after) - first
        # index_add_ on the CPU is a loop: a token's parts are added in the order of the places.
        flagged.index_add_(0, positions[_ranges(first, counts)], (amounts / counts).repeat_interleave(counts))
        found = counts > 0
        deciding = positions[(first + counts - 1)[found]]  # of a turn; of a span the token after it
        spans = ~is_turn[found]
        undecided = torch.tensor([place.undecided for place in places])[found]
        deciding[spans] = self._deciding(deciding[spans], undecided[spans])
        decided.index_add_(0, deciding, amounts[found])
        return found.tolist()

    def _flagged(self, starts: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """[S] the first of the tokens that overlap bytes, and the one after the last."""
        ends = torch.maximum(ends, starts + 1)
        return torch.searchsorted(self._ends, starts, right=True), torch.searchsorted(self._starts, ends)

    def _deciding(self, last: Tensor, undecided: Tensor) -> Tensor:
        """[S] the tokens that decided places which end with these: the next ones, since a place may go on."""
        following = torch.searchsorted(self._everywhere, last, right=True).clamp(max=len(self._everywhere) - 1)
        return self._everywhere[torch.where(undecided, len(self._everywhere) - 1, following)]


def _positions(flags: Tensor) -> Tensor:
    """[K] where the flags are; without a search, which takes long, if they are at the beginning."""
    count = int(flags.sum())
    return torch.arange(count) if bool(flags[:count].all()) else flags.nonzero()[:, 0]


def _ranges(first: Tensor, counts: Tensor) -> Tensor:
    """``first, first + 1, ...`` of each range, one after the other."""
    before = counts.cumsum(0) - counts
    return torch.arange(int(counts.sum())) + (first - before).repeat_interleave(counts)
