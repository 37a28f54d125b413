"""The checkpoints named ``last`` and ``best``, and their description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_warn

from lit_rl.callbacks.checkpointing import savers_of
from lit_rl.callbacks.run_folder import RunFolder, count_of
from lit_rl.errors import UsageError
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.loading.checkpoints import read_file, require_checkpoint
from lit_rl.training.strategy import META_FILE

NAMES = ("last", "best")
_LIGHTNINGS = ("hpc", "registry")
"""Checkpoints that Lightning finds by name."""


def resolve(name: Any, trainer: Any) -> Any:
    """Return the checkpoint asked for: a path, the last of a run's folder, or ``last`` or ``best`` of this run."""
    if name is None or name in _LIGHTNINGS or "://" in str(name):
        return name
    if name not in NAMES:
        found = checkpoint_in(Path(name))
    elif savers := savers_of(trainer):
        found = _target(name, savers[0].run, savers[0].monitor or "none")
    elif name == "best" or any(getattr(one, "save_last", False) for one in trainer.checkpoint_callbacks):
        return name
    else:  # Lightning would train from the start
        raise UsageError(
            f"ckpt_path {name} is a checkpoint of lit_rl.callbacks.Checkpointing, which this trainer does not have: "
            "give a path or the folder of a run"
        )
    require_checkpoint(str(found))
    if found != Path(name):
        best = name == "best" or Path(name).name == "best.ckpt"
        rank_zero_info(f"{name if name in NAMES else 'this'} checkpoint: {described(found, best=best)}")
    return str(found)


def checkpoint_in(path: Path, name: str = "last") -> Path:
    """Return the checkpoint that a path means, links followed: itself, or that of a name in a run's folder."""
    if path.name == "best.ckpt" and not path.exists() and path.parent.is_dir():
        path, name = path.parent, "best"
    if name == "last":
        path = path / "last.ckpt" if (path / "last.ckpt").exists() else path
        return path.resolve() if path.is_symlink() else path
    run = RunFolder(path)
    newest = run.checkpoints()[-1:]
    kept = _kept(newest[0]) if newest else {}
    return _target(name, run, (kept["monitor"] or "none") if "monitor" in kept else None)


def _target(name: str, run: RunFolder, monitor: str | None) -> Path:
    found = run.target(name)
    if found is None:
        raise FileNotFoundError(missing(name, run, monitor))
    return found


def doubt_weights(trainer: Any, module: Any) -> None:
    """Warn where a measurement without a checkpoint is of weights that no run trained."""
    if module.clock.count:
        return
    newest = [path for saver in savers_of(trainer) for path in saver.run.checkpoints()[-1:]]
    policy = module.policy
    if newest:
        rank_zero_warn(
            f"this measures the policy that the run began with, not {newest[0]}: to measure that, add --ckpt_path last "
            "(in Python ckpt_path='last')"
        )
    elif isinstance(policy, CausalLM) and policy.config is not None and policy.model is None:
        rank_zero_warn(
            "this measures random weights: give --ckpt_path (in Python ckpt_path) or model.policy.model to measure "
            "others"
        )


def described(path: Path, *, best: bool = False) -> str:
    """A checkpoint's path and count, for the best one also its monitored metric."""
    counted = f"{path.name.partition('_')[0]} {count_of(path)}" if count_of(path) >= 0 else ""
    kept = _kept(path) if best else {}
    metric = kept.get("monitor")
    value = (kept.get("metrics") or {}).get(metric)
    measured = f"{metric} = {value:.4g}" if value is not None else ""
    said = ", ".join(part for part in (counted, measured) if part)
    return f"{path} ({said})" if said else str(path)


def missing(name: str, run: RunFolder, monitor: str | None = None) -> str:
    """Explain in one line why a run has no such checkpoint, and what to do."""
    there = run.checkpoints()
    if not there:
        return f"no {name} checkpoint: {run.path} holds none; train first, or give the folder of another run"
    why = f"none of the {len(there)} checkpoints in {run.path} was validated"
    if monitor == "none":
        why = f"the Checkpointing of {run.path} has no monitor"
    elif monitor:
        why += f" with {monitor}"
    return (
        f"no {name} checkpoint: {why}; set Checkpointing's monitor, such as val/greedy/pass@1, and train until a "
        f"validation, or take the last ({there[-1].name})"
    )


def _kept(path: Path) -> dict[str, Any]:
    """Return the contents of a checkpoint without its weights."""
    if path.is_dir():
        content: Any = torch.load(path / META_FILE, map_location="cpu", weights_only=True)
        return dict(content)
    return read_file(path, lazily=True)
