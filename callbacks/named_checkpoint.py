"""The checkpoints named ``last`` and ``best``, and their description."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.callbacks import Callback
from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_warn

from lit_rl.callbacks.checkpointing import Checkpointing, savers_of
from lit_rl.callbacks.run_folder import RunFolder, count_of
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.loading.checkpoints import read_file
from lit_rl.training.strategy import META_FILE

NAMES = ("last", "best")


def find_named(name: str, callbacks: Iterable[Callback]) -> Path | None:
    """The checkpoint of a trainer's :class:`Checkpointing` that a name means; one line says which it is.

    Args:
        name: ``last`` or ``best``.
        callbacks: of the trainer.

    Returns:
        Its path, links followed; ``None`` if no callback is a :class:`Checkpointing`.

    Raises:
        FileNotFoundError: there is no such checkpoint.
    """
    savers = [callback for callback in callbacks if isinstance(callback, Checkpointing)]
    if not savers:
        return None
    found = savers[0].run.target(name)
    if found is None:
        raise FileNotFoundError(missing(name, savers[0].run, savers[0].monitor or "none"))
    rank_zero_info(f"{name} checkpoint: {described(found, best=name == 'best')}")
    return found


def find_in_folder(name: str, folder: Path) -> Path:
    """The checkpoint that a name means in a run's folder, for exports.

    Raises:
        FileNotFoundError: there is no such checkpoint.
    """
    run = RunFolder(folder)
    found = run.target(name)
    if found is None:
        newest = run.checkpoints()[-1:]
        kept = _kept(newest[0]) if newest else {}
        raise FileNotFoundError(missing(name, run, (kept["monitor"] or "none") if "monitor" in kept else None))
    return found


def doubt_weights(trainer: Any, module: Any) -> None:
    """Warn where a measurement without a checkpoint is of weights that no run trained.

    Args:
        trainer: that measures; the folder of its :class:`Checkpointing` may hold what a run trained.
        module: that is measured; one that was trained in this process is in no doubt.
    """
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
    """A checkpoint's path and count, for the best one also its monitored metric.

    Args:
        path: of a whole checkpoint.
        best: whether it is the best: in others the metric may be that of an earlier rollout.
    """
    counted = f"{path.name.partition('_')[0]} {count_of(path)}" if count_of(path) >= 0 else ""
    kept = _kept(path) if best else {}
    metric = kept.get("monitor")
    value = (kept.get("metrics") or {}).get(metric)
    measured = f"{metric} = {value:.4g}" if value is not None else ""
    said = ", ".join(part for part in (counted, measured) if part)
    return f"{path} ({said})" if said else str(path)


def missing(name: str, run: RunFolder, monitor: str | None = None) -> str:
    """Explain in one line why a run has no such checkpoint, and what to do.

    Args:
        name: ``last`` or ``best``.
        run: the run's folder.
        monitor: what says which is the best, ``none`` for nothing; by default unknown.
    """
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
