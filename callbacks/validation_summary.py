"""What a validation found, in one line per sampling, and where more of it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import lightning.pytorch as pl

from lit_rl.callbacks.completion_log import CompletionLog
from lit_rl.callbacks.run_summary import board_folder, logs_of, policy_of, relative
from lit_rl.callbacks.run_view import Rows, short_name, verdicts_of

_COUNT = "/num_problems"
_TOLD = re.compile(r"(pass@|verdict/|execution/|completion/|reward/|turns/|num_problems|median_program_bytes).*")
"""Metrics of a sampling that its line tells of, or leaves to the logs."""


def validation_summary(trainer: pl.Trainer, module: Any, metrics: Mapping[str, float]) -> Rows:
    """The policy, a line for each sampling, other metrics, where the numbers and samples are.

    Args:
        trainer: that validated, or tested.
        module: that was measured.
        metrics: of the validation.
    """
    errors: dict[str, float] = {}
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        errors |= getattr(callback, "errors", {})
    rows = [("policy", policy_of(module))]
    if trainer.ckpt_path:
        rows.append(("checkpoint", str(trainer.ckpt_path)))
    prefixes = [name.removesuffix(_COUNT) for name in metrics if name.endswith(_COUNT)]
    rows += [(short_name(prefix), line_of(module, prefix, metrics, errors)) for prefix in prefixes]
    rows += [(short_name(name), f"{value:.4g}") for name, value in metrics.items() if not _is_told(name, prefixes)]
    return [*rows, *logs_of(trainer), *samples_of(trainer)]


def line_of(module: Any, prefix: str, metrics: Mapping[str, float], errors: Mapping[str, float]) -> str:
    """pass@k with standard errors, mean reward, how many problems, and how programs ended.

    Args:
        module: has the samplings.
        prefix: of the sampling's metrics, such as ``val/greedy``.
        metrics: of the validation.
        errors: standard error of those that have one.
    """
    own = {name.removeprefix(f"{prefix}/"): value for name, value in metrics.items() if name.startswith(f"{prefix}/")}
    parts = []
    for name in (name for name in own if name.startswith("pass@") and "/" not in name):
        turns = [own[key] for key in own if key.startswith(f"{name}/turn_")]
        after = f" (turn by turn {' '.join(f'{value:.3f}' for value in turns)})" if turns else ""
        error = errors.get(f"{prefix}/{name}")
        parts.append(f"{name} {own[name]:.3f}" + ("" if error is None else f" ± {error:.3f}") + after)
    if "reward/mean" in own:
        parts.append(f"reward {own['reward/mean']:.3f}")
    samples = module.validation_sampling[prefix.rpartition("/")[2]].num_samples
    parts.append(f"{own['num_problems']:.0f} problems" + (f" x {samples}" if samples > 1 else ""))
    parts.append(verdicts_of(own, most=None))
    return "   ".join(part for part in parts if part)


def samples_of(trainer: pl.Trainer) -> Rows:
    """Where completions can be read."""
    logs = [one for one in trainer.callbacks if isinstance(one, CompletionLog)]  # type: ignore[attr-defined]
    if not logs or not trainer.loggers:
        return [("samples", "not kept: lit_rl.callbacks.CompletionLog and a logger keep some")]
    folder = board_folder(trainer)
    where = "among the tables of the logger" if folder is None else f"{relative(folder)}, TEXT in TensorBoard"
    return [("samples", f"of the first {logs[0].num_problems} problems of each task: {where}")]


def _is_told(name: str, prefixes: list[str]) -> bool:
    return any(_TOLD.fullmatch(name.removeprefix(f"{prefix}/")) for prefix in prefixes if name.startswith(f"{prefix}/"))
