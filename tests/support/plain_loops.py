"""Formulas that the package computes with tensors, written as loops over tokens."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import torch
from torch import Tensor

from lit_rl.rewards import ALL_TEXT, Composite, Span, TermScore
from lit_rl.types import Completions, Judgement, Program

ByteSpan = tuple[int, int]


class PlainPlaces:
    """The tokens of one completion by their place in its text."""

    def __init__(
        self,
        token_bytes: Sequence[ByteSpan],
        mask: Sequence[bool],
        program: Program | None,
        start: int = 0,
        turns: Sequence[tuple[int, int]] = (),
    ) -> None:
        pairs = zip(token_bytes, mask[start:], strict=False)
        own = [t for t, ((first, after), counts) in enumerate(pairs) if counts and after > first]
        self._tokens = [start + t for t in own]
        self._starts = [token_bytes[t][0] for t in own]
        self._ends = [token_bytes[t][1] for t in own]
        self._length = len(mask)
        self._on_all_ranks = [t for t, counts in enumerate(mask) if counts and t >= start]
        self._turns = turns
        inside = self.flagged(program.start, program.end) if program and program.end > program.start else []
        self.evenly: list[int] = inside or self._on_all_ranks

    def flagged(self, start: int, end: int) -> list[int]:
        end = max(end, start + 1)
        return self._tokens[bisect_right(self._ends, start) : bisect_left(self._starts, end)]

    def parts(self, scores: Sequence[tuple[float, TermScore]]) -> tuple[list[float], list[float], float]:
        flagged, decided = [0.0] * self._length, [0.0] * self._length
        rest: list[float] = []
        for weight, score in scores:
            rest.append(weight * (score.value or 0.0))
            for span in score.spans:
                tokens = self.flagged(span.start, span.end)
                for t in tokens:
                    flagged[t] += weight * span.value / len(tokens)
                if tokens:
                    decided[self._deciding(span)] += weight * span.value
                    rest.append(-weight * span.value)
            for value, (first, after) in zip(score.turn_values, self._turns, strict=False):
                for t in range(first, after):
                    flagged[t] += weight * value / (after - first)
                decided[after - 1] += weight * value
                rest.append(-weight * value)
        left = math.fsum(rest)
        covered = abs(left) <= 1e-12 * math.fsum(map(abs, rest))
        return flagged, decided, 0.0 if covered else left

    def _deciding(self, span: Span) -> int:
        last = self.flagged(span.start, max(span.end, span.until))[-1]
        following = bisect_right(self._on_all_ranks, last)
        return self._on_all_ranks[-1 if span.until == ALL_TEXT else min(following, len(self._on_all_ranks) - 1)]

    def spread(self, flagged: Sequence[float], rest: float) -> list[float]:
        credit = list(flagged)
        for t in self.evenly:
            credit[t] += rest / len(self.evenly)
        return credit


def plain_credit(
    composite: Composite, completions: Completions, judgements: Sequence[Judgement], scores: list[list[TermScore]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards [N], credit [N, T] and decided [N, T] of given scores, one list per term."""
    rewards, credit, decided = [], [], []
    for i, row in enumerate(completions.completion_mask.tolist()):
        turns = completions.turns[i]
        columns = [(turn.start, turn.end) for turn in turns]
        places = PlainPlaces(tuple(turns[-1].token_byte_spans), row, judgements[i].program, turns[-1].start, columns)
        pairs = [(term.weight, of_term[i]) for term, of_term in zip(composite.terms, scores, strict=True)]
        if any(weight and score.value is None for weight, score in pairs):
            pairs = []
        counted = [(weight, score) for weight, score in pairs if weight and score.value is not None]
        total = math.fsum(weight * (score.value or 0.0) for weight, score in counted)
        flagged, chosen, rest = places.parts(counted)
        rewards.append(total)
        credit.append(places.spread(flagged, rest))
        decided.append(chosen)
    shape = completions.completion_mask.shape
    return (
        torch.tensor(rewards, dtype=torch.float32),
        torch.tensor(credit, dtype=torch.float32).view(shape),
        torch.tensor(decided, dtype=torch.float32).view(shape),
    )


def plain_byte_spans(pieces: Sequence[bytes]) -> tuple[str, list[ByteSpan]]:
    """Text and spans of tokens with these bytes; a piece that is not UTF-8 is one U+FFFD, shared by its tokens."""
    raw = b"".join(pieces)
    moved: list[int] = []  # for each byte, and for the end, where it begins in the text
    ends: list[int] = []
    text = b""
    position = 0
    while position < len(raw):
        size, shown = _character(raw[position:])
        for byte in range(size):
            whole = shown == "\N{REPLACEMENT CHARACTER}".encode() and raw[position : position + size] != shown
            moved.append(len(text) if whole else len(text) + byte)
            ends.append(len(text) + (len(shown) if whole else byte + 1))
        text += shown
        position += size
    spans, start = [], 0
    for piece in pieces:
        after = start + len(piece)
        here = ends[after - 1] if after else 0
        spans.append((moved[start] if piece else here, here))
        start = after
    return text.decode(), spans


def _character(raw: bytes) -> tuple[int, bytes]:
    """Bytes of the first character and what it is shown as."""
    try:
        first = raw.decode()[0]
    except UnicodeDecodeError as error:
        if error.start == 0:
            return error.end, "\N{REPLACEMENT CHARACTER}".encode()
        first = raw[: error.start].decode()[0]
    return len(first.encode()), first.encode()
