"""Whether a file is a checkpoint of a run, asked before a model is loaded for it."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from lit_rl.arguments import UsageError

_NEEDED = ("state_dict", "pytorch-lightning_version")
_GIVE = "give a .ckpt file of a run, or the folder of a run"
_MOST_KEYS = 5


def read_file(path: Path, *, lazily: bool = False) -> dict[str, Any]:
    """The content of a checkpoint that is one file, on the CPU.

    Args:
        path: of the file.
        lazily: read tensors when they are used, so that asking what the file is costs nothing.

    Raises:
        ValueError: the file is not a checkpoint, or not a whole one; the message says what it is instead.
    """
    _require_archive(path)
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=lazily)
    except UnpicklingError as error:
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        holds = f"it holds objects of {found[1]}" if found else "it holds objects that are not loaded for safety"
        raise UsageError(f"{path} is not a checkpoint: {holds}; {_GIVE}") from error
    except (RuntimeError, EOFError, KeyError) as error:
        raise UsageError(f"{path} is not a checkpoint: torch cannot read it ({_first_line(error)}); {_GIVE}") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} is not a checkpoint: it holds a {type(content).__name__}; {_GIVE}")
    if any(name not in content for name in _NEEDED):
        names = [str(name) for name in content]
        shown = ", ".join(names[:_MOST_KEYS]) + (", ..." if len(names) > _MOST_KEYS else "")
        raise UsageError(f"{path} is not a checkpoint: it holds the keys {shown or '(none)'}; {_GIVE}")
    return content


def require_checkpoint(path: Any) -> None:
    """Check whether a trainer can begin with a checkpoint; ``None``, remote ones and folders of shards pass.

    Raises:
        ValueError: it is a file of another kind.
        FileNotFoundError: it is a folder without a checkpoint.
    """
    if path is None or "://" in str(path):
        return
    if Path(path).is_file():
        read_file(Path(path), lazily=True)
    elif not (Path(path) / ".metadata").exists():
        raise FileNotFoundError(f"no checkpoint at {path}: {_GIVE}")


def _require_archive(path: Path) -> None:
    """Torch writes zip archives, whose list of contents comes last."""
    if zipfile.is_zipfile(path):
        return
    with path.open("rb") as file:
        begins = file.read(4)
    if begins == b"PK\x03\x04":
        raise UsageError(f"{path} is not a whole checkpoint: its end is missing; take an earlier one")
    what = "it is not a file of torch" if begins else "it is empty"
    raise UsageError(f"{path} is not a checkpoint: {what}; {_GIVE}")


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200]
