"""The recorded rollouts as the script of the page reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lit_rl.reports.html.runs import Run
from lit_rl.reports.run_files import RecordedRollout, RecordedRow
from lit_rl.reports.run_files.words import ending, sandbox_words

TOKEN_VALUES = (
    "credit", "advantage", "logprob_sampled", "logprob_old", "logprob_update", "logprob_ref", "value", "entropy",
)  # fmt: skip


def data_of(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Runs with their rollouts, as plain data."""
    return [
        {
            "name": run.name,
            "recorded": run.num_recorded,
            "rollouts": [_rollout(rollout) for rollout in run.shown],
        }
        for run in runs
        if run.shown
    ]


def as_script(data: Any) -> str:
    """JSON that may stand between script tags: no text in it can end the element or begin a comment."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # ASCII: surrogates and U+2028 are escapes
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _rollout(rollout: RecordedRollout) -> dict[str, Any]:
    groups: dict[int, list[RecordedRow]] = {row.group: rollout.group(row.group) for row in rollout.rows}
    return {
        "number": rollout.number,
        "rows": rollout.num_rows,
        "seconds": dict(rollout.seconds),
        "groups": [
            {
                "task": rows[0].task_id,
                "prompt": rows[0].prompt_text,
                "rows": [_row(row) for row in rows],
            }
            for _, rows in sorted(groups.items())
        ],
    }


def _row(row: RecordedRow) -> dict[str, Any]:
    return {
        "row": row.row,
        "reward": row.reward,
        "verdict": row.verdict,
        "ending": ending(row),
        "terms": dict(row.terms),
        "words": sandbox_words(row),
        "turns": [
            {
                "start": turn.start,
                "pieces": turn.pieces() or [turn.text],
                "message": turn.message,
                "verdict": str(turn.outcome["verdict"]),
                "stop": turn.stop_reason,
            }
            for turn in row.turns
        ],
        "failing": _failing_tokens(row),
        "tokens": {name: row.tokens[name] for name in TOKEN_VALUES if name in row.tokens},
    }


def _failing_tokens(row: RecordedRow) -> list[int]:
    """Columns of the tokens that the failing line covers."""
    if row.failing is None:
        return []
    turn, (start, end) = row.turns[-1], row.failing
    return [turn.start + number for number, (first, last) in enumerate(turn.spans) if first < end and last > start]
