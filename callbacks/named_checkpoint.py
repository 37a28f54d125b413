"""The checkpoint that a path, ``last`` or ``best`` means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_warn

from lit_rl.callbacks.checkpointing import savers_of
from lit_rl.callbacks.run_folder import RunFolder
from lit_rl.errors import UsageError
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.loading.checkpoints import require_checkpoint


def resolve(name: Any, trainer: Any) -> Any:
    """Return the checkpoint asked for: a path, the last of a run's folder, or ``last`` or ``best`` of this run.

    ``None``, remote paths and the names of Lightning's own checkpoints stay as they are.
    """
    if name in (None, "hpc", "registry") or "://" in str(name):
        return name
    if name not in ("last", "best"):
        found = checkpoint_in(Path(name))
    elif savers := savers_of(trainer):
        found = checkpoint_in(savers[0].run.path, name)
    elif name == "best" or any(getattr(one, "save_last", False) for one in trainer.checkpoint_callbacks):
        return name
    else:  # Lightning would train from the start
        raise UsageError(
            f"ckpt_path {name} is a checkpoint of lit_rl.callbacks.Checkpointing, which this trainer does not have: "
            "give a path or the folder of a run"
        )
    require_checkpoint(str(found))
    if found != Path(name):
        rank_zero_info(f"{name} is the checkpoint {found}")
    return str(found)


def checkpoint_in(path: Path, name: str = "last") -> Path:
    """Return the checkpoint that a path means, links followed: itself, or that of a name in a run's folder."""
    if path.name == "best.ckpt" and not path.exists():
        path, name = path.parent, "best"
    if name == "last":
        path = path / "last.ckpt" if (path / "last.ckpt").exists() else path
        return path.resolve() if path.is_symlink() else path
    run = RunFolder(path)
    if found := run.target(name):
        return found
    there = run.checkpoints()
    remedy = f"set Checkpointing's monitor and train until a validation, or take {there[-1].name}" if there else ""
    raise FileNotFoundError(f"no {name} checkpoint in {path}: {remedy or 'train first, or give the folder of a run'}")


def warn_of_weights(trainer: Any, module: Any) -> None:
    """Warn where a measurement without a checkpoint is of weights that no run trained."""
    if module.clock.count:
        return
    newest = [path for saver in savers_of(trainer) for path in saver.run.checkpoints()[-1:]]
    policy = module.policy
    if newest:
        rank_zero_warn(f"this measures the initial policy, not {newest[0]}: to measure that, add --ckpt_path last")
    elif isinstance(policy, CausalLM) and policy.config is not None and policy.model is None:
        rank_zero_warn("this measures random weights: give --ckpt_path or model.policy.model to measure others")
