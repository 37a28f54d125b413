"""What the policy writes, readable in TensorBoard and kept over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lightning.pytorch as pl

from lit_rl.rollout import Evaluated
from lit_rl.types import Completions, Judgement, StopReason


class CompletionLog(pl.Callback):
    """Writes a few validation completions with their verdicts as TensorBoard text, all turns of a row.

    Runs in validation, on the first rank, for the first problems of each task: the same problems can be
    followed from evaluation to evaluation. The step is the number of rollouts.

    Args:
        num_problems: how many problems of each task.
        num_samples: how many completions of each, per sampling.
    """

    def __init__(self, num_problems: int = 4, num_samples: int = 1) -> None:
        self.num_problems = num_problems
        self.num_samples = num_samples
        self._shown: dict[int, int] = {}

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start with the first problem again."""
        self._shown = {}

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Write the completions of problems that are still wanted."""
        writer = getattr(trainer.logger, "experiment", None)
        wanted = self.num_problems - self._shown.get(dataloader_idx, 0)
        if not trainer.is_global_zero or wanted <= 0 or not hasattr(writer, "add_text"):
            return
        evaluated: Evaluated = outputs
        self._shown[dataloader_idx] = self._shown.get(dataloader_idx, 0) + min(wanted, len(batch))
        step = int(getattr(pl_module, "rollout_step", trainer.global_step))
        decode = getattr(getattr(getattr(pl_module, "policy", None), "codec", None), "decode", None)
        for name, rollout in evaluated.rollouts.items():
            for rows in list(rollout.completions.groups().values())[:wanted]:
                for sample, row in enumerate(rows[: self.num_samples]):
                    text = as_markdown(rollout.judgements[row], conversation(rollout.completions, row, decode))
                    task_id = rollout.judgements[row].problem.task_id
                    writer.add_text(f"completions/{name}/{task_id}/{sample}", text, step)  # type: ignore[union-attr]


Decode = Callable[[Sequence[int], StopReason, Sequence[str]], tuple[str, Any]]


def conversation(completions: Completions, row: int, decode: Decode | None = None) -> list[tuple[str, str]]:
    """What was said in a row, in order, each with a heading.

    Args:
        completions: N rows.
        row: which of them.
        decode: the policy's codec's, to read what the environment said; without it its tokens are counted.
    """
    said: list[tuple[str, str]] = []
    turns = completions.turns[row]
    if len(turns) == 1:
        return [("completion", turns[0].text)]
    for number, turn in enumerate(turns, 1):
        if number > 1:
            ids = completions.completion_ids[row, turns[number - 2].end : turn.start].tolist()
            message = f"({len(ids)} tokens)" if decode is None else decode(ids, StopReason.LENGTH, ())[0]
            said.append(("environment", message))
        said.append((f"turn {number}", turn.text))
    return said


def as_markdown(judgement: Judgement, said: Sequence[tuple[str, str]]) -> str:
    """Prompt, completion and verdict of one row as Markdown; fences inside cannot break out.

    Args:
        judgement: of the row.
        said: what :func:`conversation` returns.
    """
    problem, outcome = judgement.problem, judgement.outcome
    prompt = problem.prompt if isinstance(problem.prompt, str) else "\n\n".join(m["content"] for m in problem.prompt)
    where = "" if outcome.line is None else f", line {outcome.line}"
    cause = "" if outcome.exception_type is None else f" ({outcome.exception_type}{where})"
    parts = [f"**{outcome.verdict}**{cause}", "prompt:", _indented(prompt)]
    for heading, text in said:
        parts += [f"{heading}:", _indented(text)]
    if outcome.stderr:
        parts += ["stderr:", _indented(outcome.stderr[-1000:])]
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    """A Markdown code block by indentation."""
    return "\n".join(f"    {line}" for line in text.splitlines()) or "    (empty)"
