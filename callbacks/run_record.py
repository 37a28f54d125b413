"""Write the plain files of a run: every logged number, and the rollouts worth looking at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

from lit_rl.callbacks.checkpointing import find_checkpointing_callbacks, last_validation_metrics
from lit_rl.callbacks.diagnostics import Diagnostics, open_diagnoses
from lit_rl.errors import UsageError
from lit_rl.reports.recorded_rows import (
    append_rollout_record,
    build_recorded_rows,
    choose_rows_to_record,
    rollout_record_part,
)
from lit_rl.reports.summary import filter_program_judgements
from lit_rl.rollout import FinishedRollout
from lit_rl.run_files.files import ROLLOUTS_FILE, MetricsWriter, read_metrics
from lit_rl.run_files.records import Diagnosis, finite_or_none
from lit_rl.run_files.settings import setting_texts_by_name
from lit_rl.signature_check import ArgumentChecks, NonNegativeFloat, NonNegativeInt, PositiveInt
from lit_rl.training.ranks import gather_over_ranks


class RunRecord(pl.Callback, ArgumentChecks):
    """Write ``metrics.jsonl`` and ``rollouts.jsonl.gz``, which ``lit-rl report``, ``show`` and ``replay`` read.

    Both files grow by a whole line or compressed frame at a time, so a killed run leaves them readable. A run that
    resumes from a checkpoint first drops the records after that checkpoint. Rank 0 writes for all ranks.

    ``metrics.jsonl`` has a line per rollout (per update, in a run without rollouts), one per validation, one per
    start that describes the run, and one where a diagnosis of :class:`Diagnostics` begins or ends.
    ``rollouts.jsonl.gz`` has, for each rollout, the verdicts of all programs, and some rows in full: prompt, turns,
    program, verdict of each case, reward terms, and for each token its credit, advantage and log-probabilities.

    The callback is on by default in ``lit-rl fit`` and :class:`lit_rl.Trainer`. It writes to the folder of the run's
    logger or, without a logger, to that of :class:`Checkpointing`. A run with neither is not recorded.

    Args:
        folder: where to write; ``None`` for the folder named above.
        num_groups: number of groups to keep per rollout: the group whose rewards differ most, others at random. The
            best and the worst row of the rollout are always kept.
        num_rows: largest number of rows to keep per group.
        every_n_rollouts: number of rollouts from one whose rows are kept to the next.
        max_megabytes: size of ``rollouts.jsonl.gz`` above which only verdicts are added, no rows. 0 writes no such
            file.
    """

    def __init__(
        self,
        folder: str | None = None,
        num_groups: NonNegativeInt = 2,
        num_rows: PositiveInt = 8,
        every_n_rollouts: PositiveInt = 1,
        max_megabytes: NonNegativeFloat = 150.0,
    ) -> None:
        self.folder, self.num_groups, self.num_rows = folder, num_groups, num_rows
        self.every_n_rollouts = every_n_rollouts
        self.max_bytes = int(max_megabytes * 1e6)
        self._writer: MetricsWriter | None = None
        self._before: tuple[Any, dict[str, float]] = (None, {})
        """The module that was validated outside of training, and the metrics that were measured."""

    @property
    def output_folder(self) -> Path | None:
        """Folder of the files; known on the first rank once training has started."""
        return None if self._writer is None else self._writer.folder

    # -- where ---------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._writer = None
        if not trainer.is_global_zero:
            return
        count = pl_module.clock.count
        self._writer = MetricsWriter(run_folder(trainer, self.folder), pl_module.clock.unit, count)
        policy, task, sampling = pl_module.policy, getattr(trainer, "datamodule", None), pl_module.sampling
        start = {  # what tables show about a run
            "method": type(pl_module).__name__,
            "model": getattr(policy, "source", None) or type(policy).__name__,
            "lora_rank": getattr(getattr(policy, "lora", None), "rank", None),
            "task": getattr(task, "name", None),
            "seed": pl_module.seed,
            "batch_size": getattr(task, "batch_size", None),
            "num_samples": getattr(sampling, "num_samples", None),
            "temperature": getattr(sampling, "temperature", None),
            "length": pl_module.clock.limit,
            "diagnosed": any(isinstance(callback, Diagnostics) for callback in trainer.callbacks),  # type: ignore[attr-defined]
            "num_ranks": trainer.world_size,
            "settings": setting_texts_by_name(pl_module.settings()),
        }
        self._writer.append(count, {"start": start})
        # If a run resumes in another folder, the file there lacks the diagnoses that are in the checkpoint.
        known = {one.rule for one in read_metrics(self._writer.folder).open_diagnoses}
        for diagnosis in open_diagnoses(trainer):
            if diagnosis.rule not in known:
                self.append_diagnosis(diagnosis)
        validated, measured = self._before
        if not count and validated is pl_module:
            self._write_metrics(pl_module, measured)
        self._before = (None, {})

    # -- numbers -------------------------------------------------------------------------------------------

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if pl_module.clock.unit == "update":
            logged = trainer.logged_metrics
            self._write_metrics(pl_module, {k: v for k, v in logged.items() if not k.startswith("val") and k != "step"})

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.state.fn == "validate":
            self._before = (pl_module, last_validation_metrics(trainer))
        elif not trainer.sanity_checking:
            measured = {k: float(v) for k, v in trainer.logged_metrics.items() if k.startswith("val")}
            self._write_metrics(pl_module, measured)

    def _write_metrics(self, module: Any, values: Mapping[str, Any]) -> None:
        if self._writer is not None and values:
            self._writer.append(module.clock.count, {name: float(value) for name, value in values.items()})

    # -- diagnoses -----------------------------------------------------------------------------------------

    def append_diagnosis(self, diagnosis: Diagnosis) -> None:
        """Write that a diagnosis was made or, if it has ended, that it no longer holds."""
        said = (
            {"message": diagnosis.message, "details": diagnosis.details} if diagnosis.ended is None else {"ended": True}
        )
        if self._writer is not None:
            self._writer.append(diagnosis.ended or diagnosis.rollout, {"diagnosis": {"rule": diagnosis.rule, **said}})

    # -- rollouts ------------------------------------------------------------------------------------------

    def on_rollout_end(self, trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
        self._write_metrics(module, finished.metrics)
        count = module.clock.count
        if count % self.every_n_rollouts or not self.max_bytes:
            return
        rollout, rewards, experience = finished.rollout, finished.rewards, finished.experience
        known = [r if ok else None for r, ok in zip(rewards.rewards.tolist(), rewards.valid.tolist(), strict=True)]
        chosen = choose_rows_to_record(
            rollout.completions.rows_by_group(), known, self.num_groups, self.num_rows, seed=count
        )
        values = {
            "credit": rewards.credit,
            "advantage": experience.advantages,
            "logprob_old": experience.old_logprobs,
            "logprob_update": module.trace.recorded.get("logprobs"),
            "logprob_ref": experience.ref_logprobs,
            "value": experience.old_values,
            "entropy": module.trace.recorded.get("entropy"),
        }
        kept = list(build_recorded_rows(rollout, rewards, chosen, count, module.policy.codec.decode, values))
        parts = gather_over_ranks(rollout_record_part(rollout, kept, filter_program_judgements(rollout.judgements)))
        if self._writer is not None:
            seconds = {
                name.removeprefix("time/").removesuffix("_seconds"): round(value, 4)
                for name, value in finished.metrics.items()
                if name.startswith("time/") and name.endswith("_seconds") and finite_or_none(value) is not None
            }
            file = self._writer.folder / ROLLOUTS_FILE
            has_room = not file.exists() or file.stat().st_size < self.max_bytes
            append_rollout_record(file, parts, has_room, rollout=count, seconds=seconds)


def has_run_folder(trainer: Any) -> bool:
    """Return whether a run has a folder: a logger's, or that of Checkpointing."""
    return bool(trainer.loggers or find_checkpointing_callbacks(trainer))


def run_folder(trainer: Any, given: str | None = None) -> Path:
    """Return the folder of a run's plain files; call on rank 0 only."""
    if given is not None:
        return Path(given).expanduser()
    logger: Any = trainer.logger
    if isinstance(logger, TensorBoardLogger | CSVLogger):
        return Path(logger.log_dir)
    if logger is not None:
        parts = [part for part in (logger.name, logger.version) if part is not None]
        return Path(logger.save_dir or trainer.default_root_dir).joinpath(*map(str, parts))
    for saver in find_checkpointing_callbacks(trainer):
        return saver.run_folder.path
    raise UsageError("neither a logger nor Checkpointing has a folder for this run: set the callback's folder or path")
