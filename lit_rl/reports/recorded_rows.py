"""Choose rows of a rollout for its record, and turn them into plain data.

Letters: N rows, T completion tokens.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from lit_rl.execution.interface import Outcome
from lit_rl.reports.diagnosis.failures import ending_stop_string
from lit_rl.reports.diagnosis.history import Decode
from lit_rl.rewards.term import RewardOutput
from lit_rl.rewards.token_credit import SourceMap
from lit_rl.rollout import Rollout
from lit_rl.run_files.files import append_record_batch
from lit_rl.run_files.records import RecordedRow, RecordedTurn, finite_or_none, recorded_row_to_dict
from lit_rl.types import Completions, Judgement, StopReason

MAX_OUTPUT_LENGTH = 2000
"""Characters kept of a program's output, counted from its end."""
NOTHING_TO_RUN = "nothing to run"
"""Stands in place of a verdict if a task runs no programs."""

# -- which rows -----------------------------------------------------------------------------------------------


def choose_rows_to_record(
    groups: Mapping[int, Sequence[int]], rewards: Sequence[float | None], num_groups: int, num_rows: int, seed: int
) -> list[int]:
    """Choose rows of the group whose rewards differ most and of random groups; add the best, worst and a lost row."""
    ranked = [_sort_best_rows_first(rows, rewards) for rows in groups.values()]
    widest = sorted(ranked, key=lambda rows: _max_reward_difference(rows, rewards), reverse=True)[: min(1, num_groups)]
    others = [rows for rows in ranked if rows not in widest]
    drawn = random.Random(seed).sample(others, min(len(others), num_groups - len(widest)))
    wanted: set[int] = set()
    for rows in widest + drawn:
        known = [row for row in rows if rewards[row] is not None]
        kept = min(num_rows, len(known))
        wanted.update(known[round(i * (len(known) - 1) / max(1, kept - 1))] for i in range(kept))
        wanted.update(rows[len(known) :][: num_rows - kept])
    of_all = _sort_best_rows_first([row for rows in groups.values() for row in rows], rewards)
    known = [row for row in of_all if rewards[row] is not None]
    return sorted(wanted.union(known[:1], known[-1:], of_all[len(known) :][:1]))


def _sort_best_rows_first(rows: Sequence[int], rewards: Sequence[float | None]) -> list[int]:
    """Return the rows by falling reward, rows without a reward last."""
    return sorted(rows, key=lambda row: (rewards[row] is None, -(rewards[row] or 0.0), row))


def _max_reward_difference(rows: Sequence[int], rewards: Sequence[float | None]) -> float:
    known = [reward for row in rows if (reward := rewards[row]) is not None]
    return max(known) - min(known) if known else -1.0


# -- as plain data --------------------------------------------------------------------------------------------


def build_recorded_rows(
    rollout: Rollout,
    rewards: RewardOutput | None,
    rows: Sequence[int],
    number: int,
    decode: Decode | None,
    values: Mapping[str, Tensor | None] = MappingProxyType({}),
) -> Iterator[RecordedRow]:
    """Yield some rows as plain data, with [N, T] values of their tokens; rows are numbered as on this rank."""
    completions = rollout.completions
    known = {"logprob_sampled": completions.sampler_logprobs, **values}
    # Copy all rows together: each copy from a device waits for the device.
    index = torch.tensor(rows, dtype=torch.long)
    ids = {"ids": completions.completion_ids[index.to(completions.completion_ids.device)].tolist()}
    tokens = {
        name: round_significant(values[index.to(values.device)]) for name, values in known.items() if values is not None
    }
    lengths, groups = completions.token_counts.tolist(), completions.group_ids.tolist()
    for place, row in enumerate(rows):
        judgement, turns = rollout.judgements[row], completions.turns[row]
        prompt, program, line = judgement.problem.prompt, judgement.program, judgement.outcome.line
        failing = (
            SourceMap(turns[-1].text, program).line_reward_span(line, 0.0) if program and line is not None else None
        )
        yield RecordedRow(
            rollout=number,
            row=row,
            group=groups[row],
            task_id=judgement.problem.task_id,
            prompt=prompt if isinstance(prompt, str) else [dict(message) for message in prompt],
            prompt_ids=tuple(completions.prompt_ids[row][completions.prompt_mask[row]].tolist()),
            turns=tuple(_recorded_turn(rollout, row, turn, decode) for turn in range(len(turns))),
            program=None if program is None else _dataclass_fields(program),
            failing=None if failing is None else (failing.start, failing.end),
            reward=float(rewards.rewards[row]) if rewards is not None and rewards.valid[row] else None,
            reason="" if rewards is None else rewards.reasons.get(row, ""),
            terms={} if rewards is None else {n: finite_or_none(float(v[row])) for n, v in rewards.term_values.items()},
            tokens={name: values[place][: lengths[row]] for name, values in (ids | tokens).items()},
        )


def _recorded_turn(rollout: Rollout, row: int, number: int, decode: Decode | None) -> RecordedTurn:
    turns, judgement = rollout.completions.turns[row], rollout.turn_judgements[row][number]
    turn, is_last = turns[number], number + 1 == len(turns)
    runs = judgement.problem.check.runs_program
    return RecordedTurn(
        start=turn.start,
        end=turn.end,
        text=turn.text,
        spans=tuple(turn.token_byte_spans),
        stop_reason=str(turn.stop_reason),
        message="" if is_last else environment_message(rollout.completions, row, number, decode),
        outcome=outcome_fields(judgement.outcome) if runs else {"verdict": NOTHING_TO_RUN},
        stop_string=ending_stop_string(rollout, row, number, decode),
        in_thought=turn.in_thought,
    )


def environment_message(completions: Completions, row: int, number: int, decode: Decode | None) -> str:
    """Return the environment's message after a turn (from 0); without ``decode``, its number of tokens."""
    turns = completions.turns[row]
    ids: list[int] = completions.completion_ids[row, turns[number].end : turns[number + 1].start].tolist()
    return f"({len(ids)} tokens)" if decode is None else decode(ids, StopReason.LENGTH, ())[0]


def outcome_fields(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome's non-empty fields, without robot traces and with only the end of the output."""
    kept = {name: value for name, value in _dataclass_fields(outcome).items() if value and name != "traces"}
    kept |= {name: kept[name][-MAX_OUTPUT_LENGTH:] for name in ("stdout", "stderr") if name in kept}
    kept |= {name: float(f"{kept[name]:.4g}") for name in ("cpu_seconds", "wall_seconds") if name in kept}
    if outcome.failed_case is not None:
        kept["failed_case"] = _dataclass_fields(outcome.failed_case)
    if outcome.scores:
        kept["scores"] = {name: finite_or_none(value) for name, value in outcome.scores.items()}
    return kept


def _dataclass_fields(item: Any) -> dict[str, Any]:
    """Return the fields of a dataclass without copies, since they are written immediately."""
    return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}


def outcome_label(outcome: Outcome) -> str:
    """Return the label under which a program's ending is counted."""
    verdict = outcome.robot_verdict or str(outcome.verdict)
    return verdict if outcome.exception_type is None else f"{verdict}: {outcome.exception_type}"


def round_significant(values: Tensor, digits: int = 4) -> list[list[float | None]]:
    """Return numbers with ``digits`` significant digits, which take few bytes; ``None`` if one is not finite."""
    exact = values.detach().to("cpu", torch.float64)
    scale = 10.0 ** (digits - 1 - exact.abs().clamp_min(1e-12).log10().floor())
    short = ((exact * scale).round() / scale).tolist()
    return short if bool(exact.isfinite().all()) else [[finite_or_none(value) for value in row] for row in short]


def rollout_record_part(
    rollout: Rollout, recorded: Sequence[RecordedRow], judgements: Sequence[Judgement]
) -> dict[str, Any]:
    """Return this rank's part of a record, for :func:`append_rollout_record`."""
    endings = Counter(outcome_label(judgement.outcome) for judgement in judgements)
    num_groups = len(rollout.completions.rows_by_group())
    return {"num_rows": len(rollout.judgements), "num_groups": num_groups, "endings": endings, "rows": recorded}


def append_rollout_record(path: Path, parts: Sequence[Mapping[str, Any]], keeps_rows: bool = True, **head: Any) -> int:
    """Append the parts of all ranks as one frame, with rows and groups numbered across the ranks."""
    items: list[dict[str, Any]] = []
    first_row = first_group = 0
    for part in parts:
        for row in part["rows"] if keeps_rows else ():
            items.append(recorded_row_to_dict(row) | {"row": row.row + first_row, "group": row.group + first_group})
        first_row += part["num_rows"]
        first_group += part["num_groups"]
    endings = dict(sum((part["endings"] for part in parts), Counter[str]()).most_common())
    return append_record_batch(path, [{"num_rows": first_row, "time": time.time(), "endings": endings, **head}, *items])
