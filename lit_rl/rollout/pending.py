"""A rollout whose rows are written and whose programs may still run; it can be stored and taken up again."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from lit_rl.execution.runner import ProgramRunner
from lit_rl.models.codecs.codec import Codec
from lit_rl.rollout.conversation import Conversation
from lit_rl.rollout.judge import Judge, find_program
from lit_rl.rollout.records import Rollout
from lit_rl.rollout.rows import completions_of
from lit_rl.training.progress import Progress
from lit_rl.types import Completions, Problem, StopReason, Turn

StoredRow = Mapping[str, Any]
"""What was sampled for a row, as plain data: no verdicts, which its programs give again."""


class PendingRollout:
    """N rows to which the policy adds nothing more; :meth:`finish` waits for their verdicts.

    Args:
        conversations: N rows, prompt-major.
        max_turns: turns that a row could have had.
        pad_id: id of the padding.
        device: where the tensors go.
    """

    def __init__(
        self, conversations: Sequence[Conversation], max_turns: int, pad_id: int, device: torch.device
    ) -> None:
        self.conversations = conversations
        self.max_turns = max_turns
        self.pad_id = pad_id
        self.device = device

    def finish(self, progress: Progress | None = None) -> Rollout:
        """Wait for the verdicts.

        Args:
            progress: told of the wait.

        Returns:
            N rows and their judgements, in the same order.
        """
        if progress is not None:
            progress.enter("judging")
        judgements = tuple(conversation.judgements() for conversation in self.conversations)
        return Rollout(self.completions(), tuple(of_row[-1] for of_row in judgements), judgements, self.max_turns)

    def completions(self) -> Completions:
        """The N rows as tensors."""
        return completions_of(self.conversations, self.pad_id, self.device)

    @property
    def task_ids(self) -> list[str]:
        """The problems, in order."""
        return list(dict.fromkeys(conversation.problem.task_id for conversation in self.conversations))

    def rows(self) -> list[StoredRow]:
        """N rows to store."""
        return [stored(conversation) for conversation in self.conversations]

    def drop_verdicts(self) -> None:
        """Forget programs and verdicts, as when the sandbox ends; :meth:`judge_again` brings them back."""
        for conversation in self.conversations:
            conversation.outcomes.clear()

    def judge_again(self, runner: ProgramRunner | None) -> None:
        """Start the programs of rows without verdicts: those that were stored, or whose sandbox has ended."""
        judge = Judge(runner)
        for row in self.conversations:
            if not row.outcomes:
                row.programs = [find_program(row.problem, turn.text) for turn in row.turns]
                row.outcomes = [judge.start(row.problem, program, row.problem.check) for program in row.programs]


def stored(row: Conversation) -> StoredRow:
    """What was sampled for a row, as plain data."""
    return {
        "task_id": row.problem.task_id,
        "sample": row.sample,
        "prompt_ids": list(row.prompt_ids),
        "ids": torch.tensor(row.ids.tolist()),
        "chosen": list(row.chosen),
        "logprobs": torch.tensor(row.logprobs.tolist(), dtype=torch.float64),
        "turns": [(turn.start, turn.end, str(turn.stop_reason)) for turn in row.turns],
        "versions": list(row.versions),
    }


def restore_rows(
    rows: Sequence[StoredRow], problems: Sequence[Problem], num_samples: int, codec: Codec
) -> list[Conversation] | None:
    """Stored rows of some problems, prompt-major; ``None`` if some are missing, or have another prompt now.

    Args:
        rows: of any problems, in any order.
        problems: those wanted.
        num_samples: rows of each.
        codec: decodes the turns.
    """
    found = {(row["task_id"], row["sample"]): row for row in rows}
    conversations = []
    for group, problem in enumerate(problems):
        prompt_ids = codec.encode(problem)
        for sample in range(num_samples):
            row = found.get((problem.task_id, sample))
            if row is None or tuple(row["prompt_ids"]) != tuple(prompt_ids):
                return None
            conversations.append(_conversation(row, problem, group, codec))
    return conversations


def _conversation(row: StoredRow, problem: Problem, group: int, codec: Codec) -> Conversation:
    turns = row["turns"]
    conversation = Conversation(problem, group, row["sample"], tuple(row["prompt_ids"]), len(turns))
    conversation.ids = array("q", row["ids"].tolist())
    conversation.chosen = bytearray(row["chosen"])
    conversation.logprobs = array("d", row["logprobs"].tolist())
    conversation.versions = list(row["versions"])
    for start, end, name in turns:
        reason = StopReason(name)
        text, token_bytes = codec.decode(tuple(conversation.ids[start:end]), reason, problem.stop_strings)
        conversation.turns.append(Turn(start, end, text, token_bytes, reason))
    conversation.shown = [None] * len(turns)
    return conversation
