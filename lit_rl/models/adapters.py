"""Switching between the adapters of one base without touching ``requires_grad``.

PEFT's own ``set_adapter`` and ``disable_adapter`` freeze and unfreeze parameters as they switch; a checkpoint
or an optimizer that looks at ``requires_grad`` in between would see the wrong set. Here only the layers' choice of
adapter changes, and that choice is restored however the block ends.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.errors import UsageError
from lit_rl.models.family import unwrap_peft
from lit_rl.models.loading.sources import ADAPTER_CONFIG, MODEL_KEY, one_line_load_errors
from lit_rl.signature_check import PositiveFloat, PositiveInt, Share, checked_dataclass

POLICY = "policy"
REFERENCE = "reference"
CRITIC = "critic"


@checked_dataclass
@dataclass(frozen=True)
class LoRA:
    """Settings of low-rank adapters, which are trained instead of all weights.

    Args:
        rank: rank of the update matrices.
        alpha: the update is scaled by ``alpha / rank``.
        dropout: share of the adapters' input that is dropped in the updates of SFT. The other algorithms compare
            log-probabilities of several forward passes, so they use no dropout.
        target_modules: layers with an adapter; ``all-linear`` for every linear layer except the output.
    """

    rank: PositiveInt = 16
    alpha: PositiveFloat = 32.0
    dropout: Share = 0.0
    target_modules: str | list[str] = "all-linear"


def attach_saved_adapter(base: nn.Module, home: str, source: str) -> Any:
    """Return a base with the policy's adapter from a folder, to be trained further."""
    from peft import PeftModel, get_peft_model_state_dict
    from peft.utils import load_peft_weights

    with one_line_load_errors("adapter", source, MODEL_KEY):
        if json.loads((Path(source) / ADAPTER_CONFIG).read_text()).get("megatron_config"):
            raise ValueError(
                f"{ADAPTER_CONFIG} sets megatron_config, and PEFT would import the module that megatron_core names: "
                "remove megatron_config"
            )
        saved = {name for name in load_peft_weights(source, device="cpu") if ".lora_" in name}
    try:
        model = PeftModel.from_pretrained(base, source, adapter_name=POLICY, is_trainable=True)
        held = get_peft_model_state_dict(model, adapter_name=POLICY, save_embedding_layers=False)
        wrong = sorted(saved ^ {name for name in held if ".lora_" in name})
        fault = f"{len(wrong)} weights have no counterpart, such as {wrong[0]}" if wrong else ""
    except (RuntimeError, ValueError) as error:
        fault = " ".join(str(error).split())[:200]
    if fault:
        raise UsageError(
            f"the adapter {source} needs another base than {home}: {fault}; correct base_model_name_or_path in its "
            f"{ADAPTER_CONFIG}"
        )
    return model


def lora_config(lora: LoRA, model: Any) -> Any:
    """Return PEFT's configuration of an adapter for a model."""
    from peft import LoraConfig

    wanted, layers = lora.target_modules, dict(unwrap_peft(model).named_modules())
    known = [f".{name}" for name in layers]
    missing = [one for one in wanted if not any(name.endswith(f".{one}") for name in known)]
    if not isinstance(wanted, str) and missing:  # PEFT silently leaves these out, and refuses a text that fits nothing
        linear = (name for name, layer in layers.items() if isinstance(layer, nn.Linear))
        there = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in linear))
        raise UsageError(
            f"lora.target_modules names {', '.join(missing)}, which the model does not have: use all-linear, or a list "
            f"of some of {there}"
        )
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.target_modules,
        task_type="CAUSAL_LM",
    )


def add_inactive_adapter(model: Any, name: str, seed: int, lora: LoRA | None = None, *, trained: bool = True) -> None:
    """Add an adapter next to the policy's, which stays active."""
    config = copy.deepcopy(model.peft_config[POLICY]) if lora is None else lora_config(lora, model)
    learning = {n for n, p in model.named_parameters() if p.requires_grad}
    with torch.random.fork_rng(), initialisation_device():
        torch.manual_seed(seed)
        model.add_adapter(name, config)
    for parameter_name, parameter in model.named_parameters():
        new = f".{name}." in parameter_name
        parameter.requires_grad_(trained if new else parameter_name in learning)


def initialisation_device() -> torch.device:
    """Return meta if that is torch's default device, else the CPU, where a seed gives the same weights everywhere."""
    return torch.device("meta" if torch.get_default_device().type == "meta" else "cpu")


def add_reference_adapter(model: Any, seed: int) -> None:
    """Add a frozen adapter of the policy adapter's shape and copy the policy adapter into it."""
    add_inactive_adapter(model, REFERENCE, seed, trained=False)
    copy_or_interpolate_adapter(model, POLICY, REFERENCE)


def has_adapter(model: Any, name: str = POLICY) -> bool:
    """Return whether a model has an adapter of this name."""
    return name in getattr(model, "peft_config", {})


@contextmanager
def using_adapter(model: nn.Module, name: str | None) -> Iterator[None]:
    """Make the model's adapter layers use adapter ``name`` inside the block; ``None`` switches all adapters off.

    A backward pass that recomputes activations must run inside the block as well: it runs checkpointed layers again,
    with the adapter that is chosen then.
    """
    # Imported here, since most runs have no adapters and PEFT takes most of a second to load.
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    # Layers of the second kind are trained and saved whole by an adapter: PEFT's ``modules_to_save``.
    layers = [layer for layer in model.modules() if isinstance(layer, BaseTunerLayer | AuxiliaryTrainingWrapper)]
    before = [(layer._active_adapter, layer._disable_adapters) for layer in layers]
    try:
        for layer in layers:
            layer._disable_adapters = name is None
            if name is not None:
                layer._active_adapter = [name]
        yield
    finally:
        for layer, (active, disabled) in zip(layers, before, strict=True):
            layer._active_adapter, layer._disable_adapters = active, disabled


def copy_or_interpolate_adapter(model: nn.Module, source: str, target: str, share: float = 1.0) -> None:
    """Move adapter ``target`` to the weights of ``source``, of the same shape, or by a share of the way, in place."""
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        if f".{source}." in name:
            interpolate_in_place(parameters[name.replace(f".{source}.", f".{target}.")].data, parameter.data, share)


def interpolate_in_place(old: Tensor, new: Tensor, share: float) -> None:
    """Move tensor ``old`` to ``new``, or by a share of the way, in place."""
    if share == 1.0:
        old.copy_(new)
    else:
        old.lerp_(new, share)


def save_adapter(model: Any, folder: Path) -> None:
    """Write the policy's adapter as a folder that ``peft`` loads.

    PEFT itself would write into a subfolder with the adapter's name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        model.save_pretrained(scratch, selected_adapters=[POLICY])
        for file in (Path(scratch) / POLICY).iterdir():
            file.replace(folder / file.name)
