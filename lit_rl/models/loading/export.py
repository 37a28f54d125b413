"""Loads a checkpoint's weights into a policy, and writes a policy as a folder for transformers and peft."""

from __future__ import annotations

import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from lit_rl.errors import UsageError
from lit_rl.models.adapters import CRITIC, POLICY, save_adapter
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.family import unwrap_peft
from lit_rl.models.loading.weights import without_progress_bars
from lit_rl.training.checkpoints import holds_model_or_adapter


def load_policy_weights(policy: CausalLM, weights: Mapping[str, Tensor]) -> None:
    """Put a checkpoint's weights into a policy that was loaded from the same configuration."""
    own = {
        name.removeprefix("policy."): value
        for name, value in weights.items()
        if name.startswith("policy.") and f".{CRITIC}." not in name
    }
    policy.add_reference_if_saved(own.keys())
    learns = {name for name, parameter in policy.named_parameters() if parameter.requires_grad}
    have = policy.state_dict()
    wrong = sorted((learns - own.keys()) | {n for n, v in own.items() if n not in have or have[n].shape != v.shape})
    if wrong:
        raise UsageError(
            f"the checkpoint is of another model: {len(wrong)} weights differ in name or shape, for example "
            f"{wrong[0]}; export it with the configuration it was made with"
        )
    policy.load_state_dict(own, strict=False)


def write_policy_folder(
    policy: CausalLM,
    folder: Path,
    *,
    merge: bool,
    dtype: torch.dtype | None = None,
    overwrite: bool = False,
    stop_strings: Sequence[str] = (),
) -> str:
    """Write a policy as a folder of its own; return ``model`` or ``adapter``, which the folder then holds.

    With ``merge``, adapters are added to their base, so that ``transformers`` alone loads the result.
    """
    replaces = overwrite and holds_model_or_adapter(folder)
    if folder.exists() and any(folder.iterdir()) and not replaces:
        advice = ", since this one holds no model to overwrite" if overwrite else ", or set --overwrite true"
        raise FileExistsError(f"{folder} is not empty: give a new folder{advice}")
    adapted = hasattr(policy.model, "peft_config")
    if adapted and not merge and policy.source is None:
        raise UsageError(
            "the adapter's base was made from scratch, so the adapter cannot be loaded alone: export with --merge true"
        )
    model = policy.model.merge_and_unload(adapter_names=[POLICY]) if adapted and merge else policy.model
    model = model if dtype is None else model.to(dtype)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with without_progress_bars(), tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        written = Path(scratch) / "model"
        if adapted and not merge:
            save_adapter(model, written)
        else:
            model.save_pretrained(written)
        if stop_strings:
            generation = unwrap_peft(model).generation_config
            generation.stop_strings = list(stop_strings)
            generation.save_pretrained(written)
        policy.tokenizer.save_pretrained(written)
        _reset_file_modes(written)
        if replaces:
            shutil.rmtree(folder)
        elif folder.exists():
            folder.rmdir()
        shutil.move(written, folder)
    if merge or not adapted:
        return "model"
    return "adapter"


def _reset_file_modes(folder: Path) -> None:
    """Give each file the mode of a new one: safetensors writes files that only their owner may read."""
    sample = folder / "sample"
    sample.touch()
    mode = sample.stat().st_mode
    sample.unlink()
    for file in folder.iterdir():
        if file.is_file():
            file.chmod(stat.S_IMODE(mode))
