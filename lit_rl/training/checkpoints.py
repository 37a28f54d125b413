"""Checkpoints on disk: their names in a run's folder, the checkpoint that a path means, its content and position.

Lightning resumes at exactly the rollout of a checkpoint only in some cases. It tells from several counters whether a
checkpoint was made before, at or after the end of an epoch. After a run that itself resumed, that ended by
``max_rollouts``, or that does not use all batches of an epoch, those counters fit none of its cases, and the finished
epoch is repeated. The loader of problems counts its batches too. So the counters are rewritten before Lightning reads
them, as one of the two cases that Lightning handles well: in the middle of an epoch, or before an epoch.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, ClassVar

import lightning.pytorch as pl
import torch
from lightning_utilities.core.rank_zero import rank_zero_warn
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from lit_rl.errors import LitRLError, UsageError
from lit_rl.training.strategy import META_FILE

_CHECKPOINT = re.compile(r"(?:rollout|update)_(\d+)\.ckpt")
_MANIFEST = "manifest.json"


class RunIsLiveError(LitRLError, RuntimeError):
    """Another process is training in this folder."""


class RunFolder:
    """Checkpoints of one run, named by what was counted, and two links: ``last.ckpt`` and ``best.ckpt``.

    A checkpoint (a file, or a folder of shards) is written under a name that begins with a dot, flushed to the disk,
    and renamed: under its own name it is always whole.

    Args:
        path: the folder; made when first written to.
    """

    _held: ClassVar[set[Path]] = set()

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser().absolute()
        self._lock: int | None = None

    # -- one run at a time ---------------------------------------------------------------------------------

    def lock(self) -> None:
        """Claim the folder for this process; the claim ends with the process, however it ends."""
        if self._lock is not None:
            return
        if self.path in self._held:  # before the file is opened: closing it would give up this process's claim
            raise RunIsLiveError(f"{self.path} belongs to another run of this process: give this run another folder")
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / "run.lock"
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            # A record lock belongs to the process: children do not inherit it, and a killed run leaves none.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            holder = _read_json(file)
            os.close(descriptor)
            raise RunIsLiveError(
                f"{self.path} belongs to a run that is alive (process {holder.get('pid', '?')} on "
                f"{holder.get('host', '?')}): wait for that run, end it, or give this run another folder"
            ) from None
        except OSError as error:
            rank_zero_warn(f"file locks do not work in {self.path} ({error.strerror}): a second run would go unnoticed")
        self._held.add(self.path)
        self._lock = descriptor
        job = os.environ.get("SLURM_JOB_ID")
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "job": job}).encode(), 0)

    def unlock(self) -> None:
        """Release the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._held.discard(self.path)
            self._lock = None

    # -- contents ------------------------------------------------------------------------------------------

    def checkpoints(self) -> list[Path]:
        """Return the checkpoints under their own names, oldest first."""
        found = [(_CHECKPOINT.fullmatch(p.name), p) for p in self.path.glob("*.ckpt") if not p.is_symlink()]
        return [path for _, path in sorted((int(match[1]), path) for match, path in found if match)]

    def newest_whole_checkpoint(self) -> Path | None:
        """Return the newest whole checkpoint; warn about each newer checkpoint that is broken."""
        for path in reversed(self.checkpoints()):
            fault = checkpoint_fault(path)
            if fault is None:
                return path
            rank_zero_warn(f"checkpoint {path} is broken ({fault}): using the one before it")
        return None

    def remove_or_rename_broken(self) -> None:
        """Clean up after a run that died: remove half-written checkpoints, rename broken ones."""
        for part in self.path.glob(".*.ckpt.part"):
            remove_path(part)
        for path in self.checkpoints():
            if checkpoint_fault(path) is not None:
                aside = path.with_name(path.name + ".broken")
                remove_path(aside)
                path.rename(aside)

    # -- writing -------------------------------------------------------------------------------------------

    def part_and_final_paths(self, name: str) -> tuple[Path, Path]:
        """Return the path to write a checkpoint to, and its final path once it is complete."""
        return self.path / f".{name}.ckpt.part", self.path / f"{name}.ckpt"

    def commit_checkpoint(self, part: Path, final: Path) -> None:
        """Flush a written checkpoint to the disk and give it its name."""
        files = [part]
        if part.is_dir():
            shards = sorted(p for p in part.rglob("*") if p.is_file())
            (part / _MANIFEST).write_text(json.dumps({str(p.relative_to(part)): p.stat().st_size for p in shards}))
            files = [*shards, part / _MANIFEST, part]
        for path in files:
            _flush_to_disk(path)
        remove_path(final)
        part.rename(final)
        _flush_to_disk(self.path)

    def link_checkpoint(self, name: str, target: Path) -> None:
        """Point ``NAME.ckpt`` to a checkpoint, in one step."""
        fresh = self.path / f".{name}.link"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(target.name)
        os.replace(fresh, self.path / f"{name}.ckpt")

    def link_target(self, name: str) -> Path | None:
        """Return the checkpoint that a link points to, if the checkpoint exists."""
        link = self.path / f"{name}.ckpt"
        return link.resolve() if link.is_symlink() and link.exists() else None

    def prune_checkpoints(self, keep: int) -> None:
        """Remove all but the newest ``keep`` checkpoints and the best one."""
        best = self.link_target("best")
        for path in self.checkpoints()[:-keep]:
            if best is None or path.name != best.name:
                remove_path(path)

    # -- notes ---------------------------------------------------------------------------------------------

    def read_notes(self) -> dict[str, Any]:
        """Read the notes that one start of the run leaves for the next."""
        return _read_json(self.path / "run.json")

    def add_notes(self, **values: Any) -> None:
        """Add to the notes."""
        fresh = self.path / ".run.json"
        fresh.write_text(json.dumps({**self.read_notes(), **values}))
        os.replace(fresh, self.path / "run.json")


def checkpoint_fault(path: Path) -> str | None:
    """Return the fault of a checkpoint on disk; ``None`` if it is whole."""
    try:
        if path.is_dir():
            sizes = _read_json(path / _MANIFEST)
            for name, size in sizes.items():
                if not (path / name).exists() or (path / name).stat().st_size != size:
                    return f"{name} does not have its {size} bytes"
            return None if sizes else f"no {_MANIFEST}"
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
            return None if bad is None else f"{bad} does not match its checksum"
    except zipfile.BadZipFile:
        return "incomplete, or not a checkpoint at all"
    except OSError as error:
        return str(error)


def remove_path(path: Path) -> None:
    """Remove a file or a folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _read_json(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text())
        if isinstance(found, dict):
            return found
    return {}


def _flush_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def resolve_checkpoint_path(path: Path, name: str = "last") -> Path:
    """Return the checkpoint that a path means, with links followed: the path itself, or ``name`` in a run's folder."""
    if path.name == "best.ckpt" and not path.exists():
        path, name = path.parent, "best"
    if name == "last":
        path = path / "last.ckpt" if (path / "last.ckpt").exists() else path
        return path.resolve() if path.is_symlink() else path
    run = RunFolder(path)
    if found := run.link_target(name):
        return found
    there = run.checkpoints()
    remedy = f"set Checkpointing's monitor and train until a validation, or take {there[-1].name}" if there else ""
    raise FileNotFoundError(f"no {name} checkpoint in {path}: {remedy or 'train first, or give the folder of a run'}")


# -- content ----------------------------------------------------------------------------------------------------

_NEEDED = ("state_dict", "pytorch-lightning_version")
_GIVE = "give a .ckpt file of a run, or the folder of a run"
_MAX_KEYS = 5


def _read_checkpoint_file(path: Path, lazily: bool) -> dict[str, Any]:
    if not zipfile.is_zipfile(path):  # torch writes such archives, whose list of contents stands at the end
        raise UsageError(f"{path} is not a checkpoint, or not a whole one; {_GIVE}")
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=lazily)
    except (UnpicklingError, RuntimeError, EOFError, KeyError) as error:
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        fault = f"it holds objects of {found[1]}" if found else "torch cannot read it"
        raise UsageError(f"{path} is not a checkpoint: {fault}; {_GIVE}") from error
    names = [str(name) for name in content] if isinstance(content, dict) else [f"a {type(content).__name__}"]
    if any(name not in names for name in _NEEDED):
        raise UsageError(f"{path} is not a checkpoint: it holds {', '.join(names[:_MAX_KEYS]) or 'nothing'}; {_GIVE}")
    return content


def holds_model_or_adapter(folder: Path) -> bool:
    """Return whether a folder holds a model or an adapter, as transformers and peft write them."""
    return any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))


_PREFIX = "state_dict."


def read_checkpoint(path: Path, *, lazily: bool = False) -> dict[str, Any]:
    """Read a whole checkpoint to the CPU, from a file or from a folder of shards of any number of ranks.

    With ``lazily`` the weights stay on the disk: those of a file until they are used, those of shards for good.
    """
    if path.is_file():
        return _read_checkpoint_file(path, lazily)
    if not (path / META_FILE).is_file():
        is_model = "a model and " if holds_model_or_adapter(path) else ""
        remedy = "to train from the model, give the folder as model.policy.model; otherwise " if is_model else ""
        raise FileNotFoundError(f"{is_model}no checkpoint at {path}: {remedy}{_GIVE}")
    if lazily:
        return {}
    entries = FileSystemReader(path).read_metadata().state_dict_metadata.items()
    weights = {
        name.removeprefix(_PREFIX): torch.empty(kind.size, dtype=kind.properties.dtype)
        for name, kind in entries
        if name.startswith(_PREFIX) and isinstance(kind, TensorStorageMetadata)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about reading in one process, which is intended
        load({"state_dict": weights}, checkpoint_id=path, no_dist=True)
    rest: dict[str, Any] = torch.load(path / META_FILE, map_location="cpu", weights_only=True)
    return {**rest, "state_dict": weights}


# -- position ---------------------------------------------------------------------------------------------------

_COUNTERS = ("ready", "started", "processed", "completed")


def set_checkpoint_loop_counters(trainer: pl.Trainer, checkpoint: Mapping[str, Any]) -> None:
    """Rewrite a checkpoint's loop counters from the batches that its loader of problems had counted.

    Checkpoints of runs with a loader of another kind stay as they are.
    """
    loop = checkpoint["loops"]["fit_loop"]
    loaders = loop["state_dict"].get("combined_loader", ())
    if len(loaders) != 1 or "position" not in loaders[0]:
        return
    batches = loop["epoch_loop.batch_progress"]
    current, done = batches["current"], batches["total"]["processed"]
    # A batch that was taken but not learned from, as after an exception, is taken again.
    position = loaders[0]["position"] - (current["ready"] - current["processed"])
    epoch = loaders[0]["epoch"]
    per_epoch = batches_per_epoch(trainer)
    if batches["is_last_batch"] or (per_epoch is not None and position >= per_epoch):
        epoch, position = epoch + 1, 0
    loaders[0] |= {"epoch": epoch, "position": position}
    # Lightning always treats a run with max_steps as being in the middle of an epoch.
    in_epoch = position > 0 or trainer.max_steps != -1
    if not in_epoch:  # Lightning restores the loader's state only within an epoch
        loader = trainer.fit_loop._data_source.dataloader()
        if hasattr(loader, "warn_if_order_differs"):
            loader.warn_if_order_differs(loaders[0])
    _set_progress_counters(loop["epoch_progress"], epoch)
    if position:
        for counts in loop["epoch_progress"].values():
            counts.update(ready=epoch + 1, started=epoch + 1)
    _set_progress_counters(batches, position)
    batches["total"] = dict.fromkeys(_COUNTERS, done)
    batches["is_last_batch"] = False
    if in_epoch:  # as if saved right after the batch, before it counted as completed
        for counts in (batches["current"], batches["total"]):
            counts["completed"] -= 1
    # The step of the logger; Lightning adds the one for the batch that is not completed.
    loop["epoch_loop.state_dict"]["_batches_that_stepped"] = done - in_epoch


def batches_per_epoch(trainer: pl.Trainer) -> int | None:
    """Return the number of batches that an epoch takes from the training loader; ``None`` if that is unknown."""
    loader: Any = trainer.fit_loop._data_source.dataloader()
    limit = trainer.limit_train_batches
    if not hasattr(loader, "__len__") or limit is None:
        return None
    return min(len(loader), limit) if isinstance(limit, int) else int(len(loader) * limit)


def _set_progress_counters(progress: dict[str, Any], number: int) -> None:
    for part in ("total", "current"):
        progress[part] = dict.fromkeys(_COUNTERS, number)
