"""``lit-rl show RUN``: a recorded completion in the terminal, its tokens coloured by what they earned."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from lit_rl.arguments import UsageError
from lit_rl.reports.run_files import RecordedRollout, RecordedRow, newest_recorded, read_metrics, read_rollouts
from lit_rl.reports.run_files.row_text import (
    KINDS,
    ending,
    number_text,
    printable,
    sandbox_words,
    value_table,
    values_of,
)

_BLUE, _ORANGE, _PURPLE = (33, 102, 172), (230, 97, 1), (118, 42, 131)
_RESET, _BOLD, _FAINT, _UNDERLINE = "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[4m"


def show(arguments: Sequence[str]) -> None:
    """Print a recorded completion: prompt, tokens in colour, and what the sandbox said.

    What Diagnostics found and still holds comes first. Without a row the rows of the rollout are listed, without a
    rollout those of the last one. Tokens are blue where their value is above 0, orange below and uncoloured at 0; the
    colour is fullest where the row's value is furthest from 0. Where there are no colours (in a file or a pipe, with
    NO_COLOR) a table after each turn has the value and the text of each run of tokens of equal value; FORCE_COLOR
    colours anyway. Of several runs below RUN the one recorded last is shown.
    """
    parser = ArgumentParser(prog="lit-rl show", description=show.__doc__, exit_on_error=False)
    parser.add_argument("run", type=str, help="folder of a run")
    parser.add_argument("--rollout", type=int, help="number of the rollout, from 1; the last by default")
    parser.add_argument("--row", type=int, help="number of the row in it, from 0")
    parser.add_argument("--best", action="store_true", help="the row with the largest reward, the latest of equal ones")
    parser.add_argument("--colour", "--color", type=str, default="credit", help=f"{', '.join(KINDS)}, or none")
    parser.add_argument("--lines", type=int, default=20, help="most lines of a turn's table of values; 0 for all")
    parsed = parser.parse_args(list(arguments))
    if parsed.colour not in (*KINDS, "none"):
        raise UsageError(f"--colour {parsed.colour} is unknown: use {', '.join(KINDS)} or none")
    if parsed.lines < 0:
        raise UsageError(f"--lines must not be negative, got {parsed.lines}: 0 prints all")
    folder = newest_recorded(parsed.run)
    in_colour = (sys.stdout.isatty() and "NO_COLOR" not in os.environ) or "FORCE_COLOR" in os.environ
    paint = Paint(parsed.colour, in_colour, parsed.lines)
    diagnoses = (f"diagnosis {one.line()}" for one in read_metrics(folder).open_diagnoses)
    print(printable("\n".join([f"run {folder}", *diagnoses])))
    if parsed.best:
        rollout, row = best_row(folder)
    else:
        rollout = find_rollout(folder, parsed.rollout)
        if parsed.row is None:
            print(printable("\n".join(listed(rollout))))
            return
        row = find_row(rollout, parsed.row)
    print("\n".join(described(rollout, row, paint)))


def find_rollout(folder: Path, number: int | None) -> RecordedRollout:
    """A recorded rollout; the last if no number is given.

    Raises:
        ValueError: it was not recorded.
    """
    numbers, last = [], None
    for rollout in read_rollouts(folder):
        if rollout.number == number:
            return rollout
        numbers.append(rollout.number)
        last = rollout
    if last is None:
        raise UsageError(f"{folder} holds no whole rollout yet: look again after the first one")
    if number is not None:
        raise UsageError(f"rollout {number} was not recorded: there are {numbers[0]} to {numbers[-1]}")
    return last


def find_row(rollout: RecordedRollout, number: int) -> RecordedRow:
    """A recorded row.

    Raises:
        ValueError: it was not kept.
    """
    found = next((row for row in rollout.rows if row.row == number), None)
    if found is not None:
        return found
    kept = ", ".join(str(row.row) for row in rollout.rows) or "none"
    raise UsageError(
        f"row {number} of rollout {rollout.number} was not kept; there are: {kept}. RunRecord's num_groups keeps more"
    )


def best_row(folder: Path) -> tuple[RecordedRollout, RecordedRow]:
    """The row with the largest reward of all that were recorded.

    Raises:
        ValueError: no row has a reward.
    """
    best: tuple[RecordedRollout, RecordedRow] | None = None
    for rollout in read_rollouts(folder):
        for row in rollout.rows:
            if row.reward is not None and (best is None or row.reward >= (best[1].reward or 0.0)):
                best = rollout, row
    if best is None:
        raise UsageError(f"no recorded row in {folder} has a reward")
    return best


def listed(rollout: RecordedRollout) -> Iterator[str]:
    """The kept rows of a rollout, one line each."""
    yield f"rollout {rollout.number}: {len(rollout.rows)} of {rollout.num_rows} rows were kept; --row shows one"
    for number in dict.fromkeys(row.group for row in rollout.rows):
        rows = rollout.group(number)
        yield f"  {rows[0].task_id}"
        yield from (
            f"    row {row.row:4}  reward {number_text(row.reward):>7}  {ending(row)}"
            + (f", {len(row.turns)} turns" if len(row.turns) > 1 else "")
            for row in rows
        )


def described(rollout: RecordedRollout, row: RecordedRow, paint: Paint) -> Iterator[str]:
    """Everything known about one row."""
    yield paint.bold(f"rollout {rollout.number}, row {row.row}: {row.task_id}")
    terms = ", ".join(f"{name} {number_text(value)}" for name, value in row.terms.items())
    yield printable(f"reward {number_text(row.reward)} ({terms}), {ending(row)}")
    others = (f"row {one.row} {number_text(one.reward)}" for one in rollout.group(row.group) if one.row != row.row)
    yield f"others of its group: {', '.join(others) or 'none'}"
    yield paint.faint("\nprompt")
    yield printable(row.prompt_text)
    yield paint.faint(f"\ncompletion, {row.num_tokens} tokens{paint.legend(row)}")
    for number, turn in enumerate(row.turns, 1):
        if len(row.turns) > 1:
            yield paint.faint(f"turn {number}: {turn.outcome['verdict']}")
        yield paint.tokens(row, number - 1)
        yield from paint.table(row, number - 1)
        if turn.message:
            yield paint.faint("the environment")
            yield printable(turn.message)
    for heading, text in sandbox_words(row):
        yield paint.faint(f"\n{heading}")
        yield printable(text)


class Paint:
    """Colours of a terminal, or a table in their place; neither if the kind is ``none``.

    Args:
        kind: what tokens are coloured by.
        in_colour: whether the output shows colours.
        lines: most lines of a table; 0 for all.
    """

    def __init__(self, kind: str, in_colour: bool = True, lines: int = 20) -> None:
        self.kind = kind if in_colour else "none"
        self.tabled = "none" if in_colour else kind
        self.lines = lines

    def bold(self, text: str) -> str:
        """A heading."""
        return printable(text) if self.kind == "none" else f"{_BOLD}{printable(text)}{_RESET}"

    def faint(self, text: str) -> str:
        """Dim text that is not the run's own."""
        return printable(text) if self.kind == "none" else f"{_FAINT}{printable(text)}{_RESET}"

    def legend(self, row: RecordedRow) -> str:
        """Explain the colours, or the numbers of the table."""
        kind = self.kind if self.kind != "none" else self.tabled
        if kind == "none":
            return ""
        values = values_of(row, kind).values()
        if not values:
            return f"; {kind} was not recorded"
        if self.kind == "none":
            return f"; {kind} ({KINDS[kind].says}) is from {number_text(min(values))} to {number_text(max(values))}"
        hues = "blue above 0, orange below" if KINDS[kind].signed else "purple"
        largest = number_text(max(map(abs, values)))
        return f"; colour is {kind} ({KINDS[kind].says}): {hues}, none at 0, full at {largest}"

    def table(self, row: RecordedRow, number: int) -> Iterator[str]:
        """The values of a turn where there are no colours."""
        if self.tabled != "none":
            yield from value_table(row, number, self.tabled, self.lines)

    def tokens(self, row: RecordedRow, number: int) -> str:
        """A turn, each token on the colour of its value, those of the failing line underlined."""
        turn = row.turns[number]
        values = {} if self.kind == "none" else values_of(row, self.kind)
        if not values:
            return printable(turn.text)
        largest = max(map(abs, values.values())) or 1.0
        failing = row.failing if number + 1 == len(row.turns) and row.failing else (0, 0)
        painted = []
        for i, (piece, (start, end)) in enumerate(zip(turn.pieces(), turn.spans, strict=True)):
            under = _UNDERLINE if start < failing[1] and end > failing[0] else ""
            colour = under + self._background(values.get(turn.start + i, 0.0) / largest)
            shown = printable(piece).split("\n")  # a colour must not run on to the end of the terminal's line
            painted.append("\n".join(f"{colour}{part}{_RESET}" if part and colour else part for part in shown))
        return "".join(painted)

    def _background(self, share: float) -> str:
        if abs(share) < 0.02:
            return ""
        hue = _PURPLE if not KINDS[self.kind].signed else _BLUE if share > 0 else _ORANGE
        mixed = (round(255 + (part - 255) * min(1.0, 0.15 + 0.6 * abs(share))) for part in hue)
        return f"\x1b[30;48;2;{';'.join(map(str, mixed))}m"
