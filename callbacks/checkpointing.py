"""Checkpoints named by rollout, exact resume, and the orderly end of a run that is preempted."""

from __future__ import annotations

import math
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.strategies import ModelParallelStrategy
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.exceptions import SIGTERMException
from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_warn
from torch.distributed.checkpoint.api import CheckpointException

from lit_rl.engines import EngineError
from lit_rl.errors import UsageError
from lit_rl.execution import SandboxError
from lit_rl.run_files.settings import setting_changes_on_resume, setting_texts_by_name
from lit_rl.signature_check import ArgumentChecks, PositiveFloat, PositiveInt
from lit_rl.training.checkpoints import RunFolder, remove_path
from lit_rl.training.preemption import INTERRUPT_STATUS, REQUEUE_STATUS, PreemptionFlag
from lit_rl.training.ranks import gather_over_ranks


class Checkpointing(Checkpoint, ArgumentChecks):
    """Saves a run so that the same command, started again, resumes where the run stopped, to the last bit.

    Saves after a rollout (``rollout_000010.ckpt``; modules without rollouts count updates) every
    ``every_n_rollouts``, when ``every_minutes`` have passed, at the end, and after SIGTERM, SIGUSR1 or Ctrl-C. If a
    validation follows the rollout, the checkpoint is written after it. ``last.ckpt`` and ``best.ckpt`` are links.

    Each start resumes from the newest complete checkpoint in ``folder`` and logs to the same version; a checkpoint
    given on the command line counts only for the first start. Only one run at a time can use a folder.
    ``lit-rl fit`` and :class:`lit_rl.Trainer` resume automatically, and exit after a signal. With
    Lightning's own trainer, pass ``ckpt_path=callback.lock_and_resolve_checkpoint(trainer)`` to ``trainer.fit``, and
    check :attr:`exit_status` afterwards.

    The state of every random generator of every rank is saved; it is restored if the number of ranks is the same.

    Args:
        folder: the run's folder; ``None`` for the ``run_dir`` of the trainer, or of the command line. Two runs need
            two folders.
        every_n_rollouts: number of rollouts from one save to the next; ``None`` for no such saves.
        every_minutes: save at the end of a rollout if this many minutes have passed since the last save.
        monitor: validation metric that selects the best checkpoint, such as ``val/greedy/pass@1``.
        mode: whether the best checkpoint has the largest or the smallest value of ``monitor``.
        keep: number of newest checkpoints to keep besides the best one (two, in case the newest is broken).
    """

    def __init__(
        self,
        folder: str | None = None,
        every_n_rollouts: PositiveInt | None = 10,
        every_minutes: PositiveFloat | None = None,
        monitor: str | None = None,
        mode: Literal["max", "min"] = "max",
        keep: PositiveInt = 2,
    ) -> None:
        self._run: RunFolder | None = None
        if folder is not None:
            self.set_default_folder(folder)
        self.every_n_rollouts, self.every_minutes, self.monitor = every_n_rollouts, every_minutes, monitor
        self.mode, self.keep = mode, keep
        self.best_value: float | None = None
        self.config: str | None = None  # set by the command line, so that a checkpoint tells how to build its model
        self.preempted = self.interrupted = False
        self._flag = PreemptionFlag()
        self._limit_val_batches: Any = None  # the trainer's own value: a stopped run sets 0, to skip a validation
        self.is_prepared = False  # True from `lock_and_resolve_checkpoint` to the end of the run
        self._wanted = self._owes_validation = False
        self._start = ""
        self._settings: dict[str, str] = {}
        self._saved, self._saved_time = 0, 0.0
        self._generators: list[dict[str, Any]] | None = None

    # -- before a run --------------------------------------------------------------------------------------

    @property
    def run_folder(self) -> RunFolder:
        """The run's folder."""
        if self._run is None:
            raise UsageError("Checkpointing has no folder: set its folder, or run_dir of the trainer or command line")
        return self._run

    def set_default_folder(self, folder: str) -> None:
        """Set the run's folder unless the constructor was given one."""
        if self._run is None:
            self._run = RunFolder(folder)

    def lock_and_resolve_checkpoint(self, trainer: pl.Trainer, ckpt_path: str | None = None) -> str | None:
        """Claim the folder and return the checkpoint that this start begins with; call this before ``trainer.fit``.

        ``ckpt_path`` is the checkpoint that the first start begins with; ``None`` begins with a fresh policy.
        """
        if trainer.is_global_zero:
            self.run_folder.lock()
        self.is_prepared = True
        newest = self.run_folder.newest_whole_checkpoint()
        self._start = "" if newest is None else newest.name
        if trainer.is_global_zero:
            self.run_folder.remove_or_rename_broken()
        noted = self.run_folder.read_notes().get("log_version")
        if noted is not None and newest is None:
            rank_zero_info(f"{self.run_folder.path} has no checkpoint of an earlier start, so training begins anew")
        elif noted is not None:
            for logger in trainer.loggers if trainer.is_global_zero else ():
                if hasattr(logger, "_version"):
                    logger._version = noted
        if trainer.is_global_zero and trainer.loggers and (noted is None or newest is None):
            self.run_folder.add_notes(log_version=trainer.loggers[0].version)
        if newest is None:
            return ckpt_path
        other = f", not from {ckpt_path}" if ckpt_path not in (None, "last") else ""
        rank_zero_info(f"going on from {newest}{other}")
        return str(newest)

    def setup(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        if not self.is_prepared:
            if self.run_folder.checkpoints():
                raise FileExistsError(
                    f"{self.run_folder.path} holds checkpoints of an earlier start: pass "
                    "ckpt_path=callback.lock_and_resolve_checkpoint(trainer) to trainer.fit to resume, or give this "
                    "run another folder"
                )
            self.lock_and_resolve_checkpoint(trainer)
        start = trainer.strategy.broadcast(self._start)
        if start != self._start:
            raise RuntimeError(
                f"rank {trainer.global_rank} sees {self._start or 'no checkpoint'} in {self.run_folder.path}, but "
                f"rank 0 sees {start or 'none'}: the folder must be on a file system that all nodes share"
            )
        self._flag, self.preempted, self.interrupted = PreemptionFlag(), False, False
        self._flag.install()
        self._limit_val_batches = trainer.limit_val_batches
        self._saved_time = time.monotonic()

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if self.config is not None:  # the command line compares its configurations
            return
        self._settings = setting_texts_by_name(pl_module.settings())
        before = self.run_folder.read_notes().get("settings", {}) if self._start else {}
        for change in setting_changes_on_resume(before, self._settings) if before else ():
            rank_zero_info(f"  {change}")
            if change.why_ignored:  # note the value that stays in force
                self._settings[change.name] = change.was

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._flag.install()
        if trainer.is_global_zero and self._settings:
            self.run_folder.add_notes(settings=self._settings)
        self._saved = pl_module.clock.count
        if self._generators is not None and len(self._generators) == trainer.world_size:
            restore_random_state(self._generators[trainer.global_rank])
        elif self._generators is not None:
            rank_zero_warn(
                f"the checkpoint was made by {len(self._generators)} ranks, but this run has {trainer.world_size}: "
                "the same problems and samples follow, but dropout draws other numbers"
            )
        self._generators = None
        if self._owes_validation:
            self._owes_validation = False
            # Validate in the same way as the training loop does between two rollouts.
            connector: Any = trainer._logger_connector
            is_first = connector._first_loop_iter
            trainer.validating = True
            trainer.fit_loop.epoch_loop.val_loop.run()
            trainer.training = True
            connector._first_loop_iter = is_first

    # -- when to save --------------------------------------------------------------------------------------

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        agreed = trainer.strategy.reduce_boolean_decision
        self.preempted = self.preempted or agreed(self._flag.is_set, all=False)
        self.interrupted = self.interrupted or agreed(self._flag.interrupted, all=False)
        n, done = self.every_n_rollouts, pl_module.clock.count
        self._wanted |= trainer.should_stop or (n is not None and done // n > self._saved // n)
        if self.every_minutes is not None:  # the clocks of the ranks differ, and saving is done together
            late = trainer.is_global_zero and time.monotonic() - self._saved_time >= 60 * self.every_minutes
            self._wanted |= agreed(late, all=False)
        if self.preempted:
            rank_zero_info("a signal asked this run to stop: the run saves and ends, and can be resumed later")
            trainer.should_stop = True
            self._owes_validation = _is_validation_due(trainer)
            trainer.limit_val_batches = 0  # no time for a validation now: the next start makes up for it
        if (self._wanted or self.preempted) and not _is_validation_due(trainer):
            self._save(trainer, pl_module)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking:
            return
        before = self.best_value
        better = self._update_best_value(trainer)
        if (self._wanted or better) and not self._save(trainer, pl_module, best=better):
            self.best_value = before  # a checkpoint that is not on the disk is not the one to beat

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if pl_module.clock.count != self._saved:
            self._save(trainer, pl_module, last_chance=True)

    def teardown(self, trainer: pl.Trainer, pl_module: Any, stage: str) -> None:
        self._flag.uninstall()
        if self._limit_val_batches is not None:
            trainer.limit_val_batches, self._limit_val_batches = self._limit_val_batches, None
        self.run_folder.unlock()
        self.is_prepared = False

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, exception: BaseException) -> None:
        """Save the run if only the engine or the sandbox failed; release the folder and the signals.

        Ranks save together, and all know when the engine fails. After any other exception, or if the sandbox of only
        one of several ranks failed, the last checkpoint stays unchanged.
        """
        known = (EngineError, SandboxError) if trainer.world_size == 1 else EngineError
        if isinstance(exception, known) and trainer.state.fn == TrainerFn.FITTING and self.is_prepared:
            self._owes_validation = self._owes_validation or trainer.validating
            if pl_module.clock.count != self._saved:
                self._save(trainer, pl_module)
        self.teardown(trainer, pl_module, "fit")

    def _update_best_value(self, trainer: pl.Trainer) -> bool:
        """Return whether the monitored metric is the best so far; rank 0 decides for all."""
        if self.monitor is None:
            return False
        if self.monitor not in trainer.callback_metrics:
            known = sorted(name for name in trainer.callback_metrics if name.startswith("val"))
            raise UsageError(f"monitor {self.monitor} is not logged by validation; choose one of: {', '.join(known)}")
        value = float(trainer.strategy.broadcast(float(trainer.callback_metrics[self.monitor])))
        if math.isnan(value):  # nothing compares as better than NaN, so NaN would stay the best forever
            return False
        better = self.best_value is None or (value > self.best_value if self.mode == "max" else value < self.best_value)
        if better:
            self.best_value = value
        return better

    # -- saving --------------------------------------------------------------------------------------------

    def _save(self, trainer: pl.Trainer, pl_module: Any, best: bool = False, last_chance: bool = False) -> bool:
        """Save the present state unless the run is a trial; return whether the state is on disk."""
        if trainer.fast_dev_run:  # type: ignore[attr-defined]  # or the real run would resume from the trial
            return True
        count = pl_module.clock.count
        part, final = self.run_folder.part_and_final_paths(f"{pl_module.clock.unit}_{count:06d}")
        if (not final.exists() or count != self._saved) and (fault := self._write_checkpoint(trainer, part, final)):
            if trainer.is_global_zero:
                remove_path(part)
            kept = "".join(f"; the last checkpoint, {one.name}, stays" for one in self.run_folder.checkpoints()[-1:])
            which = f"{pl_module.clock.unit} {count}"
            message = f"the checkpoint of {which} could not be saved in {self.run_folder.path} ({fault}){kept}"
            if last_chance or trainer.should_stop:
                raise OSError(f"{message}: make room and start again to redo the work since the last checkpoint")
            rank_zero_warn(f"{message}; trying again after the next {pl_module.clock.unit}")
            self._wanted = True
            return False
        self._wanted, self._saved, self._saved_time = False, count, time.monotonic()
        if trainer.is_global_zero:
            self.run_folder.link_checkpoint("last", final)
            if best:
                self.run_folder.link_checkpoint("best", final)
            self.run_folder.prune_checkpoints(self.keep)
        return True

    def _write_checkpoint(self, trainer: pl.Trainer, part: Path, final: Path) -> str:
        """Write a checkpoint under its final name, with all ranks; return the error of any rank, or an empty text."""
        fault = ""
        if trainer.is_global_zero:
            remove_path(part)
        trainer.strategy.barrier("checkpoint")
        checkpoint = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        try:
            if isinstance(trainer.strategy, ModelParallelStrategy):
                trainer.strategy.save_checkpoint(checkpoint, part)
            elif trainer.is_global_zero:
                # Straight into the folder: Lightning would build the whole file in memory first.
                torch.save(checkpoint, part)
        except CheckpointException as error:
            fault = str(next(iter(error.failures.values()))[0])
        except (OSError, RuntimeError) as error:
            fault = str(error).partition("\n")[0]
        fault = _share_fault_across_ranks(trainer, fault)
        if not fault and trainer.is_global_zero:
            try:
                self.run_folder.commit_checkpoint(part, final)
            except OSError as error:
                fault = str(error)
        return _share_fault_across_ranks(trainer, fault)

    # -- what a checkpoint holds besides Lightning's own -----------------------------------------------------

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint["random_states"] = gather_random_states()
        checkpoint["config"] = self.config
        checkpoint["monitor"] = self.monitor
        checkpoint["metrics"] = last_validation_metrics(trainer)

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        self._generators = checkpoint.get("random_states")

    def state_dict(self) -> dict[str, Any]:
        return {"best_value": self.best_value, "owes_validation": self._owes_validation}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best_value = state_dict["best_value"]
        self._owes_validation = state_dict.get("owes_validation", False)

    @property
    def best_model_path(self) -> str:
        """Path of the best checkpoint, for ``ckpt_path='best'``; empty if there is none."""
        return str(self.run_folder.link_target("best") or "")

    @property
    def exit_status(self) -> int:
        """Exit status of the process: 75 asks the job script to requeue, 130 is Ctrl-C, 0 means done."""
        if self.interrupted or self._flag.interrupted:  # the flag alone is set after the last rollout
            return INTERRUPT_STATUS
        return REQUEUE_STATUS if self.preempted or self._flag.is_set else 0

    def resume_hint(self) -> str:
        """Say where a stopped run is saved, and how to resume it."""
        last = self.run_folder.link_target("last")
        return (
            f"stopped and saved as {last}: the same command goes on from there" if last else "stopped; nothing is saved"
        )


def find_checkpointing_callbacks(trainer: Any) -> list[Checkpointing]:
    """Return the callbacks that save the run."""
    return [one for one in trainer.checkpoint_callbacks if isinstance(one, Checkpointing)]


@contextmanager
def raise_if_stopped(trainer: pl.Trainer) -> Iterator[None]:
    """Raise if a signal stopped the trainer's run, so that the code after the run does not run.

    Otherwise a run that saved itself would return as if it had finished, and Lightning would end an interrupted process
    with the status of a failure (Ctrl-C) or of a success (SIGTERM).
    """
    terminated = False
    try:
        yield
    except SIGTERMException:
        terminated = True
    except SystemExit as left:
        raise left.__context__ if isinstance(left.__context__, KeyboardInterrupt) else left from None
    status = 128 + signal.SIGTERM if terminated or trainer.received_sigterm else 0
    for saver in find_checkpointing_callbacks(trainer) if trainer.state.fn == TrainerFn.FITTING else ():
        if saver.exit_status == INTERRUPT_STATUS:
            raise KeyboardInterrupt(saver.resume_hint())
        if saver.exit_status or terminated:
            print(saver.resume_hint(), file=sys.stderr)
            status = REQUEUE_STATUS
    if status:
        raise SystemExit(status)


def last_validation_metrics(trainer: pl.Trainer) -> dict[str, float]:
    """Return the last value of each metric that validations logged, by name."""
    return {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val")}


def _is_validation_due(trainer: pl.Trainer) -> bool:
    """Return whether the trainer validates before the next rollout. Lightning has no public API for this."""
    loop: Any = trainer.fit_loop.epoch_loop
    return bool(loop._should_check_val_fx(trainer.fit_loop._data_fetcher))


def _share_fault_across_ranks(trainer: pl.Trainer, fault: str) -> str:
    """Return a fault on every rank if any rank has one; otherwise the other ranks would wait forever."""
    failed = trainer.strategy.reduce_boolean_decision(bool(fault), all=False)
    return fault or "another rank could not write" if failed else ""


# -- random generators ----------------------------------------------------------------------------------------


def gather_random_states() -> list[dict[str, Any]]:
    """Return each rank's random states as plain data, the same list on every rank; all ranks call this."""
    numpy: Any = np.random.get_state()
    version, internal, gauss_next = random.getstate()
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        # Plain numbers: torch's safe way of loading refuses a checkpoint with numpy arrays.
        "numpy": [numpy[0], numpy[1].tolist(), int(numpy[2]), int(numpy[3]), float(numpy[4])],
        "python": [version, list(internal), gauss_next],
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return gather_over_ranks(state)


def restore_random_state(state: dict[str, Any]) -> None:
    """Restore the random generators of this process."""
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    name, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, gauss))
    version, internal, gauss_next = state["python"]
    random.setstate((version, tuple(internal), gauss_next))
