"""The lines that describe a run at its start, and the results of a validation at its end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.loggers import TensorBoardLogger

from lit_rl.reports.improvement import format_share_with_interval

Rows = list[tuple[str, str]]
"""Pairs of a label and the text next to it, one per line."""

_COUNT = "/num_problems"
_KNOWN = (
    "pass@",
    "verdict/",
    "execution/",
    "completion/",
    "reward/",
    "turns/",
    "num_problems",
    "median_program_bytes",
)
"""Beginnings of the names of a sampling's metrics that its line shows, or that only the logs have."""


def run_header_rows(trainer: pl.Trainer, module: Any) -> Rows:
    """Return rows on the method, policy and task, the devices, the batch of a step, and where the run logs."""
    task, ranks = trainer.datamodule, trainer.world_size  # type: ignore[attr-defined]
    on = f" on {task.name}" if hasattr(task, "name") else ""
    device = f"{trainer.accelerator.__class__.__name__.removesuffix('Accelerator').lower()} x {ranks}"
    what = f"{version('lit-rl')}   {type(module).__name__}{on}   {device}   seed {module.seed}"
    rows = [("lit-rl", what), ("policy", describe_policy_size(module))]
    if batch := getattr(task, "batch_size", 0) * ranks:
        samples = module.sampling and module.sampling.num_samples
        each = f" x {samples} = {batch * samples} completions a rollout" if samples else " an update"
        rows.append(("batch", f"{batch} problems{each}"))
    return [*rows, *tensorboard_rows(trainer)]


def describe_policy_size(module: Any) -> str:
    """Return the policy's source and size as text."""
    parameters = list(module.policy.parameters())
    total, trained = (sum(p.numel() for p in some) for some in (parameters, [p for p in parameters if p.requires_grad]))
    source = getattr(module.policy, "source", None) or type(module.policy).__name__
    share = "" if trained == total else f", {_short_number(trained)} of them trained"
    return f"{source}   {_short_number(total)} parameters{share}"


def tensorboard_rows(trainer: pl.Trainer) -> Rows:
    """Return TensorBoard's folder and command, if the run logs there; communicates with no other rank."""
    folders = [Path(logger.log_dir) for logger in tensorboard_loggers(trainer)][:1]
    return [
        ("logs", f"{relative_path(one)}   tensorboard --logdir {quoted_relative_path(one.parent)}") for one in folders
    ]


def tensorboard_loggers(trainer: pl.Trainer) -> list[TensorBoardLogger]:
    """Return the run's TensorBoard loggers."""
    return [logger for logger in trainer.loggers if isinstance(logger, TensorBoardLogger)]


def validation_summary_rows(trainer: pl.Trainer, module: Any, metrics: Mapping[str, float]) -> Rows:
    """Return rows with the policy, a line for each sampling, other metrics, and where the numbers are."""
    rows = [("policy", describe_policy_size(module))]
    if trainer.ckpt_path:
        rows.append(("checkpoint", str(trainer.ckpt_path)))
    prefixes = [name.removesuffix(_COUNT) for name in metrics if name.endswith(_COUNT)]
    rows += [(short_metric_name(prefix), sampling_result_line(module, prefix, metrics)) for prefix in prefixes]
    in_lines = tuple(f"{prefix}/{name}" for prefix in prefixes for name in _KNOWN)
    rows += [
        (short_metric_name(name), f"{value:.4g}") for name, value in metrics.items() if not name.startswith(in_lines)
    ]
    return [*rows, *tensorboard_rows(trainer)]


def sampling_result_line(module: Any, prefix: str, metrics: Mapping[str, float]) -> str:
    """Return pass@k with its 95% interval, mean reward, number of problems, and how programs ended."""
    own = {name.removeprefix(f"{prefix}/"): v for name, v in metrics.items() if name.startswith(f"{prefix}/")}
    passes = [name for name in own if name.startswith("pass@") and "/" not in name]
    parts = [f"{name} {format_share_with_interval(own[name], own['num_problems'])}" for name in passes]
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


def short_metric_name(name: str) -> str:
    """Return a short name, such as ``greedy pass@1`` for ``val/greedy/pass@1``."""
    return name.removeprefix("val/").replace("/", " ")


def _short_number(count: int) -> str:
    """Return a short text for a number, such as ``1.0 M`` for 1,003,520."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)


def relative_path(path: Path) -> str:
    """Return a path relative to the working directory if the path is below that; otherwise unchanged."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else str(path)


def quoted_relative_path(path: Path) -> str:
    """Return a path relative to the working directory, quoted for a shell."""
    return shlex.quote(relative_path(path))
