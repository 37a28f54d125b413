"""Rows of a rollout as plain data, for :mod:`lit_rl.reports.run_files`.

Letters: N rows, T completion tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lit_rl.callbacks.completion_log import Decode
from lit_rl.execution.interface import Outcome
from lit_rl.reports.diagnosis.stop_strings import string_that_ended
from lit_rl.reports.run_files.lines import finite
from lit_rl.reports.run_files.recorded import pack_spans
from lit_rl.rewards.places import Places
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.types import Experience, Judgement, Problem, StopReason

Tokens = Mapping[str, list[list[Any]]]

LONGEST_OUTPUT = 2000
"""How many characters, from the end, are kept of what a program printed."""


def plain_rows(
    rollout: Rollout,
    rewards: RewardOutput,
    experience: Experience,
    found: Mapping[str, Tensor],
    rows: Sequence[int],
    decode: Decode | None = None,
) -> Iterator[dict[str, Any]]:
    """Some rows as plain data, their numbers and their groups' as they are on this rank.

    Args:
        rollout: N rows.
        rewards: of the same rows.
        experience: made of them.
        found: in the update, see :class:`lit_rl.modules.update_trace.UpdateTrace`.
        rows: which of them, in which order.
        decode: of the policy's codec, to read what the environment said.
    """
    known = {
        "credit": rewards.credit,
        "advantage": experience.advantages,
        "logprob_sampled": rollout.completions.sampler_logprobs,
        "logprob_old": experience.old_logprobs,
        "logprob_update": found.get("logprobs"),
        "logprob_ref": experience.ref_logprobs,
        "value": experience.old_values,
        "entropy": found.get("entropy"),
    }
    # All rows at once: each copy from a device waits for it.
    index = torch.tensor(rows, dtype=torch.long)
    tokens = {name: rounded(values[index.to(values.device)]) for name, values in known.items() if values is not None}
    ids = rollout.completions.completion_ids[index.to(rollout.completions.completion_ids.device)].tolist()
    lengths, groups = rollout.completions.num_tokens.tolist(), rollout.completions.group_ids.tolist()
    for place, row in enumerate(rows):
        columns = {name: values[place][: lengths[row]] for name, values in ({"ids": ids} | tokens).items()}
        yield _plain_row(rollout, rewards, row, decode) | {"group": groups[row], "tokens": columns}


def _plain_row(rollout: Rollout, rewards: RewardOutput, row: int, decode: Decode | None) -> dict[str, Any]:
    completions = rollout.completions
    judgement = rollout.judgements[row]
    turns = completions.turns[row]
    return {
        "row": row,
        "task_id": judgement.problem.task_id,
        "prompt": _prompt(judgement.problem),
        "prompt_ids": completions.prompt_ids[row][completions.prompt_mask[row]].tolist(),
        "turns": [
            {
                "start": turn.start,
                "end": turn.end,
                "text": turn.text,
                "spans": pack_spans(turn.token_bytes),
                "stop_reason": str(turn.stop_reason),
                "stop_string": string_that_ended(rollout, row, number, decode),
                "message": _message(rollout, row, number, decode),
                "outcome": plain_outcome(rollout.turn_judgements[row][number].outcome),
            }
            for number, turn in enumerate(turns)
        ],
        "program": None if judgement.program is None else _fields(judgement.program),
        "failing": _failing(turns[-1].text, judgement),
        "reward": float(rewards.rewards[row]) if rewards.valid[row] else None,
        "reason": rewards.reasons.get(row, ""),
        "terms": {name: finite(float(values[row])) for name, values in rewards.term_values.items()},
    }


def plain_outcome(outcome: Outcome) -> dict[str, Any]:
    """What is not empty of an outcome; of what was printed the end, and no traces of robots."""
    kept = {name: value for name, value in _fields(outcome).items() if value and name != "traces"}
    kept |= {name: kept[name][-LONGEST_OUTPUT:] for name in ("stdout", "stderr") if name in kept}
    kept |= {name: rounded_number(kept[name]) for name in ("cpu_seconds", "wall_seconds") if name in kept}
    if outcome.failed_case is not None:
        kept["failed_case"] = _fields(outcome.failed_case)
    if outcome.scores:
        kept["scores"] = {name: finite(value) for name, value in outcome.scores.items()}
    return kept


def _fields(item: Any) -> dict[str, Any]:
    """The fields of a dataclass, not copied: they are written at once."""
    return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}


def ending(outcome: Outcome) -> str:
    """How a program ended, in words by which endings are counted."""
    verdict = outcome.robot_verdict or str(outcome.verdict)
    return verdict if outcome.exception_type is None else f"{verdict}: {outcome.exception_type}"


def rounded(values: Tensor, digits: int = 4) -> list[list[float | None]]:
    """Rows of numbers with this many significant digits, which take few bytes; ``None`` where they are not finite."""
    exact = values.detach().to("cpu", torch.float64)
    scale = 10.0 ** (digits - 1 - exact.abs().clamp_min(1e-12).log10().floor())
    short = ((exact * scale).round() / scale).tolist()
    return short if bool(exact.isfinite().all()) else [[finite(value) for value in row] for row in short]


def rounded_number(value: float) -> float:
    """One number with four significant digits."""
    return float(f"{value:.4g}")


def shortened(row: Mapping[str, Any], longest: int) -> dict[str, Any]:
    """A row that is too large to be kept whole: without its tokens, each text cut after this many characters."""
    turns = [turn | {"text": turn["text"][:longest], "spans": [], "message": turn["message"][:longest]}
             for turn in row["turns"]]  # fmt: skip
    prompt = row["prompt"]
    if isinstance(prompt, str):
        prompt = prompt[:longest]
    else:
        prompt = [dict(message) | {"content": message["content"][:longest]} for message in prompt]
    return dict(row) | {
        "prompt": prompt, "prompt_ids": [], "turns": turns, "program": None, "failing": None, "tokens": {},
    }  # fmt: skip


def _prompt(problem: Problem) -> str | list[dict[str, str]]:
    return problem.prompt if isinstance(problem.prompt, str) else [dict(message) for message in problem.prompt]


def _message(rollout: Rollout, row: int, number: int, decode: Decode | None) -> str:
    """What the environment said after a turn; empty after the last."""
    turns = rollout.completions.turns[row]
    if number + 1 == len(turns):
        return ""
    ids: Sequence[int] = rollout.completions.completion_ids[row, turns[number].end : turns[number + 1].start].tolist()
    return f"({len(ids)} tokens)" if decode is None else decode(ids, StopReason.LENGTH, ())[0]


def _failing(text: str, judgement: Judgement) -> list[int] | None:
    """Bytes of the text that the line where the program failed covers."""
    if judgement.program is None or judgement.outcome.line is None:
        return None
    span = Places(text, judgement.program).line_span(judgement.outcome.line, 0.0)
    return None if span is None else [span.start, span.end]
