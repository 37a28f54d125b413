"""Input checks of the math: shapes that broadcasting would silently accept.

Every message says what is wrong, what came, and what to do.
"""

from __future__ import annotations

import torch
from torch import Tensor


def shape_of(tensor: Tensor) -> str:
    """The shape as text, for messages.

    Example:
        >>> shape_of(torch.zeros(2, 3))
        '[2, 3]'
    """
    return str(list(tensor.shape))


def require_same_shape(**tensors: Tensor) -> None:
    """Raise unless all tensors, given by name, have one shape.

    Raises:
        ValueError: two shapes differ; [N] against [N, T] would silently broadcast to [N, N] or [T, T].
    """
    (first_name, first), *others = tensors.items()
    for name, tensor in others:
        if tensor.shape != first.shape:
            raise ValueError(f"{name} must have the shape of {first_name} {shape_of(first)}, got {shape_of(tensor)}")


def require_mask(mask: Tensor, like: Tensor, *, name: str = "mask") -> None:
    """Raise unless ``mask`` is bool and has the shape of ``like``.

    Raises:
        ValueError: a 0/1 number mask would index instead of choosing; a wrong shape would broadcast.
    """
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} must be bool with True = counts, got {mask.dtype}; use {name}.bool()")
    if mask.shape != like.shape:
        raise ValueError(f"{name} must be {shape_of(like)} like its values, got {shape_of(mask)}")


def require_no_grad(**tensors: Tensor) -> None:
    """Raise if one of the tensors, given by name, carries a gradient.

    Raises:
        ValueError: it is a constant of the formula; a gradient through it would change the algorithm.
    """
    for name, tensor in tensors.items():
        if tensor.requires_grad:
            raise ValueError(f"{name} is a constant here, got a tensor that requires grad; detach it")


def statistics_dtype(x: Tensor) -> torch.dtype:
    """The dtype for sums of ``x``: float64 where the device has it.

    In float64 the mean of equal float32 numbers is that number itself, so that "no difference" stays
    exactly zero however small the number that divides it afterwards.
    """
    return torch.float32 if x.device.type == "mps" else torch.float64
