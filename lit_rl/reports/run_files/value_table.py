"""The values of a turn's tokens as plain text, for where there are no colours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from lit_rl.reports.run_files.recorded import RecordedRow
from lit_rl.reports.run_files.token_values import values_of
from lit_rl.reports.run_files.words import number_text

_WIDTH = 70


def value_table(row: RecordedRow, number: int, kind: str, most: int) -> Iterator[str]:
    """A line for each run of tokens of equal value in a turn: the value, how many tokens, their text.

    Args:
        row: that was recorded.
        number: of the turn, from 0.
        kind: of value, a name of :data:`KINDS`.
        most: lines; those of the largest values, above or below 0, are kept. 0 keeps all.

    Yields:
        nothing if the values were not recorded.
    """
    values, turn = values_of(row, kind), row.turns[number]
    if not values:
        return
    tokens = [(values.get(turn.start + i), piece) for i, piece in enumerate(turn.pieces())]
    runs = [list(run) for _, run in groupby(tokens, key=lambda token: number_text(token[0]))]
    by_size = sorted(range(len(runs)), key=lambda i: -abs(runs[i][0][0] or 0.0))
    kept = sorted(by_size[: most or None])
    yield f"{kind:>10}  tokens  text"
    for value, run in ((runs[i][0][0], runs[i]) for i in kept):
        yield f"{number_text(value):>10}  {len(run):6}  {_short(''.join(piece for _, piece in run))}"
    if len(kept) < len(runs):
        left = len(runs) - len(kept)
        yield f"{left} more {'is' if left == 1 else 'are'} nearer to 0; --lines 0 prints all"


def _short(text: str) -> str:
    """A text as Python writes it, on one line, its middle left out if it is long."""
    if not text:
        return "(no text)"
    half = _WIDTH // 2
    return repr(text) if len(text) <= _WIDTH else f"{text[:half]!r} ... {text[-half:]!r}"
