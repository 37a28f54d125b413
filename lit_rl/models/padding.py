"""Rows of unequal length as one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def pad_left(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Ids [B, P] and mask [B, P] of rows of unequal length."""
    width = max((len(row) for row in rows), default=0)
    ids = torch.full((len(rows), width), pad_id, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        if row:
            ids[i, width - len(row) :] = torch.tensor(row, dtype=torch.long)
            mask[i, width - len(row) :] = True
    return ids.to(device), mask.to(device)


def pad_right(rows: Sequence[Sequence[float]], value: float, dtype: torch.dtype) -> Tensor:
    """[N, T] of rows of unequal length, on the CPU."""
    width = max((len(row) for row in rows), default=0)
    padded = torch.full((len(rows), width), value, dtype=dtype)
    for i, row in enumerate(rows):
        if row:
            padded[i, : len(row)] = torch.tensor(row, dtype=dtype)
    return padded
