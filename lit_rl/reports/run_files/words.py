"""What there is to say of how a program ended, for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lit_rl.reports.run_files.recorded import RecordedRow, RecordedTurn

_AROUND = 2
_NEWLINE = re.compile("\r\n|\r|\n")  # as Python counts lines; splitlines knows more ends of lines


def ending(row: RecordedRow) -> str:
    """The verdict and its cause in one line; of a row that did not pass, also what ended its text early."""
    outcome = row.outcome
    verdict = outcome.get("robot_verdict") or row.verdict
    cause = f": {outcome['exception_type']}" if outcome.get("exception_type") else ""
    where = f", line {outcome['line']}" if outcome.get("line") else ""
    cases = outcome.get("cases", [])
    counted = f" ({sum(case == 'passed' for case in cases)} of {len(cases)} cases passed)" if cases else ""
    cut = "" if row.verdict == "passed" else _cut(row.turns[-1])
    return f"{verdict}{cause}{where}{counted}{cut}"


def _cut(turn: RecordedTurn) -> str:
    """What ended a turn before the policy did."""
    if turn.stop_reason == "stop_string":
        return f", ended by the stop string {turn.stop_string!r}" if turn.stop_string else ", ended by a stop string"
    return ", cut at the token limit" if turn.stop_reason == "length" else ""


def number_text(value: float | None) -> str:
    """Four digits, or ``none``."""
    return "none" if value is None else f"{value:.4g}"


def sandbox_words(row: RecordedRow) -> list[tuple[str, str]]:
    """What the sandbox said beside the verdict: headings and texts, empty ones left out."""
    outcome, case = row.outcome, row.outcome.get("failed_case")
    said = [
        ("failing line", failing_lines(row)),
        ("failed case", case_line(case) if case else ""),
        ("message", outcome.get("exception_message", "")),
        ("standard error", outcome.get("stderr", "")),
        ("printed", outcome.get("stdout", "")),
        ("no reward", row.reason),
    ]
    return [(heading, text.rstrip()) for heading, text in said if text.strip()]


def failing_lines(row: RecordedRow) -> str:
    """The line of the program that failed, marked, and some around it; empty if it is not known."""
    line = row.outcome.get("line")
    if row.program is None or not line:
        return ""
    lines = _NEWLINE.split(row.program["source"])
    first, last = max(1, line - _AROUND), min(len(lines), line + _AROUND)
    return "\n".join(f"{'>' if n == line else ' '} {n:3} {lines[n - 1]}" for n in range(first, last + 1))


def case_line(case: Mapping[str, Any]) -> str:
    """The first case that did not pass."""
    got = f", got {case['actual']}" if case["actual"] else ""
    wanted = f" -> wanted {case['expected']}" if case["expected"] else ""
    return f"case {case['number']}: {case['call']}{wanted}{got}"


def printable(text: str) -> str:
    """A text that cannot steer the terminal: control characters, but for ends of lines and tabs, are spelled out."""
    return "".join(one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode() for one in text)
