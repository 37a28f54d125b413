"""A recorded row as text: the ending of its program, the sandbox's messages, and the values of its tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from lit_rl.run_files.records import RecordedRow

Tokens = Mapping[str, list[Any]]

_AROUND = 2
_WIDTH = 70
_NEWLINE = re.compile("\r\n|\r|\n")  # as Python counts lines; splitlines knows more ends of lines


def verdict_and_cause_text(row: RecordedRow) -> str:
    """Return the verdict and its cause in one line; if the row did not pass, also what ended its text early."""
    outcome = row.outcome
    verdict = outcome.get("robot_verdict") or row.verdict
    cause = f": {outcome['exception_type']}" if outcome.get("exception_type") else ""
    where = f", line {outcome['line']}" if outcome.get("line") else ""
    passed = [case == "passed" for case in outcome.get("cases", [])]
    if passed and all(passed[:-1]) and not passed[-1]:
        counted = f", case {len(passed)}"  # the cases after it may not have run
    else:
        counted = f" (passed {sum(passed)} of {len(passed)} cases)" if passed else ""
    turn, cut = row.turns[-1], ""
    if row.verdict != "passed" and turn.stop_reason == "stop_string":
        cut = f", ended by the stop string {turn.stop_string!r}" if turn.stop_string else ", ended by a stop string"
    elif row.verdict != "passed" and turn.stop_reason == "length":
        cut = ", cut at the token limit"
    return f"{verdict}{cause}{where}{counted}{cut}"


def format_number(value: float | None, digits: int = 4) -> str:
    """Return a number with some significant digits, or ``none``; 1,000 is not written as 1e+03."""
    return "none" if value is None else f"{float(f'{value:.{digits}g}'):,.10g}"


def duration_text(seconds: float) -> str:
    """Return a duration such as ``1:02`` or ``3:01:02``."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def outcome_sections(row: RecordedRow) -> list[tuple[str, str]]:
    """Return the sandbox's report besides the verdict: headings and texts, empty ones left out."""
    outcome, case, line = row.outcome, row.outcome.get("failed_case"), row.outcome.get("line")
    failing = failed = ""
    if row.program is not None and line:  # the failing line is marked, with some lines around it
        lines = _NEWLINE.split(row.program["source"])
        around = range(max(1, line - _AROUND), min(len(lines), line + _AROUND) + 1)
        failing = "\n".join(f"{'>' if n == line else ' '} {n:3} {lines[n - 1]}" for n in around)
    if case:
        wanted = f" -> wanted {case['expected']}" if case.get("expected") else ""
        got = f", got {case['actual']}" if case.get("actual") else ""
        failed = f"case {case.get('number')}: {case.get('call')}{wanted}{got}"
    parts = [
        ("failing line", failing),
        ("failed case", failed),
        ("message", outcome.get("exception_message", "")),
        ("standard error", outcome.get("stderr", "")),
        ("printed", outcome.get("stdout", "")),
        ("no reward", row.reason),
    ]
    return [(heading, text.rstrip()) for heading, text in parts if text.strip()]


def escape_controls(text: str) -> str:
    """Return a text that cannot steer the terminal: control characters except newline and tab are spelled out."""
    return "".join(one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode() for one in text)


# -- values of tokens ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenValueKind:
    """One way to colour tokens.

    Args:
        needs: name of the recorded values that it requires.
        of: maps a row's recorded values and a token's column to the token's value, or ``None``.
        signed: whether values can be negative.
        says: what the value means, with its unit.
    """

    needs: str
    of: Callable[[Tokens, int], float | None]
    signed: bool
    says: str


def _log_ratio(tokens: Tokens, i: int, over: str, under: str) -> float | None:
    """Return the difference of two recorded log-probabilities; ``then`` names the one from before the update."""
    then = tokens.get("logprob_old", tokens["logprob_sampled"])
    first, second = (then[i] if name == "then" else tokens[name][i] for name in (over, under))
    return None if first is None or second is None else first - second


KINDS = {
    "credit": TokenValueKind("credit", lambda t, i: t["credit"][i], True, "part of the reward"),
    "advantage": TokenValueKind("advantage", lambda t, i: t["advantage"][i], True, "advantage"),
    "ratio": TokenValueKind(
        "logprob_update",
        lambda t, i: _log_ratio(t, i, "logprob_update", "then"),
        True,
        "log of the probability in the last update over that when sampled",
    ),
    "entropy": TokenValueKind("entropy", lambda t, i: t["entropy"][i], False, "nats"),
    "surprise": TokenValueKind(
        "logprob_sampled",
        lambda t, i: None if (p := t["logprob_sampled"][i]) is None else 0.0 - p,
        False,
        "nats, as sampled",
    ),
    "reference": TokenValueKind(
        "logprob_ref",
        lambda t, i: _log_ratio(t, i, "then", "logprob_ref"),
        True,
        "log of the probability over that under the reference",
    ),
    "value": TokenValueKind("value", lambda t, i: t["value"][i], True, "the critic's value, before the update"),
}
"""Kinds of token values by name; the page of ``lit-rl report --html`` has the same kinds."""


def token_values_by_column(row: RecordedRow, kind: str) -> dict[int, float]:
    """Return the values of a row's own tokens by column; empty if they were not recorded."""
    how = KINDS[kind]
    if how.needs not in row.tokens:
        return {}
    columns = (column for turn in row.turns for column in range(turn.start, turn.end))
    found = {column: how.of(row.tokens, column) for column in columns}
    return {column: value for column, value in found.items() if value is not None}


def token_value_table_lines(row: RecordedRow, number: int, kind: str, most: int) -> Iterator[str]:
    """Yield a line for each run of tokens with equal values in a turn: the value, the number of tokens, their text."""
    values, turn = token_values_by_column(row, kind), row.turns[number]
    if not values:
        return
    tokens = [(values.get(turn.start + i), piece) for i, piece in enumerate(turn.token_texts())]
    runs = [list(run) for _, run in groupby(tokens, key=lambda token: format_number(token[0]))]
    by_size = sorted(range(len(runs)), key=lambda i: -abs(runs[i][0][0] or 0.0))
    kept = sorted(by_size[: most or None])
    yield f"{kind:>10}  tokens  text"
    half = _WIDTH // 2
    for value, run in ((runs[i][0][0], runs[i]) for i in kept):
        text = "".join(piece for _, piece in run)
        shown = repr(text) if len(text) <= _WIDTH else f"{text[:half]!r} ... {text[-half:]!r}"
        yield f"{format_number(value):>10}  {len(run):6}  {shown if text else '(no text)'}"
    if len(kept) < len(runs):
        left = len(runs) - len(kept)
        yield f"{left} more {'is' if left == 1 else 'are'} nearer to 0; --lines 0 prints all"
