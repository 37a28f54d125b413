"""Recorded rows as lines, as many as fit; numbered over all ranks when they are written."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lit_rl.callbacks.recorded_rows import shortened
from lit_rl.reports.run_files.frames import SURROGATES
from lit_rl.reports.run_files.lines import to_json

_SHORT_TEXT = 2000


class RowLine(NamedTuple):
    """A row as it is written, with its number and its group's on its rank."""

    number: int
    group: int
    rest: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> RowLine:
        """The line of a row that :func:`plain_rows` made."""
        rest = {name: value for name, value in row.items() if name not in ("row", "group")}
        return cls(row["row"], row["group"], to_json(rest)[1:])

    @property
    def compressed_bytes(self) -> int:
        """Upper bound; rows compress better together."""
        return len(zlib.compress(self.rest.encode(errors=SURROGATES), 1))

    def line(self, first_row: int, first_group: int) -> str:
        """The line, numbered over all ranks."""
        return f'{{"row":{self.number + first_row},"group":{self.group + first_group},{self.rest}'


def that_fit(plain: Sequence[Mapping[str, Any]], allowance: int) -> list[RowLine]:
    """The first rows that take at most this many compressed bytes; if even the first does not, a short form of it."""
    whole = [RowLine.of(item) for item in plain]
    if sum(len(row.rest) for row in whole) <= allowance:  # most rollouts: nothing is compressed only to be counted
        return whole
    rows: list[RowLine] = []
    for item, row in zip(plain, whole, strict=True):
        size = row.compressed_bytes
        if size > allowance and not rows:
            row = RowLine.of(shortened(item, _SHORT_TEXT))
            size = row.compressed_bytes
        if size > allowance:
            break
        allowance -= size
        rows.append(row)
    return rows


def numbered(parts: list[dict[str, Any]]) -> list[str]:
    """The lines of all ranks' rows, in the order of their numbers, which count over the ranks."""
    lines: list[str] = []
    first_row = first_group = 0
    for part in parts:
        lines += [row.line(first_row, first_group) for row in sorted(part["rows"])]
        first_row += part["num_rows"]
        first_group += part["num_groups"]
    return lines
