"""``lit-rl fit --config FILE --smoke``: a short, small run of a configuration that says whether everything works.

Trains the first rollouts on few problems, in a folder of its own, and asks the rules of
:data:`lit_rl.reports.diagnosis.CHECKS` about all of them; then loads the checkpoint.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import torch

from lit_rl.arguments import UsageError
from lit_rl.callbacks.checkpointing import Checkpointing
from lit_rl.callbacks.diagnostics import Diagnostics
from lit_rl.cli.config_files import files_of
from lit_rl.reports.diagnosis import CHECKS, RULES, RunHistory
from lit_rl.reports.diagnosis.run_history import Where, some_weights
from lit_rl.reports.diagnosis.update_rules import LOSSES
from lit_rl.rollout import FinishedRollout
from lit_rl.rollout.records import TrainedModule

FLAG = "--smoke"
ROLLOUTS = 20
_MOST_PROBLEMS = 4
_FOLDER_VARIABLE = "LIT_RL_SMOKE_FOLDER"
_OF_UPDATES = ("the loss moves", "the weights move", "memory stays flat")
"""Checks of a run without rollouts."""


class Check(NamedTuple):
    """One check of a smoke test: its name, whether it passed, and the evidence."""

    name: str
    passed: bool
    seen: str

    def line(self) -> str:
        """One line for the report."""
        return f"  {'pass' if self.passed else 'FAIL'}  {self.name:<22}  {self.seen}"


class Observer(pl.Callback):
    """Keeps the history of the whole run, and asks the rules of each check when it is complete."""

    def __init__(self) -> None:
        self.history = RunHistory(1)
        self.checks: list[Check] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Look at the weights."""
        self.history = RunHistory(pl_module.clock.limit or 1)
        self.history.begin(pl_module, Where())

    def on_rollout_end(self, trainer: pl.Trainer, module: TrainedModule, finished: FinishedRollout) -> None:
        """Keep a rollout and its metrics; all ranks call, since a rule's trials may need all of them."""
        self.history.add_rollout(module, finished)
        if self.history.is_known:
            self.checks = [checked(name, self.history) for name in CHECKS]

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        """Keep what an update logged, in a run without rollouts."""
        if pl_module.clock.unit == "update":
            logged = {name: float(value) for name, value in trainer.callback_metrics.items() if name[:3] != "val"}
            self.history.add_numbers(pl_module, logged)
            if self.history.is_known:
                self.checks = [checked(name, self.history) for name in _OF_UPDATES]


class SmokeTest:
    """A short, small run, and its checks.

    Args:
        arguments: of ``lit-rl``, ``--smoke`` or ``--smoke=N`` (rollouts) among them.

    Raises:
        ValueError: another command than ``fit``, or no number of rollouts.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        (given,) = [one for one in arguments if one not in without_flag(arguments)][:1]
        number = given.removeprefix(FLAG).removeprefix("=") or str(ROLLOUTS)
        if arguments[0] != "fit":
            raise UsageError(f"{FLAG} tries out a run, got it beside {arguments[0]}: lit-rl fit --config FILE {FLAG}")
        if not number.isdigit() or int(number) < 2:
            raise UsageError(f"{given} is no number of rollouts from 2 on: {FLAG}=30, or {FLAG} for {ROLLOUTS}")
        self.rollouts = int(number)
        self.folder = smoke_folder([*files_of(arguments)])
        self.observer = Observer()
        asked = [rule.name for rules in CHECKS.values() for rule in rules if rule in RULES]
        self.diagnostics = Diagnostics(max(2, self.rollouts // 2), leave_out=asked)

    def watch(self, trainer: Any) -> None:
        """Add what observes the run, and a checkpoint at its end."""
        callbacks = [one for one in trainer.callbacks if not isinstance(one, Diagnostics)]
        if not any(isinstance(one, Checkpointing) for one in callbacks):
            callbacks.append(Checkpointing(str(self.folder / "checkpoints"), every_n_rollouts=self.rollouts))
        trainer.callbacks = [*callbacks, self.diagnostics, self.observer]

    def finish(self, trainer: Any, module: TrainedModule, task: Any) -> None:
        """Print the results; exit with status 1 if a check failed."""
        checks = [*self.observer.checks, checkpoint_loads(trainer, module, task)]
        failed = [check for check in checks if not check.passed]
        if trainer.is_global_zero:
            notes = [f"  note  {one.rule:<22}  {one.message}" for one in self.diagnostics.found]
            result = f"failed: {', '.join(one.name for one in failed)}" if failed else "passed: everything works"
            print("\n".join([f"smoke test in {self.folder}", *(one.line() for one in checks), *notes, result]))
        if failed:
            raise SystemExit(1)


def without_flag(arguments: Sequence[str]) -> list[str]:
    """A command without the flag that asks for a smoke test."""
    return [one for one in arguments if one != FLAG and not one.startswith(f"{FLAG}=")]


# -- before --------------------------------------------------------------------------------------------------


def smoke_folder(files: Sequence[str]) -> Path:
    """A new folder, the same for all processes that this one starts."""
    if _FOLDER_VARIABLE not in os.environ:
        name = Path(files[-1]).stem if files else "run"
        job = os.environ.get("SLURM_JOB_ID") or os.environ.get("TORCHELASTIC_RUN_ID")
        numbers = iter(range(1, sys.maxsize))
        folder = Path("runs/smoke") / (f"{name}_{job}" if job else name)
        while not job and folder.exists():
            folder = Path("runs/smoke") / f"{name}_{next(numbers)}"
        os.environ[_FOLDER_VARIABLE] = str(folder)
    return Path(os.environ[_FOLDER_VARIABLE])


def shrink(config: Any, rollouts: int, folder: Path) -> None:
    """Change a parsed configuration in place: few rollouts of few problems, everything written into one folder."""
    model, data, trainer = config["model"]["init_args"], config["data"]["init_args"], config["trainer"]
    for length in ("max_rollouts", "max_updates"):
        if length in model:
            model[length] = min(rollouts, model[length] or rollouts)
    if data.get("batch_size"):
        data["batch_size"] = min(_MOST_PROBLEMS, data["batch_size"])
    trainer["logger"] = False
    trainer["default_root_dir"] = str(folder)
    trainer["max_epochs"], trainer["max_time"] = -1, None
    if trainer.get("limit_val_batches") != 0:
        trainer["limit_val_batches"] = 1
        trainer["check_val_every_n_epoch"], trainer["val_check_interval"] = None, rollouts
    for callback in trainer.get("callbacks") or []:
        if callback["class_path"].rpartition(".")[2] == "Checkpointing":
            changes = {"folder": str(folder / "checkpoints"), "every_n_rollouts": rollouts, "every_minutes": None}
            for name, value in changes.items():
                callback["init_args"][name] = value


# -- after ---------------------------------------------------------------------------------------------------


def checked(name: str, run: RunHistory) -> Check:
    """Ask the rules of a check about the whole run."""
    said = [message for rule in CHECKS[name] if (message := rule().look(run))]
    return Check(name, not said, "; ".join([seen_of(name, run), *said]))


def seen_of(name: str, run: RunHistory) -> str:
    """The metrics of a check."""
    if name == "programs run":
        failed, timed_out = (run.share(f"verdict/{end}_fraction") for end in ("infrastructure_failure", "timed_out"))
        found = run.share("completion/program_rate")
        if run.module.sampler.sandbox is None:
            return "the task has none to run"
        return f"a program in {found:.0%} of the rows, {failed:.0%} not judged, {timed_out:.0%} timed out"
    if name == "rewards vary":
        reward, spread, trained = map(run.share, ("reward/mean", "reward/std", "update/trained_fraction"))
        return f"mean {reward:.3g}, std {spread:.2g}, {trained:.0%} of the rows teach something"
    if name == "the first ratio is 1":
        gap = run.mean("sampling/logprob_gap/mean")
        return "no row was trained" if gap is None else f"sampler and trainer differ by {gap:.2g} nats a token"
    if name == "the loss moves":
        losses = next((values for loss in LOSSES if (values := run.values(loss))), [])
        return f"{losses[0]:.3g} at first, {losses[-1]:.3g} at last" if losses else "there was none"
    if name == "the weights move":
        first, last = run.weights[0], run.weights[-1]
        if not first.any():
            return "they began at 0"
        return f"by {float((last - first).norm() / first.norm()):.2g} of their size"
    peaks = run.values("memory/peak_gigabytes")
    if len(peaks) < 2:
        return "not measured"
    return f"{peaks[len(peaks) // 2]:.2f} GB after half of the rollouts, {peaks[-1]:.2f} GB at the end"


def checkpoint_loads(trainer: Any, module: TrainedModule, task: Any) -> Check:
    """A validation from the last checkpoint has the weights that training ended with."""
    name = "the checkpoint loads"
    (saved,) = [one for one in trainer.checkpoint_callbacks if isinstance(one, Checkpointing)][:1]
    path = saved.run.target("last")
    if path is None:
        return Check(name, False, f"there is none in {saved.run.path}")
    before = some_weights(module)
    with torch.no_grad():
        for parameter in module.policy.parameters():
            if parameter.requires_grad:
                parameter.zero_()
    trainer.validate(module, datamodule=task, ckpt_path=str(path), verbose=False)
    same = bool(torch.equal(some_weights(module), before))
    return Check(name, same, f"{path}" if same else f"{path} has other weights than the run ended with")
