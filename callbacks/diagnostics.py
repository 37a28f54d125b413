"""Diagnose from a run's metrics why the run does not learn, one line per cause."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.cli import SaveConfigCallback
from torch import Tensor

from lit_rl.callbacks.checkpointing import last_validation_metrics
from lit_rl.reports.diagnosis import RULES, Diagnosis, LastRollout, MetricHistory, Rule, RunSettings
from lit_rl.reports.diagnosis.failures import rows_cut_by_stop_string
from lit_rl.reports.diagnosis.history import CUT, GROUPS, HIGHEST, LAG, LOWEST, MOVED, REWARD, ROWS, WEIGHT_SIZE
from lit_rl.reports.run_summary import tensorboard_loggers
from lit_rl.rollout import FinishedRollout
from lit_rl.signature_check import ArgumentChecks, PositiveInt

_log = logging.getLogger("lit_rl.diagnostics")
_NUM_TENSORS, _NUM_WEIGHTS = 16, 256


class Diagnostics(pl.Callback, ArgumentChecks):
    """Report likely causes of a run that does not learn, each in one line with a remedy.

    Checks the rules of :mod:`lit_rl.reports.diagnosis` after each rollout and each validation. After a report, a rule
    is silent until its condition has been clear for ``patience`` rollouts. If several rules hold, only the first one
    reports: causes come before symptoms. A report goes to the log (``lit_rl.diagnostics``), to TensorBoard's TEXT and
    into ``metrics.jsonl``, which ``lit-rl report`` and ``show`` read. The diagnosis stays in :attr:`found`, and in
    :attr:`open_diagnoses` as long as it holds. The callback never changes or stops a run. docs/monitoring.md has an
    entry for each rule.

    Args:
        patience: number of rollouts that rules average over.
        rules: your own rules, checked after those of the package.
        leave_out: names of rules to skip.
    """

    def __init__(self, patience: PositiveInt = 10, rules: Sequence[Rule] = (), leave_out: Sequence[str] = ()) -> None:
        self.patience = patience
        self.rules = {rule.__name__: rule for rule in (*RULES, *rules) if rule.__name__ not in leave_out}
        self._reset()

    def _reset(self) -> None:
        self.found: list[Diagnosis] = []
        self._metrics = MetricHistory(self.patience)
        self._held: dict[str, int] = {}  # by reported rule, the last rollout in which its condition held
        self._last: LastRollout | None = None
        self._version: int | None = None  # of the weights that the next rollout should be sampled with
        self._weights = torch.zeros(0)

    @property
    def open_diagnoses(self) -> list[Diagnosis]:
        """Diagnoses that still hold, in the order in which they were made."""
        last = {one.rule: one for one in self.found}
        return [one for one in self.found if one.rule in self._held and one is last[one.rule]]

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._settings, self._weights = gather_run_settings(trainer, pl_module), copy_some_weights(pl_module)

    def on_rollout_end(self, trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
        rollout, experience = finished.rollout, finished.experience
        rows, num_rows = rollout.completions, len(rollout.completions)
        numbers = {
            ROWS: num_rows,
            GROUPS: len(rows.rows_by_group()),
            CUT: len(rows_cut_by_stop_string(rollout)) / max(1, num_rows),
        }
        known = finished.rewards.rewards[finished.rewards.valid].tolist()
        if known:
            numbers |= {HIGHEST: max(known), LOWEST: min(known)}
        due = self._version or 0
        numbers[LAG] = sum(max(0, due - one) for one in rows.weights_versions) / max(1, num_rows)
        before, self._weights, self._version = self._weights, copy_some_weights(module), module.policy.version
        if len(before):
            numbers |= {WEIGHT_SIZE: _root_mean_square(self._weights), MOVED: _root_mean_square(self._weights - before)}
        self._metrics.add(module.clock.count, {**finished.metrics, **numbers})
        logprobs = module.trace.recorded.get("logprobs") if experience.old_logprobs is None else experience.old_logprobs
        self._last = LastRollout(rollout, finished.rewards, logprobs, module.policy.codec.decode)
        self._apply_rules(trainer, self._last)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        reward = self._metrics.mean_with_error(REWARD)
        if trainer.state.fn == "fit" and self._last is not None and reward is not None:
            earned = {REWARD: reward.mean, "reward/error": reward.error}
            self._metrics.add_validation(last_validation_metrics(trainer) | earned)
            self._apply_rules(trainer, self._last)

    def _apply_rules(self, trainer: pl.Trainer, last: LastRollout) -> None:
        if not trainer.is_global_zero:
            return
        metrics = self._metrics
        rules = self.rules if metrics.is_ready else {n: rule for n, rule in self.rules.items() if n == "not_finite"}
        found = {name: text for name, rule in rules.items() if (text := rule(metrics, last, self._settings))}
        self._held |= dict.fromkeys(found.keys() & self._held.keys(), metrics.rollout)
        for name in [one for one, held in self._held.items() if metrics.rollout - held >= self.patience]:
            del self._held[name]
            for record in find_run_record_callbacks(trainer):
                record.append_diagnosis(Diagnosis(metrics.rollout, name, "", ended=metrics.rollout))
        name = next((one for one in rules if one in found or one in self._held), "")
        if name not in found or name in self._held:
            return
        self._held[name] = metrics.rollout
        message, _, details = found[name].partition("\n")
        if self.rules[name] in RULES:
            message += f" (lit-rl docs monitoring#{name})"
        diagnosis = Diagnosis(metrics.rollout, name, message, details)
        self.found.append(diagnosis)
        _log.warning("rollout %d: %s", diagnosis.rollout, "\n".join(filter(None, [message, details])))
        for logger in tensorboard_loggers(trainer):
            shown = f"{message}\n\n```\n{details}\n```" if details else message
            logger.experiment.add_text(f"diagnosis/{name}", shown, diagnosis.rollout)
        for record in find_run_record_callbacks(trainer):
            record.append_diagnosis(diagnosis)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if stage == "fit":
            self._reset()

    def state_dict(self) -> dict[str, Any]:
        found = [tuple(one) for one in self.found]
        return {"metrics": self._metrics.state_dict(), "held": dict(self._held), "found": found}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._metrics.load_state_dict(state_dict["metrics"])
        self._held = dict(state_dict["held"])
        self.found = [Diagnosis(*one) for one in state_dict["found"]]


def open_diagnoses(trainer: Any) -> list[Diagnosis]:
    """Return the diagnoses of a run that still hold."""
    return [
        one for callback in trainer.callbacks if isinstance(callback, Diagnostics) for one in callback.open_diagnoses
    ]


def find_run_record_callbacks(trainer: Any) -> list[Any]:
    """Return the callbacks that write the run's plain files, :class:`RunRecord`."""
    return [callback for callback in trainer.callbacks if hasattr(callback, "append_diagnosis")]


def gather_run_settings(trainer: Any, module: Any) -> RunSettings:
    """Return settings that the rules compare, and commands that messages name; all ranks call this."""
    logs, task, commands = trainer.log_dir, getattr(trainer, "datamodule", None), dict[str, str]()
    folder = next((one.folder or logs for one in find_run_record_callbacks(trainer)), None)
    if folder:
        commands["show"] = f"lit-rl show {shlex.quote(str(folder))}"
    config = f"--config {shlex.quote(str(Path(logs or '.') / 'config.yaml'))}"
    saved = any(isinstance(one, SaveConfigCallback) for one in trainer.callbacks)
    if saved:
        commands["fit"] = f"lit-rl fit {config} --run_dir NEW"
    if task is not None:
        kind = type(task)
        place = "my_task" if kind.__module__ == "__main__" else kind.__module__
        commands["check_data"] = f"lit-rl check-data {config if saved else f'--data {place}.{kind.__qualname__}'}"
        commands["stop_strings"] = f"stop_strings are set where {kind.__qualname__}.load_problems makes its problems"
        if getattr(task, "stop_strings", None) is not None:
            commands["stop_strings"] = "data.stop_strings sets them"
    groups = trainer.optimizers[0].param_groups if trainer.optimizers else [{}]
    learning = [p for p in module.policy.parameters() if p.requires_grad]
    model, codec = getattr(module.policy, "model", None), module.policy.codec
    options = vars(getattr(model, "config", object)) if model is not None else {}
    tokens = getattr(getattr(codec, "tokenizer", None), "added_tokens_decoder", {})
    collect, sampling, rewards = module.collector.settings, module.sampling, getattr(module, "rewards", None)
    return RunSettings(
        **commands,
        optimizer={name: value for name, value in groups[0].items() if name != "params"},
        steps=module.update.steps_per_rollout,
        clip_norm=module.update.gradient_clip_norm,
        num_weights=sum(p.numel() for p in learning),
        staleness=collect.staleness,
        filtered=bool(sampling.filters),
        precision=f"precision {trainer.precision}, weights in {', '.join({str(p.dtype) for p in learning})}",
        dropout=[name for name, value in options.items() if ("drop" in name) and value],
        term_weights={} if rewards is None else {one.name: one.weight for one in rewards.terms},
        special_tokens={n: str(one) for n, one in tokens.items() if one.special and n not in codec.eos_ids},
    )


def copy_some_weights(module: Any) -> Tensor:
    """Return [W] some of this rank's trained weights on the CPU, enough to see how far weights move.

    The weights come from matrices if there are any: weights of norms are about 1, and would hide how far others move.
    """
    learning = [p for p in module.policy.parameters() if p.requires_grad]
    learning = [p for p in learning if p.ndim > 1] or learning
    chosen = []
    for parameter in learning[:: max(1, len(learning) // _NUM_TENSORS)]:
        local: Any = parameter.detach()
        local = local.to_local() if hasattr(local, "to_local") else local
        chosen.append(local.flatten()[:_NUM_WEIGHTS].double().cpu())
    return torch.cat(chosen) if chosen else torch.zeros(0, dtype=torch.float64)


def _root_mean_square(weights: Tensor) -> float:
    return float(weights.square().mean().sqrt())
