"""Products of large float32 matrices on a CPU, through the faster of the two libraries that torch comes with.

torch multiplies float32 matrices with MKL, which uses no AVX-512 on AMD's processors. oneDNN uses it there, and so
takes half the time (docs/speed.md). torch has no switch between the two, so oneDNN's operator is called by its name.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

MIN_WEIGHTS, MIN_SIDE = 100_000, 192
"""Smaller or thinner matrices are left to torch: they gain little, and small models then round alike everywhere."""


@cache
def onednn_is_faster() -> bool:
    """Return True on an AMD processor with AVX-512; nothing is timed, since a resumed run must round alike."""
    processors = Path("/proc/cpuinfo")
    return (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # of torch
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and processors.exists()
        and "AuthenticAMD" in processors.read_text()
    )


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``inputs @ weight.T + bias``, as :func:`torch.nn.functional.linear` does, up to rounding.

    Shapes: inputs [..., I], weight [O, I], bias [O], result [..., O]. Gradients of gradients raise ``RuntimeError``
    where oneDNN is used.
    """
    if not suits_onednn(inputs, weight):
        return nn.functional.linear(inputs, weight, bias)
    learns = inputs.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    if torch.is_grad_enabled() and learns:
        result: Tensor = _OneDNNLinearFunction.apply(inputs, weight, bias)  # type: ignore[no-untyped-call]
        return result
    return _onednn_linear(inputs, weight, bias)


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """Return ``left @ right`` of two matrices, without a gradient."""
    return _onednn_linear(left, right.T) if suits_onednn(left, right) else left @ right


class FastLinear(nn.Linear):
    """A linear layer that multiplies with :func:`linear`."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs [..., O] for inputs [..., I]."""
        return linear(inputs, self.weight, self.bias)


def use_fast_linear_layers(model: nn.Module) -> None:
    """Turn a model's large linear layers into :class:`FastLinear` if that is faster; weights stay as they are."""
    if onednn_is_faster():
        for layer in model.modules():
            if type(layer) is nn.Linear and _is_large_matrix(layer.weight):
                layer.__class__ = FastLinear


def suits_onednn(left: Tensor, right: Tensor) -> bool:
    """Return True for large float32 matrices in a CPU's memory; sharded and fake tensors are left to torch."""
    return (
        onednn_is_faster()
        and left.device.type == "cpu"
        and left.dtype == right.dtype == torch.float32
        and _is_large_matrix(right)
        and left.numel() > 0
        and type(left) in (Tensor, nn.Parameter)
        and type(right) in (Tensor, nn.Parameter)
        and not torch.is_autocast_enabled("cpu")
    )


def _is_large_matrix(matrix: Tensor) -> bool:
    return matrix.numel() >= MIN_WEIGHTS and min(matrix.shape) >= MIN_SIDE


def _onednn_linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
    return product


class _OneDNNLinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        # A frozen weight needs no inputs in the backward pass, frozen inputs no weight.
        ctx.save_for_backward(inputs if weight.requires_grad else None, weight if inputs.requires_grad else None)
        return _onednn_linear(inputs, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1]).contiguous()
        wants_inputs, wants_weight, wants_bias = ctx.needs_input_grad
        of_inputs = _onednn_linear(rows, weight.T).view(*gradient.shape[:-1], -1) if wants_inputs else None
        of_weight = _onednn_linear(rows.T, inputs.reshape(rows.shape[0], -1).T) if wants_weight else None
        return of_inputs, of_weight, rows.sum(0) if wants_bias else None
