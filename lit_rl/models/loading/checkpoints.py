"""Checkpoints of a run: checking and reading them, and exporting them for transformers and peft."""

from __future__ import annotations

import re
import shutil
import stat
import tempfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from lit_rl.errors import UsageError
from lit_rl.models.adapters import CRITIC, POLICY, save_adapter
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.family import base_of
from lit_rl.models.loading.sources import ADAPTER_CONFIG
from lit_rl.models.loading.weights import without_bars
from lit_rl.training.strategy import META_FILE

_NEEDED = ("state_dict", "pytorch-lightning_version")
_GIVE = "give a .ckpt file of a run, or the folder of a run"
_MOST_KEYS = 5


def read_file(path: Path, *, lazily: bool = False) -> dict[str, Any]:
    """The content of a checkpoint that is one file, on the CPU."""
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
        raise UsageError(f"{path} is not a checkpoint: it holds {', '.join(names[:_MOST_KEYS]) or 'nothing'}; {_GIVE}")
    return content


def require_checkpoint(path: Any) -> None:
    """Check whether a trainer can begin with a checkpoint; ``None``, remote ones and folders of shards pass."""
    if path is None or "://" in str(path):
        return
    if Path(path).is_file():
        read_file(Path(path), lazily=True)
    elif not (Path(path) / ".metadata").exists():
        raise _missing(Path(path))


def _missing(path: Path) -> FileNotFoundError:
    if any((path / name).is_file() for name in ("config.json", ADAPTER_CONFIG)):
        return FileNotFoundError(
            f"{path} holds a model and no checkpoint: give it as model.policy.model; to resume or to export, {_GIVE}"
        )
    return FileNotFoundError(f"no checkpoint at {path}: {_GIVE}")


_PREFIX = "state_dict."


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A whole checkpoint on the CPU, from a file or from a folder of shards of any number of ranks."""
    if path.is_file():
        return read_file(path)
    if not (path / META_FILE).is_file():
        raise _missing(path)
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


def load_weights(policy: CausalLM, weights: Mapping[str, Tensor]) -> None:
    """Put a checkpoint's weights into a policy that was loaded from the same configuration."""
    own = {
        name.removeprefix("policy."): value
        for name, value in weights.items()
        if name.startswith("policy.") and f".{CRITIC}." not in name
    }
    policy.make_room(own.keys())
    learns = {name for name, parameter in policy.named_parameters() if parameter.requires_grad}
    have = policy.state_dict()
    wrong = sorted((learns - own.keys()) | {n for n, v in own.items() if n not in have or have[n].shape != v.shape})
    if wrong:
        raise UsageError(
            f"the checkpoint is of another model: {len(wrong)} weights differ in name or shape, for example "
            f"{wrong[0]}; export it with the configuration it was made with"
        )
    policy.load_state_dict(own, strict=False)


def write_model(
    policy: CausalLM,
    folder: Path,
    *,
    merge: bool,
    dtype: torch.dtype | None = None,
    overwrite: bool = False,
    stop_strings: Sequence[str] = (),
) -> str:
    """Write a policy as a folder of its own; return ``model`` or ``adapter``, which it then holds.

    Adapters are added to their base if ``merge``, so that ``transformers`` alone loads the result.
    """
    replaces = overwrite and any((folder / name).is_file() for name in ("config.json", ADAPTER_CONFIG))
    if folder.exists() and any(folder.iterdir()) and not replaces:
        advice = ", for it holds no model to overwrite" if overwrite else ", or --overwrite true"
        raise FileExistsError(f"{folder} is not empty: give a new folder{advice}")
    adapted = hasattr(policy.model, "peft_config")
    if adapted and not merge and policy.source is None:
        raise UsageError(
            "the adapter's base was made from scratch, the adapter alone cannot be loaded: export with --merge true"
        )
    model = policy.model.merge_and_unload(adapter_names=[POLICY]) if adapted and merge else policy.model
    model = model if dtype is None else model.to(dtype)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with without_bars(), tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        written = Path(scratch) / "model"
        if adapted and not merge:
            save_adapter(model, written)
        else:
            model.save_pretrained(written)
        if stop_strings:
            generation = base_of(model).generation_config
            generation.stop_strings = list(stop_strings)
            generation.save_pretrained(written)
        policy.tokenizer.save_pretrained(written)
        _open_to_readers(written)
        if replaces:
            shutil.rmtree(folder)
        elif folder.exists():
            folder.rmdir()
        shutil.move(written, folder)
    if merge or not adapted:
        return "model"
    return "adapter"


def _open_to_readers(folder: Path) -> None:
    """Give each file the mode of a new one: safetensors writes files that only their owner may read."""
    sample = folder / "sample"
    sample.touch()
    mode = sample.stat().st_mode
    sample.unlink()
    for file in folder.iterdir():
        if file.is_file():
            file.chmod(stat.S_IMODE(mode))
