"""Compute pass@k by execution over the completions that validation sampled."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import lightning.pytorch as pl

from lit_rl.reports.summary import (
    PassAtKMetric,
    problem_and_program_size,
    problem_count_and_median_size,
    require_pass_at_k_samples,
    summarise_rollout,
)
from lit_rl.rollout import Evaluated
from lit_rl.signature_check import ArgumentChecks, PositiveInt
from lit_rl.training.ranks import Means


class ExecutionEvaluation(pl.Callback, ArgumentChecks):
    """Log pass@k, verdicts and lengths of validation completions.

    Runs at the end of each validation (and of ``lit-rl validate`` and ``test``); the trainer's
    ``val_check_interval`` counts rollouts. Every problem counts once on any number of ranks: ranks gather sums
    and counts, never means of means.

    Logs ``val/<sampling>/pass@k`` for every k up to the samples of that sampling, ``.../num_problems``,
    ``.../median_program_bytes`` and the metrics of a training rollout under the same names (see
    :func:`lit_rl.reports.summary.summarise_rollout`), such as ``.../reward/mean`` and ``.../completion/length``; with
    several validation tasks, the names are ``val/<task>/<sampling>/...``. Rows with an infrastructure failure are left
    out of pass@k. A task that runs no programs has only ``.../reward/mean``, no pass@k and no verdicts.

    A row of several turns counts once, by the outcome of its last program. If rows may have several turns,
    ``.../pass@k/turn_<n>`` is pass@k after n turns; a row with fewer turns counts with its last turn.

    Args:
        ks: the values of k for pass@k, which is unbiased (Chen et al. 2021).
        prefix: first part of the metrics' names.
    """

    def __init__(self, ks: Sequence[PositiveInt] = (1,), prefix: str = "val") -> None:
        self.ks = sorted(set(ks))
        self.prefix = prefix
        # By task and sampling, for this rank alone.
        self._counts: dict[tuple[int, str], tuple[PassAtKMetric, list[tuple[str, bool, int | None]], Means]] = {}

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        samplings = pl_module.validation_sampling
        require_pass_at_k_samples(self.ks, max((sampling.num_samples for sampling in samplings.values()), default=0))

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._counts = {}

    on_test_epoch_start = on_validation_epoch_start

    def on_validation_batch_end(
        self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        evaluated: Evaluated = outputs
        for name, rollout in evaluated.rollouts.items():
            key = (dataloader_idx, name)
            if key not in self._counts:
                self._counts[key] = PassAtKMetric(self.ks, rollout.max_turns).to(pl_module.device), [], Means()
            passes, judged, means = self._counts[key]
            passes.update(rollout)
            judged += map(problem_and_program_size, rollout.judgements)
            means.merge(summarise_rollout(rollout, evaluated.rewards.get(name)))

    on_test_batch_end = on_validation_batch_end

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        tasks = getattr(trainer.datamodule, "validation_task_names", ())  # type: ignore[attr-defined]
        for (loader, name), (pass_counts, judged, means) in sorted(self._counts.items()):
            turns = pass_counts.compute()
            after = [("", turns[-1])]
            if len(turns) > 1:
                after += [(f"/turn_{number}", pass_at) for number, pass_at in enumerate(turns, 1)]
            passes = {f"pass@{k}{suffix}": pass_at[k] for k in self.ks for suffix, pass_at in after}
            metrics = {key: value for key, value in passes.items() if not isnan(value)}
            metrics |= problem_count_and_median_size(judged) | means.reduce(pl_module.device)
            prefix = "/".join([self.prefix, *([tasks[loader]] if len(tasks) > 1 else []), name])
            pl_module.log_dict({f"{prefix}/{key}": value for key, value in metrics.items()})

    on_test_epoch_end = on_validation_epoch_end
