"""Completions of a policy, all or only those whose programs passed, as demonstrations for SFT: expert iteration."""

from __future__ import annotations

from typing import Literal, Unpack

from lightning.pytorch.utilities import rank_zero_info

from lit_rl.data.rows import expand_path
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.errors import UsageError
from lit_rl.execution.checks import ReferenceText
from lit_rl.run_files.files import read_rollouts
from lit_rl.run_files.records import RecordedRow
from lit_rl.types import Problem

Keep = Literal["passed", "all"]


class CompletionFile(TaskDataModule):
    """Completions that ``lit-rl predict`` or ``validate`` wrote, to imitate with :class:`lit_rl.modules.SFT`.

    With ``keep: passed`` this is expert iteration, also known as rejection-sampling fine-tuning: sample, keep what
    passes, fine-tune, and start anew from the new weights. With ``keep: all`` nothing is judged (SimpleSD). Equal
    completions of a problem count once.

    A policy with the sampler's tokenizer learns the sampled ids; any other policy learns the text of the last turn. If
    there are several turns, ``passed`` trains only on the last turn, which passed; ``all`` trains on every turn.
    Nothing is executed: to measure pass@1, give ``validation_tasks``.

    Args:
        path: what :class:`lit_rl.callbacks.CompletionWriter` wrote.
        keep: ``passed`` keeps completions whose last program passed, ``all`` every completion.
        name: the task's name in metrics if there are several validation tasks.
        **options: arguments of :class:`TaskDataModule`.

    Source:
        expert iteration: Anthony et al. 2017, https://arxiv.org/abs/1705.08439
        on language models' programs: Zelikman et al. 2022, https://arxiv.org/abs/2203.14465
        keep all: SimpleSD, 2026, https://arxiv.org/abs/2604.01193
    """

    def __init__(
        self, path: str, *, keep: Keep = "passed", name: str = "completions", **options: Unpack[TaskOptions]
    ) -> None:
        super().__init__(**options)
        self.path = path
        self.keep = keep
        self.name = name

    def load_problems(self, split: Split) -> list[Problem]:
        """Return one problem per distinct completion, in the order of the file; all problems are for training."""
        if split != "train":
            return []
        path = expand_path(self.path)
        rows = [row for rollout in read_rollouts(path) for row in rollout.rows]
        kept: dict[tuple[str, ...], RecordedRow] = {}
        for row in rows:
            if row.tokens and (self.keep == "all" or row.verdict == "passed"):  # rows without tokens were cut
                kept.setdefault((row.task_id, *(turn.text for turn in row.turns)), row)
        if not kept:
            none_kept = f"none of its {len(rows)} completions can be kept ({self.keep}): sample more, or set keep: all"
            no_rows = "holds no completions: give a file that CompletionWriter wrote (run lit-rl predict)"
            raise UsageError(f"{self.path}: {none_kept if rows else no_rows}")
        tokens = sum(row.num_tokens for row in rows)
        rank_zero_info(
            f"{self.path}: {len(kept)} distinct completions kept ({self.keep}) of {len(rows)}; {tokens} sampled tokens"
        )
        problems = []
        for number, row in enumerate(kept.values()):
            prompt = row.prompt if isinstance(row.prompt, str) else tuple(dict(message) for message in row.prompt)
            text = row.turns[-1].text
            learned_from = row.turns[-1].start if self.keep == "passed" else 0
            fields = {"demonstration": text, "row": row, "learned_from": learned_from}
            problems.append(Problem(f"{row.task_id}/{number}", prompt, ReferenceText(text), fields=fields))
        return problems
