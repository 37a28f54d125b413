"""Log the scores of checks with stages: what was built, what ran, how close the output came."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl

from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rollout import Evaluated
from lit_rl.training.ranks import Means
from lit_rl.types import Problem


class StageScores(pl.Callback):
    """Logs the mean score of each stage over the completions of a validation.

    Runs at the end of each validation. Logs ``val/<score>`` for the first sampling of the module and
    ``val/<sampling>/<score>`` for the others, where ``<score>`` is one of the check's stages, such as
    ``compilation``, ``execution``, ``header_bleu``, ``density`` or ``total``; a problem's samples are averaged. A
    completion without a program scores 0; a completion with an infrastructure failure is left out. In addition
    ``val/empty/<score>`` is the score of an empty completion, which the module measures once per problem; a lower
    score is worse than writing nothing.

    Args:
        prefix: first part of the metrics' names.
    """

    def __init__(self, prefix: str = "val") -> None:
        self.prefix = prefix
        self._means = Means()

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._means = Means()

    on_test_epoch_start = on_validation_epoch_start

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        evaluated: Evaluated = outputs
        for index, (name, rollout) in enumerate(evaluated.rollouts.items()):
            for judgement in rollout.judgements:
                if judgement.problem.check.stages:
                    self._add_stage_scores("" if index == 0 else f"{name}/", judgement.problem, judgement.outcome)
        for problem in batch:
            if problem.task_id in evaluated.empty_outcomes:
                self._add_stage_scores("empty/", problem, evaluated.empty_outcomes[problem.task_id])

    on_test_batch_end = on_validation_batch_end

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        for name, mean in sorted(self._means.reduce(pl_module.device).items()):
            pl_module.log(f"{self.prefix}/{name}", mean)

    on_test_epoch_end = on_validation_epoch_end

    def _add_stage_scores(self, start: str, problem: Problem, outcome: Outcome) -> None:
        if outcome.verdict is not Verdict.INFRASTRUCTURE_FAILURE:
            for stage in problem.check.stages:
                self._means.add_sum(f"{start}{stage}", outcome.scores.get(stage, 0.0), 1)
