"""Recorded rows as completions again, to be judged and rewarded as they were when they were sampled.

Letters: N rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from lit_rl.execution.interface import ProgramRunner
from lit_rl.models.padding import pad_left, pad_right
from lit_rl.reports.run_files import RecordedRow
from lit_rl.reports.run_files.recorded import RecordedTurn
from lit_rl.rewards.composite import Composite
from lit_rl.rollout import Judge, find_program
from lit_rl.types import Completions, Judgement, Problem, StopReason, Turn


@dataclass(frozen=True)
class Again:
    """A recorded row and what it comes to now.

    Args:
        row: as it was recorded.
        judgement: of its program now.
        reward: of it now; ``None`` where it has none.
        terms: reward terms now, unweighted; NaN where a term failed.
    """

    row: RecordedRow
    judgement: Judgement
    reward: float | None
    terms: Mapping[str, float]

    @property
    def verdict(self) -> str:
        """Now."""
        return str(self.judgement.outcome.verdict)

    @property
    def ends_otherwise(self) -> bool:
        """Whether the verdict is another one."""
        return self.row.verdict != self.verdict

    def earns_otherwise(self, tolerance: float = 1e-5) -> bool:
        """Whether the reward is another one, by more than rewards in single precision differ."""
        before, now = self.row.reward, self.reward
        if before is None or now is None:
            return before is not now
        return abs(before - now) > tolerance * max(1.0, abs(before))


def judge_again(
    rows: Sequence[RecordedRow],
    problems: Mapping[str, Problem],
    runner: ProgramRunner | None,
    rewards: Composite | None,
) -> list[Again]:
    """Find the programs again, run them, and reward them.

    Args:
        rows: of one rollout, recorded whole.
        problems: by task id; each row's is there.
        runner: what executes; ``None`` only for tasks without programs.
        rewards: what rewards; ``None`` leaves rewards out.
    """
    judge = Judge(runner)
    started = []
    for row in rows:
        problem = problems[row.task_id]
        program = find_program(problem, row.turns[-1].text)
        started.append((problem, program, judge.start(problem, program, problem.check)))
    judgements = [Judgement(problem, program, outcome.result()) for problem, program, outcome in started]
    if rewards is None:
        return [Again(row, one, None, {}) for row, one in zip(rows, judgements, strict=True)]
    found = rewards(completions_of(rows, problems), judgements)
    return [
        Again(
            row,
            judgements[i],
            float(found.rewards[i]) if found.valid[i] else None,
            {name: float(values[i]) for name, values in found.term_values.items()},
        )
        for i, row in enumerate(rows)
    ]


def completions_of(rows: Sequence[RecordedRow], problems: Mapping[str, Problem]) -> Completions:
    """N recorded rows as the tensors that reward terms read."""
    prompt_ids, prompt_mask = pad_left([row.prompt_ids for row in rows], 0, "cpu")
    ids = pad_right([row.tokens["ids"] for row in rows], 0, torch.long)
    lengths = torch.tensor([len(row.tokens["ids"]) for row in rows], dtype=torch.long)
    chosen = torch.zeros(ids.shape, dtype=torch.bool)
    for number, row in enumerate(rows):
        for turn in row.turns:
            chosen[number, turn.start : turn.end] = True
    return Completions(
        problems=tuple(problems[row.task_id] for row in rows),
        prompt_ids=prompt_ids,
        prompt_mask=prompt_mask,
        completion_ids=ids,
        completion_mask=chosen,
        token_mask=torch.arange(ids.shape[1]) < lengths[:, None],
        sampler_logprobs=pad_right([row.tokens["logprob_sampled"] for row in rows], 0.0, torch.float32),
        turns=tuple(tuple(_turn(turn) for turn in row.turns) for row in rows),
        group_ids=torch.tensor([row.group for row in rows], dtype=torch.long),
    )


def _turn(turn: RecordedTurn) -> Turn:
    return Turn(turn.start, turn.end, turn.text, turn.spans, StopReason(turn.stop_reason))
