"""pass@k by execution, counted over the completions that validation sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import lightning.pytorch as pl

from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Evaluated, Rollout
from lit_rl.summary import SUMMARY_NAMES, Counts, count_passed, mean_pass_at_k, summarise
from lit_rl.training.ranks import Means, gather_over_ranks

_ALWAYS = ("num_problems", "median_program_bytes", *SUMMARY_NAMES)


@dataclass
class _Tally:
    """Results of one sampling of one task: rows judged and passed per problem, as they stood after each turn."""

    turns: list[Counts] = field(default_factory=list)
    program_bytes: list[int] = field(default_factory=list)
    means: Means = field(default_factory=Means)

    def add(self, rollout: Rollout, rewards: RewardOutput | None) -> None:
        self._merge_turns([count_passed(rollout.after_turn(n)) for n in range(1, rollout.max_turns + 1)])
        programs = [judgement.program for judgement in rollout.judgements if judgement.program is not None]
        self.program_bytes += [program.end - program.start for program in programs]
        self.means.merge(summarise(rollout, rewards))

    def merge(self, other: _Tally) -> None:
        self._merge_turns(other.turns)
        self.program_bytes += other.program_bytes
        self.means.merge(other.means)

    def _merge_turns(self, others: Sequence[Counts]) -> None:
        """Each problem was sampled in one batch of one rank."""
        self.turns += [{} for _ in others[len(self.turns) :]]
        for mine, other in zip(self.turns, others, strict=False):
            mine.update(other)


class ExecutionEvaluation(pl.Callback):
    """Logs pass@k, verdicts and lengths of what validation sampled.

    Runs at the end of each validation (and of ``lit-rl validate`` and ``test``); how often is the trainer's
    ``val_check_interval``, counted in rollouts. Every problem counts once, whatever the number of ranks; sums
    and counts are gathered, never means of means; ranks without problems are fine.

    Logs ``val/<sampling>/pass@k`` for every k up to the samples of that sampling, ``.../num_problems``,
    ``.../median_program_bytes`` and all that training logs of a rollout too, by the same names (see
    :func:`lit_rl.summary.summarise`), such as ``.../reward/mean`` and ``.../completion/length``; with several
    validation tasks ``val/<task>/<sampling>/...``. Rows that could not be judged for our own reasons are left out of
    pass@k.

    A row of several turns counts once, by the outcome of its last program. Where rows may have several,
    ``.../pass@k/turn_<n>`` is what pass@k would have been after n turns: a row that had fewer stays as it was.

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
        """Check whether enough is sampled for every k."""
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
        turns = _suffixes(int(getattr(getattr(pl_module, "environment", None), "max_turns", 1)))
        rewarded = ["reward/mean"] if getattr(pl_module, "rewards", None) is not None else []
        return [
            "/".join([self.prefix, *task, name, metric])
            for task in ([(task,) for task in tasks] if len(tasks) > 1 else [()])
            for name, sampling in samplings.items()
            for metric in [
                *(f"pass@{k}{after}" for k in self.ks if k <= sampling.num_samples for after in ("", *turns)),
                *rewarded,
                *_ALWAYS,
                *(f"execution/pass_rate{after}" for after in turns),
                *(["turns/used"] if turns else []),
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
        """Count the results of a batch."""
        evaluated: Evaluated = outputs
        for name, rollout in evaluated.rollouts.items():
            tally = self._tallies.setdefault((dataloader_idx, name), _Tally())
            tally.add(rollout, evaluated.rewards.get(name))

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
        metrics: dict[str, float] = {}
        after_turns = [("", tally.turns[-1]), *zip(_suffixes(len(tally.turns)), tally.turns, strict=False)]
        for k in [k for k in self.ks if k <= num_samples]:
            for suffix, counts in after_turns:
                mean = mean_pass_at_k(counts, k)
                if mean is not None:
                    metrics[f"pass@{k}{suffix}"] = mean
        metrics["num_problems"] = float(len(tally.turns[-1]))
        metrics["median_program_bytes"] = float(median(tally.program_bytes or [0]))
        return metrics | tally.means.local()


def _suffixes(max_turns: int) -> list[str]:
    """Suffixes of a metric that is logged turn by turn; none if there is only one turn."""
    return [f"/turn_{number}" for number in range(1, max_turns + 1)] if max_turns > 1 else []


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
