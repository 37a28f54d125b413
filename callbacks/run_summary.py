"""The first lines of a run, which describe it, and the last: results of training or validation, the next commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import lightning.pytorch as pl

from lit_rl.callbacks.checkpointing import savers_of
from lit_rl.callbacks.completion_log import CompletionLog
from lit_rl.callbacks.diagnostics import open_diagnoses
from lit_rl.callbacks.run_record import RunRecord
from lit_rl.callbacks.tensorboard_layout import boards_of
from lit_rl.models.causal_lm import CausalLM
from lit_rl.reports.learned import with_interval
from lit_rl.rollout.records import TrainedModule

Rows = list[tuple[str, str]]
"""Pairs of a label and the text next to it, one per line."""

ENTRY = "lit-rl docs monitoring#when-it-does-not-learn"
"""Prints what to do about a diagnosis."""

_COUNT = "/num_problems"
_TOLD = ("pass@", "verdict/", "execution/", "completion/", "reward/", "turns/", "num_problems", "median_program_bytes")
"""Beginnings of metrics of a sampling that its line tells of, or leaves to the logs."""


def head_of(trainer: pl.Trainer, module: TrainedModule) -> Rows:
    """The method, policy and task, the devices, the batch of a rollout or update, and where the run logs."""
    task, ranks = trainer.datamodule, trainer.world_size  # type: ignore[attr-defined]
    on = f" on {task.name}" if hasattr(task, "name") else ""
    device = f"{trainer.accelerator.__class__.__name__.removesuffix('Accelerator').lower()} x {ranks}"
    what = f"{version('lit-rl')}   {type(module).__name__}{on}   {device}   seed {module.seed}"
    rows = [("lit-rl", what), ("policy", policy_of(module))]
    batch, samples = getattr(task, "batch_size", None), module.sampling and module.sampling.num_samples
    if batch is not None and samples is None:
        rows.append(("batch", f"{batch * ranks} problems an update"))
    elif batch is not None and samples is not None:
        rows.append(
            ("batch", f"{batch * ranks} problems x {samples} = {batch * ranks * samples} completions a rollout")
        )
    return [*rows, *logs_of(trainer)]


def policy_of(module: TrainedModule) -> str:
    """The policy's source and size."""
    parameters = list(module.policy.parameters())
    total, trained = (sum(p.numel() for p in some) for some in (parameters, [p for p in parameters if p.requires_grad]))
    source = getattr(module.policy, "source", None) or type(module.policy).__name__
    share = "" if trained == total else f", {short_number(trained)} of them trained"
    return f"{source}   {short_number(total)} parameters{share}"


def logs_of(trainer: pl.Trainer) -> Rows:
    """Return TensorBoard's folder and command, if the run logs there."""
    folder = board_folder(trainer)
    if folder is None:
        return []
    return [("logs", f"{relative(folder)}   tensorboard --logdir {quoted(folder.parent)}")]


def summary_of(trainer: pl.Trainer, module: TrainedModule, earned: bool) -> Rows:
    """Summarize what a run leaves: diagnoses, best and last checkpoint, and commands to use them."""
    found = open_diagnoses(trainer)
    rows = [("diagnosis", one.line()) for one in found]
    for saver in savers_of(trainer)[:1]:
        value = "" if saver.best_value is None else f"   {saver.monitor} {saver.best_value:.3f}"
        kept = [(name, saver.run.target(name), more) for name, more in (("best", value), ("last", ""))]
        rows += [(name, f"{relative(saver.run.path / path.name)}{more}") for name, path, more in kept if path]
    return [*rows, *logs_of(trainer), *next_of(trainer, module, bool(found) or not earned)]


def next_of(trainer: pl.Trainer, module: TrainedModule, doubt: bool = False) -> Rows:
    """Commands for this run, each ready to be copied."""
    commands, export = [], []
    for saver in savers_of(trainer)[:1]:
        whole = isinstance(module.policy, CausalLM) and bool(saver.config or module.policy.arguments())
        if whole and saver.run.target("last") is not None:  # a checkpoint that an export can do with alone
            export = [f"lit-rl export {quoted(saver.run.path)} {quoted(saver.run.path / 'model')}"]
    records = [one.path for one in trainer.callbacks if isinstance(one, RunRecord)]  # type: ignore[attr-defined]
    folder, recorded = board_folder(trainer), next(filter(None, records), None)
    if doubt and recorded is not None and module.clock.unit == "rollout":
        commands.append(f"lit-rl show {quoted(recorded)}")
    if folder is not None or (doubt and recorded is not None):
        commands.append(f"lit-rl report {quoted(folder or recorded or Path())}")
    commands = [*commands, ENTRY, *export] if doubt else [*export, *commands]
    return [("next" if i == 0 else "", command) for i, command in enumerate(commands)]


def board_folder(trainer: pl.Trainer) -> Path | None:
    """The event-file folder of the run's TensorBoard logger, if it has one; communicates with no other rank."""
    return next((Path(logger.log_dir) for logger in boards_of(trainer)), None)


def relative(path: Path) -> str:
    """A path relative to the working directory if it is below it, else unchanged."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(path)


def quoted(path: Path) -> str:
    """A path quoted for a shell."""
    return shlex.quote(relative(path))


def short_name(name: str) -> str:
    """``greedy pass@1`` of ``val/greedy/pass@1``."""
    return name.removeprefix("val/").replace("/", " ")


def short_number(count: int) -> str:
    """``1.0 M`` of 1,003,520."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)


# -- validation -----------------------------------------------------------------------------------------------


def validation_summary(trainer: pl.Trainer, module: TrainedModule, metrics: Mapping[str, float]) -> Rows:
    """The policy, a line for each sampling, other metrics, where the numbers and samples are."""
    rows = [("policy", policy_of(module))]
    if trainer.ckpt_path:
        rows.append(("checkpoint", str(trainer.ckpt_path)))
    prefixes = [name.removesuffix(_COUNT) for name in metrics if name.endswith(_COUNT)]
    rows += [(short_name(prefix), line_of(module, prefix, metrics)) for prefix in prefixes]
    told = tuple(f"{prefix}/{name}" for prefix in prefixes for name in _TOLD)
    rows += [(short_name(name), f"{value:.4g}") for name, value in metrics.items() if not name.startswith(told)]
    rows += logs_of(trainer)
    logs = [one for one in trainer.callbacks if isinstance(one, CompletionLog)]  # type: ignore[attr-defined]
    if not logs or not trainer.loggers:
        return [*rows, ("samples", "not kept: lit_rl.callbacks.CompletionLog and a logger keep some")]
    folder = board_folder(trainer)
    where = "among the tables of the logger" if folder is None else f"{relative(folder)}, TEXT in TensorBoard"
    return [*rows, ("samples", f"of the first {logs[0].num_problems} problems of each task: {where}")]


def line_of(module: TrainedModule, prefix: str, metrics: Mapping[str, float]) -> str:
    """pass@k with its 95% interval, mean reward, how many problems, and how programs ended."""
    own = {name.removeprefix(f"{prefix}/"): v for name, v in metrics.items() if name.startswith(f"{prefix}/")}
    parts = []
    for name in (name for name in own if name.startswith("pass@") and "/" not in name):
        turns = [own[key] for key in own if key.startswith(f"{name}/turn_")]
        after = f" (turn by turn {' '.join(f'{value:.3f}' for value in turns)})" if turns else ""
        parts.append(f"{name} {with_interval(own[name], own['num_problems'])}{after}")
    if "reward/mean" in own:
        parts.append(f"reward {own['reward/mean']:.3f}")
    samples = module.validation_sampling[prefix.rpartition("/")[2]].num_samples
    parts.append(f"{own['num_problems']:.0f} problems" + (f" x {samples}" if samples > 1 else ""))
    ended = {
        name.removeprefix("verdict/").removesuffix("_fraction").replace("_", " "): value
        for name, value in own.items()
        if name.startswith("verdict/") and value > 0
    }
    parts.append("  ".join(f"{name} {ended[name]:.0%}" for name in sorted(ended, key=lambda name: -ended[name])))
    return "   ".join(part for part in parts if part)
