"""Choice of a rollout's rows for its record, as plain data, as many as fit.

Letters: N rows, T completion tokens.
"""

from __future__ import annotations

import dataclasses
import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lit_rl.callbacks.completion_log import message_after
from lit_rl.execution.interface import Outcome
from lit_rl.reports.diagnosis.failures import string_that_ended
from lit_rl.reports.diagnosis.history import Decode
from lit_rl.reports.run_files import RecordedRow, RecordedTurn
from lit_rl.reports.run_files.files import SURROGATES, to_json
from lit_rl.reports.run_files.records import finite, item_of
from lit_rl.rewards.places import Places
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout

LONGEST_OUTPUT = 2000
"""Characters kept of a program's output, counted from its end."""
NOTHING_TO_RUN = "nothing to run"
"""In place of a verdict, where a task runs no programs."""
_SHORT_TEXT = 2000

# -- which of them --------------------------------------------------------------------------------------------


def choose_rows(
    groups: Mapping[int, Sequence[int]], rewards: Sequence[float | None], num_groups: int, num_rows: int, seed: int
) -> list[int]:
    """Rows, the most informative first: the caller keeps as many as its budget allows.

    First the group whose rewards differ most, then the best and the worst row of the rollout, the first row without a
    reward, and then groups drawn at random. Within a group the best and the worst row come first, then the others.

    Args:
        groups: rows of each group.
        rewards: reward of each row; ``None`` if it has none.
        num_groups: groups to keep, in addition to the best and the worst row.
        num_rows: most rows of a group.
        seed: of the random draw.
    """
    widest = sorted(groups.values(), key=lambda rows: _spread(rows, rewards), reverse=True)[: min(1, num_groups)]
    others = [rows for rows in groups.values() if rows not in widest]
    drawn = random.Random(seed).sample(others, min(len(others), num_groups - len(widest)))
    extremes = _best_first([row for rows in groups.values() for row in rows], rewards)
    lost = [row for rows in groups.values() for row in rows if rewards[row] is None]
    wanted = [
        *(row for rows in widest for row in _of_group(rows, rewards, num_rows)),
        *extremes[:1],
        *extremes[-1:],
        *lost[:1],
        *(row for rows in drawn for row in _of_group(rows, rewards, num_rows)),
    ]
    return list(dict.fromkeys(wanted))


def _spread(rows: Sequence[int], rewards: Sequence[float | None]) -> float:
    known = [reward for row in rows if (reward := rewards[row]) is not None]
    return max(known) - min(known) if known else -1.0


def _best_first(rows: Sequence[int], rewards: Sequence[float | None]) -> list[int]:
    """The rows that have a reward."""
    return sorted((row for row in rows if rewards[row] is not None), key=lambda row: (-(rewards[row] or 0.0), row))


def _of_group(rows: Sequence[int], rewards: Sequence[float | None], num_rows: int) -> list[int]:
    """The best row, the worst, others at equal distances, and then those without a reward."""
    ordered = _best_first(rows, rewards)
    kept = min(num_rows, len(ordered))
    places = [round(i * (len(ordered) - 1) / max(1, kept - 1)) for i in range(kept)]
    lost = [row for row in rows if rewards[row] is None]
    return [*(ordered[place] for place in places[:1] + places[1:][::-1]), *lost[: num_rows - kept]]


# -- as plain data --------------------------------------------------------------------------------------------


def recorded_rows(
    rollout: Rollout,
    rewards: RewardOutput | None,
    rows: Sequence[int],
    number: int,
    decode: Decode | None,
    values: Mapping[str, Tensor | None] = MappingProxyType({}),
) -> Iterator[RecordedRow]:
    """Some rows as plain data, with their numbers and their groups' numbers on this rank.

    Args:
        rollout: N rows.
        rewards: of the same rows, if there are any.
        rows: which of them, in which order.
        number: of the rollout.
        decode: of the policy's codec, to read what the environment said.
        values: [N, T] of tokens by name, besides the sampler's log-probabilities.
    """
    completions = rollout.completions
    known = {"logprob_sampled": completions.sampler_logprobs, **values}
    # All rows at once: each copy from a device waits for it.
    index = torch.tensor(rows, dtype=torch.long)
    ids = {"ids": completions.completion_ids[index.to(completions.completion_ids.device)].tolist()}
    tokens = {name: rounded(values[index.to(values.device)]) for name, values in known.items() if values is not None}
    lengths, groups = completions.num_tokens.tolist(), completions.group_ids.tolist()
    for place, row in enumerate(rows):
        judgement, turns = rollout.judgements[row], completions.turns[row]
        prompt, program, line = judgement.problem.prompt, judgement.program, judgement.outcome.line
        failing = Places(turns[-1].text, program).line_span(line, 0.0) if program and line is not None else None
        yield RecordedRow(
            rollout=number,
            row=row,
            group=groups[row],
            task_id=judgement.problem.task_id,
            prompt=prompt if isinstance(prompt, str) else [dict(message) for message in prompt],
            prompt_ids=tuple(completions.prompt_ids[row][completions.prompt_mask[row]].tolist()),
            turns=tuple(_recorded_turn(rollout, row, turn, decode) for turn in range(len(turns))),
            program=None if program is None else _fields(program),
            failing=None if failing is None else (failing.start, failing.end),
            reward=float(rewards.rewards[row]) if rewards is not None and rewards.valid[row] else None,
            reason="" if rewards is None else rewards.reasons.get(row, ""),
            terms={} if rewards is None else {n: finite(float(v[row])) for n, v in rewards.term_values.items()},
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
        spans=tuple(turn.token_bytes),
        stop_reason=str(turn.stop_reason),
        message="" if is_last else message_after(rollout.completions, row, number, decode),
        outcome=plain_outcome(judgement.outcome) if runs else {"verdict": NOTHING_TO_RUN},
        stop_string=string_that_ended(rollout, row, number, decode),
        in_thought=turn.in_thought,
    )


def plain_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome's non-empty fields; output cut to its end, robot traces dropped."""
    kept = {name: value for name, value in _fields(outcome).items() if value and name != "traces"}
    kept |= {name: kept[name][-LONGEST_OUTPUT:] for name in ("stdout", "stderr") if name in kept}
    kept |= {name: float(f"{kept[name]:.4g}") for name in ("cpu_seconds", "wall_seconds") if name in kept}
    if outcome.failed_case is not None:
        kept["failed_case"] = _fields(outcome.failed_case)
    if outcome.scores:
        kept["scores"] = {name: finite(value) for name, value in outcome.scores.items()}
    return kept


def _fields(item: Any) -> dict[str, Any]:
    """The fields of a dataclass, not copied: they are written at once."""
    return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}


def ending(outcome: Outcome) -> str:
    """Return the label under which a program's ending is counted."""
    verdict = outcome.robot_verdict or str(outcome.verdict)
    return verdict if outcome.exception_type is None else f"{verdict}: {outcome.exception_type}"


def rounded(values: Tensor, digits: int = 4) -> list[list[float | None]]:
    """Rows of numbers with this many significant digits, which take few bytes; ``None`` where they are not finite."""
    exact = values.detach().to("cpu", torch.float64)
    scale = 10.0 ** (digits - 1 - exact.abs().clamp_min(1e-12).log10().floor())
    short = ((exact * scale).round() / scale).tolist()
    return short if bool(exact.isfinite().all()) else [[finite(value) for value in row] for row in short]


# -- as many as fit -------------------------------------------------------------------------------------------


class RowLine(NamedTuple):
    """A row as it is written, with its number and its group's on its rank."""

    number: int
    group: int
    rest: str

    @classmethod
    def of(cls, row: RecordedRow) -> RowLine:
        """The line of a row."""
        rest = {name: value for name, value in item_of(row).items() if name not in ("row", "group")}
        return cls(row.row, row.group, to_json(rest)[1:])

    @property
    def compressed_bytes(self) -> int:
        """Upper bound; rows compress better together."""
        return len(zlib.compress(self.rest.encode(errors=SURROGATES), 1))

    def line(self, first_row: int, first_group: int) -> str:
        """The line, numbered over all ranks."""
        return f'{{"row":{self.number + first_row},"group":{self.group + first_group},{self.rest}'


def shortened(row: RecordedRow) -> RecordedRow:
    """A row that is too large to be kept whole: without its tokens, each text cut."""
    most, prompt = _SHORT_TEXT, row.prompt
    prompt = prompt[:most] if isinstance(prompt, str) else [{**m, "content": m["content"][:most]} for m in prompt]
    turns = (dataclasses.replace(one, text=one.text[:most], spans=(), message=one.message[:most]) for one in row.turns)
    return dataclasses.replace(
        row, prompt=prompt, prompt_ids=(), turns=tuple(turns), program=None, failing=None, tokens={}
    )


def lines_that_fit(kept: Sequence[RecordedRow], allowance: int) -> list[RowLine]:
    """The first rows that take at most this many compressed bytes; if even the first does not, a short form of it."""
    whole = [RowLine.of(item) for item in kept]
    if sum(len(row.rest) for row in whole) <= allowance:  # most rollouts: nothing is compressed only to be counted
        return whole
    rows: list[RowLine] = []
    for item, row in zip(kept, whole, strict=True):
        size = row.compressed_bytes
        if size > allowance and not rows:
            row = RowLine.of(shortened(item))
            size = row.compressed_bytes
        if size > allowance:
            break
        allowance -= size
        rows.append(row)
    return rows


def numbered_lines(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of all ranks' rows, in the order of their numbers, which count over the ranks."""
    lines: list[str] = []
    first_row = first_group = 0
    for part in parts:
        lines += [row.line(first_row, first_group) for row in sorted(part["rows"])]
        first_row += part["num_rows"]
        first_group += part["num_groups"]
    return lines
