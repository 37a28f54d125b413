"""Log completions to TensorBoard and other loggers, so that they can be read and compared over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger

from lit_rl.reports.diagnosis.history import Decode
from lit_rl.reports.recorded_rows import environment_message
from lit_rl.rollout import Evaluated, Rollout
from lit_rl.signature_check import ArgumentChecks
from lit_rl.types import Completions, Judgement


class CompletionLog(pl.Callback, ArgumentChecks):
    """Log a few completions with all turns and verdicts, as TensorBoard text and W&B tables.

    Runs in validation on the first rank, for the first problems of each task, so that you can follow the same problems
    from validation to validation. The step is the number of rollouts.

    Args:
        num_problems: number of problems to log per task.
        num_samples: number of completions to log per problem and sampling.
    """

    def __init__(self, num_problems: int = 4, num_samples: int = 1) -> None:
        self.num_problems, self.num_samples = num_problems, num_samples
        self._num_logged: dict[int, int] = {}

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._num_logged = {}

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        wanted = self.num_problems - self._num_logged.get(dataloader_idx, 0)
        if not trainer.is_global_zero or wanted <= 0 or not trainer.loggers:
            return
        evaluated: Evaluated = outputs
        self._num_logged[dataloader_idx] = self._num_logged.get(dataloader_idx, 0) + min(wanted, len(batch))
        decode, step = pl_module.policy.codec.decode, pl_module.clock.count
        for name, rollout in evaluated.rollouts.items():
            groups = list(rollout.completions.rows_by_group().values())[:wanted]
            rows = [(sample, row) for of_group in groups for sample, row in enumerate(of_group[: self.num_samples])]
            for logger in trainer.loggers:
                _log_completions(logger, name, rollout, rows, decode, step)


def _log_completions(
    logger: Logger, name: str, rollout: Rollout, rows: Sequence[tuple[int, int]], decode: Decode, step: int
) -> None:
    """Log ``rows``, pairs of (number in the group, row): one text per row for TensorBoard, one table for W&B."""
    cells = []
    for sample, row in rows:
        judgement, messages = rollout.judgements[row], conversation_messages(rollout.completions, row, decode)
        task_id = judgement.problem.task_id
        cells.append([task_id, str(judgement.outcome.verdict), "\n".join(text for _, text in messages)])
        if isinstance(logger, TensorBoardLogger):
            text = row_as_markdown(judgement, messages)
            logger.experiment.add_text(f"completions/{name}/{task_id}/{sample}", text, step)
    if isinstance(logger, WandbLogger):
        logger.log_table(f"completions/{name}", ["task", "verdict", "completion"], cells, step=step)


def conversation_messages(completions: Completions, row: int, decode: Decode | None = None) -> list[tuple[str, str]]:
    """Return the messages of a row in order, each with a heading."""
    turns = completions.turns[row]
    if len(turns) == 1:
        return [("completion", turns[0].text)]
    messages = [("turn 1", turns[0].text)]
    for number, turn in enumerate(turns[1:], 2):
        message = environment_message(completions, row, number - 2, decode)
        messages += [("environment", message), (f"turn {number}", turn.text)]
    return messages


def row_as_markdown(judgement: Judgement, messages: Sequence[tuple[str, str]]) -> str:
    """Return the prompt, completion and verdict of a row as Markdown that fences in the texts cannot break."""
    problem, outcome = judgement.problem, judgement.outcome
    where = "" if outcome.line is None else f", line {outcome.line}"
    cause = "" if outcome.exception_type is None else f" ({outcome.exception_type}{where})"
    parts = [f"**{outcome.verdict}**{cause}", "prompt:", _indent_as_code(problem.prompt_text)]
    for heading, text in messages:
        parts += [f"{heading}:", _indent_as_code(text)]
    if outcome.stderr:
        parts += ["stderr:", _indent_as_code(outcome.stderr[-1000:])]
    return "\n\n".join(parts)


def _indent_as_code(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()) or "    (empty)"
