"""Whole weights of a policy by the names in its hub checkpoint, as engines with a copy load them.

Sharded weights are gathered one unit (a decoder layer) at a time, and low-rank adapters are added to their base on the
way. The policy itself is not changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from lit_rl.arguments import ArgumentError, UsageError
from lit_rl.models.adapters import POLICY, has_adapter
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.family import base_of
from lit_rl.models.policy import Policy

Named = tuple[str, Tensor]

_PREFIX = "base_model.model."
_OWN = f".modules_to_save.{POLICY}."


def require_whole(policy: Policy, engine: str) -> CausalLM:
    """Check that a policy's weights can be handed on whole, and return it.

    Raises:
        ValueError: it is a toy, or its adapters cannot be added to their base from outside.
    """
    if not isinstance(policy, CausalLM):
        raise ArgumentError(
            f"policy of {engine}", "a language model", f"a {type(policy).__name__}", "use the engine InProcess"
        )
    if has_adapter(policy.model):
        config = policy.model.peft_config[POLICY]
        if getattr(config, "use_dora", False) or not hasattr(config, "lora_alpha"):
            raise UsageError(
                f"{engine} merges plain LoRA adapters, got {config.peft_type.value}"
                f"{' with use_dora' if getattr(config, 'use_dora', False) else ''}: use the engine InProcess"
            )
    return policy


def whole_weights(policy: CausalLM, *, with_tied: bool = False) -> Iterator[Named]:
    """Every weight by its name in the model's checkpoint, on the policy's device, adapters merged.

    All ranks iterate together to the end, since gathering is a call to all of them. A tensor is valid until the next
    one is asked for, and must not be changed.

    Args:
        policy: loaded; sharded or not.
        with_tied: give weights that are tied under each of their names; else once, as checkpoints hold them.
    """
    sent: set[str] = set()
    names = {id(module): name for name, module in policy.model.named_modules()}
    for unit in _units(policy):
        with _whole(unit), torch.no_grad():
            own: dict[int | str, Named] = {}
            for module in _outside_units(unit):
                for name, tensor, key in _of(module, names) if id(module) in names else ():
                    if name not in sent:
                        own.setdefault(name if with_tied else key, (name, tensor))
            sent |= {name for name, _ in own.values()}
            yield from _as_in_checkpoint(policy.model, own.values())


def _units(policy: CausalLM) -> list[nn.Module]:
    """Return the modules to gather, in the order in which the model reads them; the policy itself if not sharded."""
    module: Any = policy
    if not isinstance(module, FSDPModule):
        return [policy]
    module._get_fsdp_state()._lazy_init()  # the first forward would make a layer the root; see sharding.unsharded
    inside = set(policy.model.modules())
    return [policy, *(m for m in policy.modules() if isinstance(m, FSDPModule) and m in inside)]


@contextmanager
def _whole(unit: nn.Module) -> Iterator[None]:
    if not isinstance(unit, FSDPModule):
        yield
        return
    unit.unshard()
    try:
        yield
    finally:
        unit.reshard()


def _outside_units(root: nn.Module) -> Iterator[nn.Module]:
    yield root
    for child in root.children():
        if not isinstance(child, FSDPModule):
            yield from _outside_units(child)


def _of(module: nn.Module, names: dict[int, str]) -> Iterator[tuple[str, Tensor, int]]:
    """Name in the checkpoint, value and identity of each weight and saved buffer of one module."""
    saved = {n: b for n, b in module._buffers.items() if b is not None and n not in module._non_persistent_buffers_set}
    for own, tensor in {**module._parameters, **saved}.items():
        name = _name(f"{names[id(module)]}.{own}")
        if tensor is not None and name:
            yield name, tensor.detach(), id(tensor)
    if base := getattr(module, "base_layer", None):
        # The base layer follows as a child of this module with the same weight: the first one given counts.
        yield _name(f"{names[id(base)]}.weight"), _merged(module), id(base.weight)


def _merged(layer: Any) -> Tensor:
    """The weight of an adapted layer with the policy's adapter added; not rounded in between."""
    weight: Tensor = layer.base_layer.weight.detach()
    if hasattr(weight, "quant_state"):
        from peft.utils.integrations import dequantize_module_weight

        weight = dequantize_module_weight(layer.base_layer).detach()
    if POLICY not in getattr(layer, "lora_A", {}) and POLICY not in getattr(layer, "lora_embedding_A", {}):
        return weight
    merged: Tensor = weight + layer.get_delta_weight(POLICY).to(weight)
    return merged


def _name(name: str) -> str:
    """A parameter's name in the checkpoint of the base; empty if it is not in there."""
    name = name.removeprefix(_PREFIX)
    if ".lora_" in f".{name}" or ".original_module." in name or (".modules_to_save." in name and _OWN not in name):
        return ""
    return name.replace(_OWN, ".").replace(".base_layer.", ".")


def _as_in_checkpoint(model: Any, weights: Iterable[Named]) -> Iterable[Named]:
    """Undo transformers' renaming and fusing of weights, such as a mixture's experts, on loading a checkpoint."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:  # releases that convert nothing
        return weights
    if getattr(base_of(model), "hf_quantizer", None) is not None:  # it would have them quantized
        return weights
    back: dict[str, Tensor] = revert_weight_conversion(base_of(model), dict(weights))
    return back.items()


_FILE_BYTES = 1 << 30


def write_weights(weights: Iterable[tuple[str, Tensor]], folder: Path, file_bytes: int = _FILE_BYTES) -> int:
    """Write weights into a folder, in place of what it held; no more than a file's worth is in memory.

    Args:
        weights: names and tensors, each valid until the next is asked for.
        folder: made if it is missing.
        file_bytes: size of a file, roughly.

    Returns:
        Number of tensors.
    """
    from safetensors.torch import save_file

    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    held: dict[str, Tensor] = {}
    size = files = count = 0
    for name, tensor in weights:
        held[name] = tensor.detach().to("cpu", copy=True).contiguous()
        size, count = size + tensor.nbytes, count + 1
        if size >= file_bytes:
            save_file(held, part / f"model-{files:05d}.safetensors")
            held, size, files = {}, 0, files + 1
    if held:
        save_file(held, part / f"model-{files:05d}.safetensors")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    return count
