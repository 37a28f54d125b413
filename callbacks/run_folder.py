"""The folder of a run: its checkpoints by name, which of them are whole, and who may write here."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import zipfile
from pathlib import Path
from typing import Any, ClassVar

from lightning_utilities.core.rank_zero import rank_zero_warn

from lit_rl.errors import LitRLError

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
                f"{holder.get('host', '?')}): wait for it, end it, or give this run another folder"
            ) from None
        except OSError as error:
            rank_zero_warn(f"file locks do not work in {self.path} ({error.strerror}): a second run is not noticed")
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
        """Checkpoints under their own names, oldest first."""
        found = [(count_of(p), p) for p in self.path.glob("*.ckpt") if not p.is_symlink()]
        return [path for count, path in sorted(found) if count >= 0]

    def newest_whole(self) -> Path | None:
        """The newest checkpoint that is whole; each broken one on the way is named in a warning."""
        for path in reversed(self.checkpoints()):
            fault = fault_of(path)
            if fault is None:
                return path
            rank_zero_warn(f"checkpoint {path} is broken ({fault}): using the one before it")
        return None

    def tidy(self) -> None:
        """Clean up after a run that died: remove half-written checkpoints, rename broken ones."""
        for part in self.path.glob(".*.ckpt.part"):
            remove(part)
        for path in self.checkpoints():
            if fault_of(path) is not None:
                aside = path.with_name(path.name + ".broken")
                remove(aside)
                path.rename(aside)

    # -- writing -------------------------------------------------------------------------------------------

    def place(self, name: str) -> tuple[Path, Path]:
        """Return the path to write a checkpoint to, and its final path once it is complete."""
        return self.path / f".{name}.ckpt.part", self.path / f"{name}.ckpt"

    def publish(self, part: Path, final: Path) -> None:
        """Flush a written checkpoint to the disk and give it its name."""
        files = [part]
        if part.is_dir():
            shards = sorted(p for p in part.rglob("*") if p.is_file())
            (part / _MANIFEST).write_text(json.dumps({str(p.relative_to(part)): p.stat().st_size for p in shards}))
            files = [*shards, part / _MANIFEST, part]
        for path in files:
            _sync(path)
        remove(final)
        part.rename(final)
        _sync(self.path)

    def link(self, name: str, target: Path) -> None:
        """Point ``NAME.ckpt`` to a checkpoint, in one step."""
        fresh = self.path / f".{name}.link"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(target.name)
        os.replace(fresh, self.path / f"{name}.ckpt")

    def target(self, name: str) -> Path | None:
        """The checkpoint that a link points to, if it exists."""
        link = self.path / f"{name}.ckpt"
        return link.resolve() if link.is_symlink() and link.exists() else None

    def prune(self, keep: int) -> None:
        """Remove all but the newest ``keep`` checkpoints and the best one."""
        best = self.target("best")
        for path in self.checkpoints()[:-keep]:
            if best is None or path.name != best.name:
                remove(path)

    # -- notes ---------------------------------------------------------------------------------------------

    def notes(self) -> dict[str, Any]:
        """Read the notes that one start of the run leaves for the next."""
        return _read_json(self.path / "run.json")

    def note(self, **values: Any) -> None:
        """Add to the notes."""
        fresh = self.path / ".run.json"
        fresh.write_text(json.dumps({**self.notes(), **values}))
        os.replace(fresh, self.path / "run.json")


def count_of(path: Path) -> int:
    """The number in a checkpoint's name; -1 for other names."""
    match = _CHECKPOINT.fullmatch(path.name)
    return int(match[1]) if match else -1


def fault_of(path: Path) -> str | None:
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


def remove(path: Path) -> None:
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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
