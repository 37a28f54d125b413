"""Rows of unequal length as one tensor."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

_TYPE_CODES = {torch.int64: ("q", torch.int64), torch.float32: ("d", torch.float64), torch.bool: ("B", torch.bool)}
"""How an array holds numbers of a dtype, and how a tensor reads them from there."""


def pad_left(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Ids [B, P] and mask [B, P] of rows of unequal length."""
    width = max((len(row) for row in rows), default=0)
    ids = torch.full((len(rows), width), pad_id, dtype=torch.int64)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        if row:
            ids[i, width - len(row) :] = _numbers(row, torch.int64)
            mask[i, width - len(row) :] = True
    return ids.to(device), mask.to(device)


def pad_right(rows: Sequence[Sequence[float]], value: float, dtype: torch.dtype) -> Tensor:
    """[N, T] of rows of unequal length, on the CPU."""
    width = max((len(row) for row in rows), default=0)
    padded = torch.full((len(rows), width), value, dtype=dtype)
    for i, row in enumerate(rows):
        if row:
            padded[i, : len(row)] = _numbers(row, dtype)
    return padded


def _numbers(row: Sequence[float], dtype: torch.dtype) -> Tensor:
    """[T] of a row, by way of an array: it takes numbers several times faster than ``torch.tensor``."""
    code, held_as = _TYPE_CODES[dtype]
    held = row if isinstance(row, array | bytearray) else array(code, row)
    return torch.frombuffer(held, dtype=held_as)


def of_similar_length(lengths: Sequence[int], worth: int) -> list[list[int]]:
    """Divide rows into batches of similar length, as long as each division saves enough padding.

    Args:
        lengths: tokens of N rows.
        worth: columns of padding that one more batch must save.

    Returns:
        row numbers of each batch, those of short rows first; each row is in one batch.

    Example:
        >>> of_similar_length([3, 90, 5, 100], worth=50)
        [[0, 2], [1, 3]]
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return _divided(order, [lengths[row] for row in order], worth)


def _divided(rows: list[int], lengths: list[int], worth: int) -> list[list[int]]:
    """The same for rows in order of length: where most is saved, then each side again."""
    saved = [size * (lengths[-1] - lengths[size - 1]) for size in range(1, len(rows))]
    most = max(saved, default=0)
    if most < max(worth, 1):
        return [rows]
    size = saved.index(most) + 1
    return _divided(rows[:size], lengths[:size], worth) + _divided(rows[size:], lengths[size:], worth)
