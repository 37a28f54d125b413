"""Log completions to TensorBoard and other loggers, so that they can be read and compared over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
import numpy as np
from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger

from lit_rl.arguments import TypedArguments, require_at_least
from lit_rl.reports.diagnosis.history import Decode
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Evaluated, FinishedRollout, Rollout
from lit_rl.rollout.records import TrainedModule
from lit_rl.types import Completions, Judgement, StopReason

_LONGEST_CELL = 6000


class CompletionLog(pl.Callback, TypedArguments):
    """Writes a few completions with their verdicts, all turns of a row: TensorBoard text, tables of other loggers.

    In validation, on the first rank, for the first problems of each task: the same problems can be followed from
    evaluation to evaluation. In training, every few rollouts: the best, the median and the worst row of the group whose
    rewards differ most, side by side. The step is the number of rollouts.

    Args:
        num_problems: how many problems of each task.
        num_samples: how many completions of each, per sampling.
        groups_every: rollouts between two groups of training; 0 for none.
    """

    def __init__(self, num_problems: int = 4, num_samples: int = 1, groups_every: int = 10) -> None:
        require_at_least(0, self, groups_every=groups_every)
        self.num_problems, self.num_samples, self.groups_every = num_problems, num_samples, groups_every
        self._shown: dict[int, int] = {}

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._shown = {}

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        wanted = self.num_problems - self._shown.get(dataloader_idx, 0)
        if not trainer.is_global_zero or wanted <= 0 or not trainer.loggers:
            return
        evaluated: Evaluated = outputs
        self._shown[dataloader_idx] = self._shown.get(dataloader_idx, 0) + min(wanted, len(batch))
        decode, step = pl_module.policy.codec.decode, pl_module.clock.count
        for name, rollout in evaluated.rollouts.items():
            groups = list(rollout.completions.groups().values())[:wanted]
            rows = [(sample, row) for of_group in groups for sample, row in enumerate(of_group[: self.num_samples])]
            for logger in trainer.loggers:
                _write(logger, name, rollout, rows, decode, step)

    def on_rollout_end(self, trainer: pl.Trainer, module: TrainedModule, finished: FinishedRollout) -> None:
        if not trainer.is_global_zero or not self.groups_every or module.clock.count % self.groups_every:
            return
        rollout, rewards = finished.rollout, finished.rewards
        rows = telling_rows(rollout, rewards)
        names = ("best", "median", "worst")[: len(rows)]
        cells = [as_cell(rollout, rewards, row, module.policy.codec.decode) for row in rows]
        for logger in trainer.loggers if rows else ():
            write_table(logger, "completions/training", names, [cells], module.clock.count)


def _write(
    logger: Logger, name: str, rollout: Rollout, rows: Sequence[tuple[int, int]], decode: Decode, step: int
) -> None:
    """Write rows and their numbers within their groups: a page each for TensorBoard, one table elsewhere."""
    cells = []
    for sample, row in rows:
        judgement, said = rollout.judgements[row], conversation(rollout.completions, row, decode)
        task_id = judgement.problem.task_id
        cells.append([task_id, str(judgement.outcome.verdict), "\n".join(text for _, text in said)])
        if isinstance(logger, TensorBoardLogger):
            text = as_markdown(judgement, said)
            logger.experiment.add_text(f"completions/{name}/{task_id}/{sample}", text, step)
    if not isinstance(logger, TensorBoardLogger):
        write_table(logger, f"completions/{name}", ("task", "verdict", "completion"), cells, step)


def telling_rows(rollout: Rollout, rewards: RewardOutput) -> list[int]:
    """The best, the median and the worst row of the group whose rewards differ most; fewer of a smaller group."""
    values, valid = rewards.rewards.tolist(), rewards.valid.tolist()
    groups = [[row for row in rows if valid[row]] for rows in rollout.completions.groups().values()]
    ranked = [sorted(rows, key=lambda row: -values[row]) for rows in groups if rows]
    if not ranked:
        return []
    rows = max(ranked, key=lambda rows: values[rows[0]] - values[rows[-1]])
    return list(dict.fromkeys([rows[0], rows[len(rows) // 2], rows[-1]]))


def as_cell(rollout: Rollout, rewards: RewardOutput, row: int, decode: Decode) -> str:
    """One row as Markdown with its reward, cut where it is long."""
    text = as_markdown(rollout.judgements[row], conversation(rollout.completions, row, decode))
    cut = text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}\n\n({len(text) - _LONGEST_CELL} more)"
    return f"reward {float(rewards.rewards[row]):.3g}, {int(rollout.completions.lengths[row])} tokens\n\n{cut}"


def conversation(completions: Completions, row: int, decode: Decode | None = None) -> list[tuple[str, str]]:
    """Return the messages of a row in order, each with a heading."""
    turns = completions.turns[row]
    if len(turns) == 1:
        return [("completion", turns[0].text)]
    said = [("turn 1", turns[0].text)]
    for number, turn in enumerate(turns[1:], 2):
        message = message_after(completions, row, number - 2, decode)
        said += [("environment", message), (f"turn {number}", turn.text)]
    return said


def message_after(completions: Completions, row: int, number: int, decode: Decode | None) -> str:
    """The environment's message after a turn, counted from 0; the number of its tokens where nothing decodes them."""
    turns = completions.turns[row]
    ids: list[int] = completions.completion_ids[row, turns[number].end : turns[number + 1].start].tolist()
    return f"({len(ids)} tokens)" if decode is None else decode(ids, StopReason.LENGTH, ())[0]


def as_markdown(judgement: Judgement, said: Sequence[tuple[str, str]]) -> str:
    """Prompt, completion and verdict of one row as Markdown; fences inside cannot break out."""
    problem, outcome = judgement.problem, judgement.outcome
    where = "" if outcome.line is None else f", line {outcome.line}"
    cause = "" if outcome.exception_type is None else f" ({outcome.exception_type}{where})"
    parts = [f"**{outcome.verdict}**{cause}", "prompt:", _indented(problem.prompt_text)]
    for heading, text in said:
        parts += [f"{heading}:", _indented(text)]
    if outcome.stderr:
        parts += ["stderr:", _indented(outcome.stderr[-1000:])]
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    """A Markdown code block by indentation."""
    return "\n".join(f"    {line}" for line in text.splitlines()) or "    (empty)"


# -- tables of loggers -----------------------------------------------------------------------------------------


def write_table(logger: Logger, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]], step: int) -> None:
    """Write a table to a logger that can hold one; call it on the first rank.

    TensorBoard shows it under TEXT, its cells as Markdown. Weights & Biases has tables of its own.
    """
    if isinstance(logger, TensorBoardLogger):
        from tensorboard.plugins.text.summary import text_pb

        cells = np.array([[cell.encode() for cell in row] for row in (columns, *rows)], dtype=object)
        summary = text_pb(name, cells)  # TensorBoard draws a text of two dimensions as a table
        for value in summary.value:
            value.metadata.plugin_data.plugin_name = "text"
        logger.experiment._get_file_writer().add_summary(summary, step)
    elif isinstance(logger, WandbLogger):
        logger.log_table(name, list(columns), [list(row) for row in rows], step=step)
