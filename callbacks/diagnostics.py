"""Diagnose in one line each why a run does not learn, where its metrics tell."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.cli import SaveConfigCallback

from lit_rl.arguments import TypedArguments, UsageError, require_at_least
from lit_rl.callbacks.checkpointing import validation_metrics
from lit_rl.callbacks.tensorboard_layout import boards_of
from lit_rl.reports.diagnosis import RULES, Diagnosis, Rule, RunHistory
from lit_rl.reports.diagnosis.run_history import Where
from lit_rl.rollout import FinishedRollout
from lit_rl.rollout.records import TrainedModule

_log = logging.getLogger("lit_rl.diagnostics")


class Diagnostics(pl.Callback, TypedArguments):
    """Names likely causes of a run that does not learn, each in one line with what to do.

    Looks at the numbers of the last ``patience`` rollouts after each rollout and each validation. A rule speaks once,
    with what was measured, what it means, and the likeliest causes with a command for each, and again only after its
    condition was gone; causes come before symptoms, and what another rule's condition explains is not said. What it
    reports goes to the log (``lit_rl.diagnostics``), to TensorBoard's TEXT and into ``metrics.jsonl``, from which
    ``lit-rl report`` and ``show`` have it; it stays in :attr:`found`, and in :attr:`open` as long as it holds. It
    changes nothing and stops nothing. docs/monitoring.md has an entry for each rule.

    Args:
        patience: rollouts that a condition must hold; all rules look at means over these.
        rules: with other thresholds, or of your own: a rule takes the place of the one with its name. The others stay.
        leave_out: names of rules that are not asked.
    """

    def __init__(self, patience: int = 10, rules: Sequence[Rule] = (), leave_out: Sequence[str] = ()) -> None:
        require_at_least(1, self, patience=patience)
        self.patience = patience
        self.rules = chosen_rules(rules, leave_out)
        self.found: list[Diagnosis] = []
        self._run = RunHistory(patience)
        self._spoken: set[str] = set()

    @property
    def open(self) -> list[Diagnosis]:
        """Diagnoses that still hold, in the order in which they were made."""
        last = {one.rule: one for one in self.found}
        return [one for one in self.found if one.rule in self._spoken and one is last[one.rule]]

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Look at the weights, and where the run's files are; all ranks call."""
        groups = trainer.optimizers[0].param_groups if trainer.optimizers else [{}]
        self._run.begin(pl_module, where_of(trainer), {k: v for k, v in groups[0].items() if k != "params"})

    def on_rollout_end(self, trainer: pl.Trainer, module: TrainedModule, finished: FinishedRollout) -> None:
        """Look at the last rollouts; on every rank, since a rule's trials may need all of them."""
        self._run.add_rollout(module, finished)
        self._look(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Check validation metrics against the rewards of training."""
        if trainer.state.fn != "fit" or not self._run.rollout_step:
            return
        reward = self._run.level("reward/mean")
        trained = {} if reward is None else {"reward/mean": reward.mean, "reward/error": reward.error}
        self._run.add_validation(validation_metrics(trainer) | trained)
        self._look(trainer)

    def _look(self, trainer: pl.Trainer) -> None:
        run, rules = self._run, [rule for rule in self.rules if self._run.is_known or rule.at_once]
        rules = [rule for rule in rules if "*" in rule.explains and rule.look(run)] or rules
        messages = {rule.name: rule.look(run) for rule in rules}
        holding = [r for r in rules if messages[r.name] or (r.name in self._spoken and r.persists(run))]
        explained = {name for rule in rules if rule in holding or rule.suspects(run) for name in rule.explains}
        for rule in rules:
            message, known = messages[rule.name], rule.name in self._spoken
            if message and not known and rule.name not in explained:
                self._spoken.add(rule.name)
                if trainer.is_global_zero:
                    page = f" ({rule.page}#{rule.name})" if rule.page else ""
                    diagnosis = Diagnosis(run.rollout_step, rule.name, f"{message}{page}", rule.details(run))
                    self._report(trainer, diagnosis)
            elif known and rule not in holding:
                self._spoken.discard(rule.name)
                for record in records_of(trainer):
                    record.on_diagnosis_end(run.rollout_step, rule.name)

    def _report(self, trainer: pl.Trainer, diagnosis: Diagnosis) -> None:
        self.found.append(diagnosis)
        _log.warning("rollout %d: %s", diagnosis.rollout, diagnosis.message)
        text = diagnosis.message
        if diagnosis.details:
            _log.warning("%s", diagnosis.details)
            text += f"\n\n```\n{diagnosis.details}\n```"
        for logger in boards_of(trainer):
            logger.experiment.add_text(f"diagnosis/{diagnosis.rule}", text, diagnosis.rollout)
        for record in records_of(trainer):
            record.on_diagnosis(diagnosis)

    # -- state -----------------------------------------------------------------------------------------------

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Begin anew; a checkpoint is loaded after this."""
        if stage == "fit":
            self.found, self._run, self._spoken = [], RunHistory(self.patience), set()
            for rule in self.rules:
                rule.reset()

    def state_dict(self) -> dict[str, Any]:
        """The metrics and diagnoses so far."""
        return {
            "run": self._run.state_dict(),
            "spoken": sorted(self._spoken),
            "found": [tuple(one) for one in self.found],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore them, so that a resumed run repeats no diagnosis."""
        self._run.load_state_dict(state_dict["run"])
        self._spoken = set(state_dict["spoken"])
        self.found = [Diagnosis(*one) for one in state_dict["found"]]


def chosen_rules(given: Sequence[Rule], leave_out: Sequence[str]) -> list[Rule]:
    """The package's rules with their defaults, replaced by given rules of the same name, then other given rules.

    Raises:
        ValueError: a name that is left out is no rule's.
    """
    by_name: dict[str, Rule] = {rule.name: rule for rule in (*(kind() for kind in RULES), *given)}
    unknown = sorted(set(leave_out) - set(by_name))
    if unknown:
        raise UsageError(f"leave_out names {', '.join(unknown)}, which is no rule: there are {', '.join(by_name)}")
    return [rule for name, rule in by_name.items() if name not in leave_out]


def open_diagnoses(trainer: Any) -> list[Diagnosis]:
    """The diagnoses of a run that still hold."""
    return [one for callback in trainer.callbacks if isinstance(callback, Diagnostics) for one in callback.open]


def records_of(trainer: Any) -> list[Any]:
    """Return the callbacks that write the run's plain files, :class:`RunRecord`."""
    return [callback for callback in trainer.callbacks if hasattr(callback, "on_diagnosis")]


def where_of(trainer: Any) -> Where:
    """Commands and places for this run's messages; all ranks call."""
    logs, saved = trainer.log_dir, any(isinstance(one, SaveConfigCallback) for one in trainer.callbacks)
    folder = next((one.folder or logs for one in records_of(trainer)), None)
    show = f"lit-rl show {shlex.quote(str(folder))}" if folder else Where().show
    at = f"--config {shlex.quote(str(Path(logs or '.') / 'config.yaml'))}"
    fit = f"lit-rl fit {at} --run_dir NEW" if saved else Where().fit
    if getattr(trainer, "datamodule", None) is None:
        return Where(show=show, fit=fit)
    task = type(trainer.datamodule)
    check_data = f"lit-rl check-data {at if saved else f'--data {place_of(task)}'}"
    strings = f"stop_strings are set where {task.__qualname__}.load_problems makes its problems"
    if getattr(trainer.datamodule, "stop_strings", None) is not None:
        strings = "data.stop_strings sets them"
    return Where(check_data, strings, show, fit)


def place_of(task: type) -> str:
    """The name by which a command imports a task, with what to do first where it has none."""
    name = task.__qualname__.rpartition(".")[2]
    if task.__module__ != "__main__" and "<locals>" not in task.__qualname__:
        return f"{task.__module__}.{task.__qualname__}"
    script = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    found = script.suffix == ".py" and script.stem.isidentifier() and script.resolve().parent == Path.cwd()
    # Without `if __name__ == "__main__"`, importing the script would start what it starts.
    if found and name == task.__qualname__ and "__name__" in script.read_text(encoding="utf-8"):
        return f"{script.stem}.{name}"
    return f"my_task.{name}  # with {name} moved to my_task.py"
