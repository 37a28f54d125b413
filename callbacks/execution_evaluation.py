"""pass@k by execution, counted over the completions that validation sampled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import lightning.pytorch as pl
from torch import Tensor

from lit_rl.execution.outcome import Verdict
from lit_rl.functional.pass_at_k import pass_at_k
from lit_rl.rollout import Evaluated, Rollout
from lit_rl.training.ranks import gather_over_ranks

_ALWAYS = (
    "num_problems",
    "mean_length",
    "program_rate",
    "format_rate",
    "truncated_fraction",
    "median_program_bytes",
)


@dataclass
class _Tally:
    """What one sampling of one task came to: per problem (rows that were judged, rows that passed)."""

    problems: dict[str, tuple[int, int]] = field(default_factory=dict)
    verdicts: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    programs: int = 0
    fenced: int = 0
    tokens: int = 0
    truncated: int = 0
    rewards: float = 0.0
    rewarded: int = 0
    program_bytes: list[int] = field(default_factory=list)
    terms: dict[str, tuple[float, int]] = field(default_factory=dict)

    def add(self, rollout: Rollout, rewards: Sequence[float], terms: Mapping[str, Tensor]) -> None:
        for judgement in rollout.judgements:
            verdict = judgement.outcome.verdict
            self.verdicts[verdict] += 1
            self.programs += judgement.program is not None
            self.fenced += judgement.program is not None and judgement.program.fenced
            if judgement.program is not None:
                self.program_bytes.append(judgement.program.end - judgement.program.start)
            n, c = self.problems.get(judgement.problem.task_id, (0, 0))
            judged = verdict is not Verdict.INFRASTRUCTURE_FAILURE
            self.problems[judgement.problem.task_id] = (n + judged, c + (verdict is Verdict.PASSED))
        self.rows += len(rollout.judgements)
        self.tokens += int(rollout.completions.completion_mask.sum())
        self.truncated += int(rollout.completions.truncated.sum())
        known_rewards = [reward for reward in rewards if not math.isnan(reward)]
        self.rewards += sum(known_rewards)
        self.rewarded += len(known_rewards)
        for name, values in terms.items():
            known = values[~values.isnan()]
            self._add_term(name, float(known.sum()), len(known))

    def _add_term(self, name: str, total: float, count: int) -> None:
        before = self.terms.get(name, (0.0, 0))
        self.terms[name] = (before[0] + total, before[1] + count)

    def merge(self, other: _Tally) -> None:
        self.problems.update(other.problems)  # each problem was sampled on one rank alone
        self.verdicts.update(other.verdicts)
        self.program_bytes += other.program_bytes
        for name, (total, count) in other.terms.items():
            self._add_term(name, total, count)
        for name in ("rows", "programs", "fenced", "tokens", "truncated", "rewards", "rewarded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class ExecutionEvaluation(pl.Callback):
    """Logs pass@k, verdicts and lengths of what validation sampled.

    Runs at the end of each validation (and of ``lit-rl validate`` and ``test``); how often is the trainer's
    ``val_check_interval``, counted in rollouts. Every problem counts once, whatever the number of ranks; sums
    and counts are gathered, never means of means; a rank without problems is no trouble.

    Logs ``val/<sampling>/pass@k`` for every k up to the samples of that sampling, ``.../mean_length``,
    ``.../program_rate`` (completions in which a program was found), ``.../format_rate`` (in a fenced block),
    ``.../median_program_bytes``, ``.../truncated_fraction``, ``.../reward``, ``.../reward/<term>`` (unweighted) and
    ``.../verdict/<verdict>``; with several validation tasks
    ``val/<task>/<sampling>/...``. Rows that could not be judged for our own reasons are left out of pass@k
    and counted under their verdict.

    Args:
        ks: the k of pass@k, unbiased (Chen et al. 2021).
        prefix: first part of the metrics' names.
    """

    def __init__(self, ks: Sequence[int] = (1,), prefix: str = "val") -> None:
        if not ks or min(ks) < 1:
            raise ValueError(f"ks must be positive numbers, got {list(ks)}")
        self.ks = sorted(set(ks))
        self.prefix = prefix
        self._tallies: dict[tuple[int, str], _Tally] = {}

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Look whether enough is sampled for every k."""
        samplings: Any = getattr(pl_module, "validation_sampling", {})
        most = max((sampling.num_samples for sampling in samplings.values()), default=0)
        if most < self.ks[-1]:
            raise ValueError(
                f"pass@{self.ks[-1]} needs num_samples >= {self.ks[-1]}, got {most}: "
                "raise num_samples of a validation_sampling or lower ks"
            )

    def metric_names(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> list[str]:
        """The metrics that every validation logs, known before there is one."""
        tasks: Any = getattr(getattr(trainer, "datamodule", None), "validation_task_names", ())
        samplings: Any = getattr(pl_module, "validation_sampling", {})
        rewarded = ["reward"] if getattr(pl_module, "rewards", None) is not None else []
        return [
            "/".join([self.prefix, *task, name, metric])
            for task in ([(task,) for task in tasks] if len(tasks) > 1 else [()])
            for name, sampling in samplings.items()
            for metric in [
                *(f"pass@{k}" for k in self.ks if k <= sampling.num_samples),
                *rewarded,
                *_ALWAYS,
                *(f"verdict/{verdict}" for verdict in Verdict),
            ]
        ]

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Forget the last evaluation."""
        self._tallies = {}

    on_test_epoch_start = on_validation_epoch_start

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count what a batch came to."""
        evaluated: Evaluated = outputs
        for name, rollout in evaluated.rollouts.items():
            rewards = evaluated.rewards[name].tolist() if name in evaluated.rewards else []
            tally = self._tallies.setdefault((dataloader_idx, name), _Tally())
            tally.add(rollout, rewards, evaluated.terms.get(name, {}))

    on_test_batch_end = on_validation_batch_end

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Gather the counts of all ranks and log."""
        tallies = _gather(self._tallies)
        samplings: Any = getattr(pl_module, "validation_sampling", {})
        for (loader, name), tally in sorted(tallies.items()):
            prefix = "/".join([self.prefix, *_task_name(trainer, loader), name])
            metrics = self._metrics(tally, samplings[name].num_samples)
            pl_module.log_dict({f"{prefix}/{key}": value for key, value in metrics.items()})

    on_test_epoch_end = on_validation_epoch_end

    def _metrics(self, tally: _Tally, num_samples: int) -> dict[str, float]:
        metrics = {}
        for k in [k for k in self.ks if k <= num_samples]:
            estimates = [float(pass_at_k(n, c, k)) for n, c in tally.problems.values() if n >= k]
            if estimates:
                metrics[f"pass@{k}"] = sum(estimates) / len(estimates)
        metrics["num_problems"] = float(len(tally.problems))
        rows = max(1, tally.rows)
        metrics["mean_length"] = tally.tokens / rows
        metrics["program_rate"] = tally.programs / rows
        metrics["format_rate"] = tally.fenced / rows
        metrics["truncated_fraction"] = tally.truncated / rows
        metrics["median_program_bytes"] = float(median(tally.program_bytes or [0]))
        if tally.rewarded:
            metrics["reward"] = tally.rewards / tally.rewarded
        metrics |= {f"reward/{name}": total / count for name, (total, count) in tally.terms.items() if count}
        for verdict in Verdict:
            metrics[f"verdict/{verdict}"] = float(tally.verdicts[verdict])
        return metrics


def _task_name(trainer: pl.Trainer, loader: int) -> list[str]:
    """The part of a metric's name that says which task, if there are several."""
    datamodule: Any = getattr(trainer, "datamodule", None)
    names: Sequence[str] = getattr(datamodule, "validation_task_names", ())
    return [names[loader]] if len(names) > 1 else []


def _gather(tallies: dict[tuple[int, str], _Tally]) -> dict[tuple[int, str], _Tally]:
    """The tallies of all ranks, put together."""
    merged: dict[tuple[int, str], _Tally] = {}
    for of_rank in gather_over_ranks(tallies):
        for key, tally in of_rank.items():
            merged.setdefault(key, _Tally()).merge(tally)
    return merged
