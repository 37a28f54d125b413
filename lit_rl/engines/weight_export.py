"""A policy's weights in the form that engines with a copy load: all weights, or only the low-rank adapters.

All weights have the names of the hub checkpoint. Sharded weights are gathered one unit (a decoder layer) at a time, and
adapters may be added to their base on the way. Adapters alone have PEFT's names and are gathered one matrix at a time.
The policy itself is not changed.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from lit_rl.engines.engine import EngineError
from lit_rl.errors import UsageError
from lit_rl.models.adapters import POLICY, has_adapter
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.family import unwrap_peft
from lit_rl.models.policy import Policy
from lit_rl.signature_check import check_and_convert
from lit_rl.training.ranks import (
    describe_rank_and_phase,
    gather_over_ranks,
    gather_whole_tensor,
    gathered_unit_weights,
    modules_of_fsdp_unit,
    reshard,
)

Tensors = tuple[str, Tensor]

_PREFIX = "base_model.model."
_OWN = f".modules_to_save.{POLICY}."
_MATRIX = re.compile(rf"\.lora_[AB]\.{POLICY}\.weight$")


def require_copyable_policy(policy: Policy, engine: str, *, merge: bool) -> CausalLM:
    """Return the policy if the engine can copy its weights; raise an error otherwise."""
    model: CausalLM = check_and_convert(policy, CausalLM, f"policy of {engine}")
    if has_adapter(model.model):
        config = model.model.peft_config[POLICY]
        if getattr(config, "use_dora", False) or not hasattr(config, "lora_alpha"):
            raise UsageError(
                f"{engine} merges plain LoRA adapters, got {config.peft_type.value}"
                f"{' with use_dora' if getattr(config, 'use_dora', False) else ''}: use the engine InProcess"
            )
        others = [f".{name}." for name in model.model.peft_config if name != POLICY]
        learned = (name for name, parameter in model.model.named_parameters() if parameter.requires_grad)
        more = [name for name in learned if not _MATRIX.search(name) and not any(other in name for other in others)]
        if more and not merge:
            raise UsageError(
                f"{engine} sends only low-rank matrices of linear layers, but the policy also trains {more[0]}: set "
                "merge_adapters to true"
            )
    return model


def sends_adapter_only(policy: CausalLM, merge: bool) -> bool:
    """Return whether a policy's adapter is sent without its base."""
    return not merge and has_adapter(policy.model)


def full_weights(policy: CausalLM, *, with_tied: bool = False, merge: bool = True) -> Iterator[Tensors]:
    """Yield every weight with its name in the model's checkpoint, on the policy's device.

    All ranks iterate together to the end, since all take part in gathering. A tensor is valid until the next tensor is
    asked for, and must not be changed. Tied weights come once, as checkpoints hold them, unless ``with_tied`` is true.
    The policy's adapter is added to its base if ``merge`` is true; otherwise the base comes alone.
    """
    sent: set[str] = set()
    names = {id(module): name for name, module in policy.model.named_modules()}
    for unit in _fsdp_units_to_gather(policy):
        with gathered_unit_weights(unit), torch.no_grad():
            own: dict[int | str, tuple[str, Callable[[], Tensor]]] = {}
            for module in modules_of_fsdp_unit(unit):
                for name, make, key in _named_weight_makers(module, names, merge) if id(module) in names else ():
                    if name not in sent:
                        own.setdefault(name if with_tied else key, (name, make))
            sent |= {name for name, _ in own.values()}
            yield from _to_checkpoint_format(policy.model, ((name, make()) for name, make in own.values()))


def _fsdp_units_to_gather(policy: CausalLM) -> list[nn.Module]:
    """Return the modules to gather, in the order in which the model reads them; an unsharded policy is one module."""
    module: Any = policy
    if not isinstance(module, FSDPModule):
        return [policy]
    module._get_fsdp_state()._lazy_init()  # the first forward would make a layer the root: see unsharded_weights
    inside = set(policy.model.modules())
    return [policy, *(m for m in policy.modules() if isinstance(m, FSDPModule) and m in inside)]


def _named_weight_makers(
    module: nn.Module, names: dict[int, str], merge: bool
) -> Iterator[tuple[str, Callable[[], Tensor], int]]:
    """Yield the checkpoint name, a maker of the value, and the identity of each weight and saved buffer of a module."""
    saved = {n: b for n, b in module._buffers.items() if b is not None and n not in module._non_persistent_buffers_set}
    for own, tensor in {**module._parameters, **saved}.items():
        name = _weight_name_in_checkpoint(f"{names[id(module)]}.{own}")
        if tensor is not None and name:
            yield name, partial(_dequantize_if_4bit, module, tensor), id(tensor)
    if merge and (base := getattr(module, "base_layer", None)):
        # The base layer follows as a child of this module with the same weight: the first of the two counts.
        yield _weight_name_in_checkpoint(f"{names[id(base)]}.weight"), partial(_merged_weight, module), id(base.weight)


def _dequantize_if_4bit(layer: nn.Module, tensor: Tensor) -> Tensor:
    """Return a tensor of a layer; a 4-bit weight is dequantized."""
    if not hasattr(tensor, "quant_state"):
        return tensor.detach()
    from peft.utils.integrations import dequantize_module_weight

    whole: Tensor = dequantize_module_weight(layer)
    return whole.detach()


def _merged_weight(layer: Any) -> Tensor:
    """Return the weight of an adapted layer with the policy's adapter added, without rounding in between."""
    weight = _dequantize_if_4bit(layer.base_layer, layer.base_layer.weight)
    if POLICY not in getattr(layer, "lora_A", {}) and POLICY not in getattr(layer, "lora_embedding_A", {}):
        return weight
    merged: Tensor = weight + layer.get_delta_weight(POLICY).to(weight)
    return merged


def _weight_name_in_checkpoint(name: str) -> str:
    """Return a parameter's name in the base's checkpoint; empty if the checkpoint lacks the parameter."""
    name = name.removeprefix(_PREFIX)
    if ".lora_" in f".{name}" or ".original_module." in name or (".modules_to_save." in name and _OWN not in name):
        return ""
    return name.replace(_OWN, ".").replace(".base_layer.", ".")


def _to_checkpoint_format(model: Any, weights: Iterable[Tensors]) -> Iterable[Tensors]:
    """Undo the renaming and fusing of weights (a mixture's experts, say) that transformers does on loading."""
    from transformers.core_model_loading import revert_weight_conversion

    if getattr(unwrap_peft(model), "hf_quantizer", None) is not None:  # the quantizer would have them quantized
        return weights
    back: dict[str, Tensor] = revert_weight_conversion(unwrap_peft(model), dict(weights))
    return back.items()


def adapter_weights(policy: CausalLM) -> Iterator[Tensors]:
    """Yield the policy's low-rank matrices under PEFT's names, each B multiplied by its layer's scale.

    All ranks iterate together to the end, since all take part in gathering.
    """
    for unit in policy.modules():
        reshard(unit)  # a forward pass may have left the unit's weights whole instead of sharded
    for name, layer in policy.model.named_modules():
        if POLICY in getattr(layer, "lora_A", {}):
            yield f"{name}.lora_A.weight", gather_whole_tensor(layer.lora_A[POLICY].weight).detach()
            yield (
                f"{name}.lora_B.weight",
                gather_whole_tensor(layer.lora_B[POLICY].weight).detach() * layer.scaling[POLICY],
            )


def write_adapter(weights: Iterable[Tensors], folder: Path, config: Any) -> int:
    """Write the matrices of :func:`adapter_weights` as a PEFT folder with a scale of 1; return their size in bytes."""
    total = write_weights(weights, folder, "adapter_model.safetensors", file_bytes=1 << 62)
    described = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "bias": "none", "target_modules": "all-linear"}
    described |= {"r": config.r, "lora_alpha": config.r}
    described |= {"rank_pattern": config.rank_pattern, "alpha_pattern": config.rank_pattern}
    (folder / "adapter_config.json").write_text(json.dumps(described))
    return total


def raise_if_any_rank_failed(fault: str) -> None:
    """Raise an error on all ranks if one rank failed, so that no rank waits for the failed one."""
    faults = gather_over_ranks(
        f"{describe_rank_and_phase()}: {fault}" if fault and describe_rank_and_phase() else fault
    )
    fault = next((one for one in faults if one), "")
    if fault:
        raise EngineError(fault)


def gather_and_write_weights(
    weights: Iterator[Tensors],
    folder: Path,
    write: Callable[[Iterator[Tensors]], int] | None,
    remedy: str = "give another folder, or free space there",
) -> int:
    """Gather on all ranks, write on ranks with ``write``, and return the number of bytes that this rank wrote."""
    from safetensors import SafetensorError

    size, fault = 0, ""
    try:
        size = 0 if write is None else write(weights)
    except (OSError, SafetensorError) as error:  # safetensors raises an error of its own if a disk is full
        fault = f"the weights could not be written to {folder} ({error}): {remedy}"
    for _ in weights:
        pass
    raise_if_any_rank_failed(fault)
    return size


_FILE_BYTES = 1 << 30


def write_weights(
    weights: Iterable[Tensors], folder: Path, name: str = "model-{:05d}.safetensors", file_bytes: int = _FILE_BYTES
) -> int:
    """Replace a folder by files of weights, with one file at a time in memory; return the weights' size in bytes."""
    from safetensors.torch import save_file

    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    held: dict[str, Tensor] = {}
    size = files = total = 0
    for key, tensor in weights:
        held[key] = tensor.detach().to("cpu", copy=True).contiguous()
        size, total = size + tensor.nbytes, total + tensor.nbytes
        if size >= file_bytes:
            save_file(held, part / name.format(files))
            held, size, files = {}, 0, files + 1
    if held:
        save_file(held, part / name.format(files))
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    return total
