"""From places in the text to tokens: who gets how much of a completion's reward.

A token that overlaps a span is flagged; the span's value is split evenly over its flagged tokens. What has
no place is spread evenly over the tokens of the extracted program, and tokens outside it get nothing. Where
there is no program it is spread over all completion tokens, EOS included. The parts always sum to the value.

In a row of several turns all of this is about the last one, whose text and program are judged. Tokens of an earlier
turn only share, evenly, what a term gives to that turn. Tokens of the environment get nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from lit_rl.rewards.term import TermScore
from lit_rl.types import Program

ByteSpan = tuple[int, int]
_ROUNDING = 1e-12


class Parts(NamedTuple):
    """A completion's reward before it is put on tokens.

    Args:
        flagged: T parts of what has places, each evenly over the tokens of its place or turn.
        decided: T parts of the same, each on the token by which its place was decided; for a turn its last.
        rest: what has no place.
    """

    flagged: list[float]
    decided: list[float]
    rest: float

    def scaled(self, factor: float) -> Parts:
        """All of it times a factor."""
        return Parts(
            [part * factor for part in self.flagged], [part * factor for part in self.decided], self.rest * factor
        )


class TokenPlaces:
    """The tokens of one completion by their place in its text.

    Args:
        token_bytes: byte span of each token of the last turn, in order.
        mask: T flags, True for tokens that the policy chose, EOS included.
        program: the program found in the turn, if any.
        start: column of the turn's first token.
        turns: columns of all turns, each from its first token to after its last; by default there is only the one.
    """

    def __init__(
        self,
        token_bytes: Sequence[ByteSpan],
        mask: Sequence[bool],
        program: Program | None,
        start: int = 0,
        turns: Sequence[tuple[int, int]] = (),
    ) -> None:
        # Only tokens that can be flagged: bytes of their own, in the mask. A trimmed batch keeps the spans of
        # its padding, so there can be more spans than flags.
        pairs = zip(token_bytes, mask[start:], strict=False)
        own = [t for t, ((first, after), counts) in enumerate(pairs) if counts and after > first]
        self._tokens = [start + t for t in own]
        self._starts = [token_bytes[t][0] for t in own]
        self._ends = [token_bytes[t][1] for t in own]
        self._length = len(mask)
        self._everywhere = [t for t, counts in enumerate(mask) if counts and t >= start]
        self._turns = turns or [(start, self._everywhere[-1] + 1 if self._everywhere else start)]
        inside = self.flagged(program.start, program.end) if program and program.end > program.start else []
        self.evenly: list[int] = inside or self._everywhere

    def flagged(self, start: int, end: int) -> list[int]:
        """Tokens that overlap bytes ``start`` to ``end``; for an empty place the token that has its byte."""
        end = max(end, start + 1)
        return self._tokens[bisect_right(self._ends, start) : bisect_left(self._starts, end)]

    def parts(self, scores: Sequence[tuple[float, TermScore]]) -> Parts:
        """What of a sum of terms has places, on their tokens and on those that decided them, and what has none."""
        flagged, decided = [0.0] * self._length, [0.0] * self._length
        rest: list[float] = []
        for weight, score in scores:
            rest.append(weight * (score.value or 0.0))
            for span in score.spans:
                tokens = self.flagged(span.start, span.end)
                for t in tokens:
                    flagged[t] += weight * span.value / len(tokens)
                if tokens:
                    decided[self.deciding(tokens[-1], span.undecided)] += weight * span.value
                    rest.append(-weight * span.value)
            for value, (first, after) in zip(score.turn_values, self._turns, strict=False):
                for t in range(first, after):
                    flagged[t] += weight * value / (after - first)
                decided[after - 1] += weight * value
                rest.append(-weight * value)
        left = math.fsum(rest)
        covered = abs(left) <= _ROUNDING * math.fsum(map(abs, rest))
        return Parts(flagged, decided, 0.0 if covered else left)

    def deciding(self, last: int, undecided: bool) -> int:
        """The token that decided a place which ends with token ``last``: the next one, since a place may go on."""
        following = bisect_right(self._everywhere, last)
        return self._everywhere[-1 if undecided else min(following, len(self._everywhere) - 1)]

    def spread(self, parts: Parts) -> list[float]:
        """What has places on their tokens, and the rest evenly over the program."""
        credit = list(parts.flagged)
        for t in self.evenly:
            credit[t] += parts.rest / len(self.evenly)
        return credit
