"""The values by which the tokens of a recorded row can be coloured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lit_rl.reports.run_files.recorded import RecordedRow

Tokens = Mapping[str, list[Any]]


@dataclass(frozen=True)
class TokenValue:
    """One way to colour tokens.

    Args:
        needs: name of the recorded values that it requires.
        of: from the recorded values of a row and a token's column to the token's value; ``None`` if it has none.
        signed: whether values can be negative.
        says: what the value means, with its unit.
    """

    needs: str
    of: Callable[[Tokens, int], float | None]
    signed: bool
    says: str


def _then(tokens: Tokens, i: int) -> float | None:
    value: float | None = tokens.get("logprob_old", tokens["logprob_sampled"])[i]
    return value


def _difference(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


KINDS = {
    "credit": TokenValue("credit", lambda t, i: t["credit"][i], True, "part of the reward"),
    "advantage": TokenValue("advantage", lambda t, i: t["advantage"][i], True, "advantage"),
    "ratio": TokenValue(
        "logprob_update",
        lambda t, i: _difference(t["logprob_update"][i], _then(t, i)),
        True,
        "log of the probability in the last update over that when sampled",
    ),
    "entropy": TokenValue("entropy", lambda t, i: t["entropy"][i], False, "nats"),
    "surprise": TokenValue(
        "logprob_sampled", lambda t, i: _difference(0.0, t["logprob_sampled"][i]), False, "nats, as sampled"
    ),
    "reference": TokenValue(
        "logprob_ref",
        lambda t, i: _difference(_then(t, i), t["logprob_ref"][i]),
        True,
        "log of the probability over that under the reference",
    ),
    "value": TokenValue("value", lambda t, i: t["value"][i], True, "the critic's, before the update"),
}
"""By name; the page of ``lit-rl report --html`` has the same."""


def values_of(row: RecordedRow, kind: str) -> dict[int, float]:
    """The values of a row's own tokens by column; none where they were not recorded."""
    how = KINDS[kind]
    if how.needs not in row.tokens:
        return {}
    columns = (column for turn in row.turns for column in range(turn.start, turn.end))
    found = {column: how.of(row.tokens, column) for column in columns}
    return {column: value for column, value in found.items() if value is not None}
