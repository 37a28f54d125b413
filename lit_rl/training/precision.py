"""Dtypes by name, and float32 masters of weights that learn in bfloat16.

Near 1, bfloat16 numbers lie 0.004 to 0.008 apart. A step of AdamW is about as large as the learning rate, so at 1e-6
nearly all steps are lost when they are added to such a weight. The optimizer therefore moves float32 copies, and the
weights are the rounded copies. A copy takes four bytes for each weight, and makes the optimizer's moments float32 too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lit_rl.errors import UsageError


def dtype_from_name(name: str) -> torch.dtype:
    """Return the dtype of a name, such as ``bfloat16``."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise UsageError(f"unknown dtype {name!r}: use a floating-point dtype such as float32 or bfloat16")
    return found


_KEY = "masters"


def build_optimizer_with_masters(make: Callable[[Any], Optimizer], groups: list[dict[str, Any]]) -> Optimizer:
    """Build an optimizer over the groups' parameters, with float32 masters in place of narrower parameters.

    The masters are part of the optimizer's state, so a resumed run continues from them. Call
    :func:`add_gradients_to_masters` after each backward pass.
    """
    masters: dict[nn.Parameter, nn.Parameter] = {}
    for group in groups:
        if any(p.dtype == torch.float16 for p in group["params"]):
            raise UsageError("trained weights are float16, in which small gradients become 0: set dtype to bfloat16")
        narrow = [p for p in group["params"] if p.dtype == torch.bfloat16]
        for parameter in narrow:
            if hasattr(parameter, "full_tensor"):
                raise UsageError(
                    f"trained weights are sharded in {parameter.dtype}, which loses small steps: set "
                    "the policy's dtype to float32 and param_dtype of fsdp2 to bfloat16"
                )
            masters[parameter] = nn.Parameter(parameter.detach().float())
    optimizer = make([group | {"params": [masters.get(p, p) for p in group["params"]]} for group in groups])
    if masters:
        _keep_masters_in_state(optimizer, masters)
    return optimizer


def add_gradients_to_masters(optimizer: Any) -> None:
    """Add the gradients of weights to those of their masters: micro-batches are summed in float32."""
    for parameter, master in fp32_masters(optimizer).items():
        if parameter.grad is not None:
            wide = parameter.grad.to(master.dtype)
            master.grad = wide if master.grad is None else master.grad.add_(wide)
            parameter.grad = None


def fp32_masters(optimizer: Any) -> dict[nn.Parameter, nn.Parameter]:
    """Return the master of each narrow weight that an optimizer moves."""
    found: dict[nn.Parameter, nn.Parameter] = getattr(optimizer, _KEY, {})
    return found


def _keep_masters_in_state(optimizer: Optimizer, masters: dict[nn.Parameter, nn.Parameter]) -> None:
    """Write masters back after each step, and keep them in the optimizer's state."""
    setattr(optimizer, _KEY, masters)

    @torch.no_grad()
    def write_back(*_: Any) -> None:
        for parameter, master in masters.items():
            parameter.copy_(master)

    def save(_: Optimizer, state: dict[str, Any]) -> None:
        state[_KEY] = [master.detach() for master in masters.values()]

    load_rest = optimizer.load_state_dict

    @torch.no_grad()
    def load(state: dict[str, Any]) -> None:
        saved: list[Tensor] = state.get(_KEY, list(masters))
        for master, value in zip(masters.values(), saved, strict=True):
            master.copy_(value)
        load_rest({key: value for key, value in state.items() if key != _KEY})

    optimizer.register_step_post_hook(write_back)
    optimizer.register_state_dict_post_hook(save)
    # Not a hook, since bitsandbytes calls no hook before it loads.
    optimizer.load_state_dict = load  # type: ignore[method-assign, assignment]
