"""Groups of rows, each named by a number, as the rows of a table.

Letters: N rows, B groups, G rows of the largest group. Rows of a group need not be adjacent, nor need groups have the
same size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lit_rl.functional.masking import shape_of


def lay_out(values: Tensor, group_ids: Tensor, *, fill: float | bool = 0, columns: int = 1) -> Tensor:
    """Values of the rows as a table with one group per row, in the order of the groups' numbers.

    Args:
        values: [N] of any type.
        group_ids: [N] int64.
        fill: value where a group has no more rows.
        columns: smallest number of columns.

    Returns:
        [B, G], or [B, ``columns``] if that is more. Equals ``values.view(B, G)`` if groups have one size and are
        contiguous and in order.

    Raises:
        ValueError: shapes differ.

    Example:
        >>> lay_out(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([7, 4, 7]))
        tensor([[2., 0.],
                [1., 3.]])
    """
    if values.shape != group_ids.shape or values.dim() != 1:
        raise ValueError(f"values and group_ids must be [N], got {shape_of(values)} and {shape_of(group_ids)}")
    group, column, sizes = _cells(group_ids)
    width = max(columns, int(sizes.max()) if len(sizes) else 0)
    table = values.new_full((len(sizes), width), fill)
    table[group, column] = values
    return table


def pick_up(table: Tensor, group_ids: Tensor) -> Tensor:
    """Rows of a table from :func:`lay_out`, in their own order again.

    Args:
        table: [B, G].
        group_ids: [N] int64.

    Returns:
        [N].

    Example:
        >>> ids = torch.tensor([7, 4, 7])
        >>> pick_up(lay_out(torch.tensor([1.0, 2.0, 3.0]), ids), ids)
        tensor([1., 2., 3.])
    """
    group, column, _ = _cells(group_ids)
    return table[group, column]


def group_sizes(group_ids: Tensor) -> Tensor:
    """How many rows the group of each row has.

    Args:
        group_ids: [N] int64.

    Returns:
        [N] int64.

    Example:
        >>> group_sizes(torch.tensor([7, 4, 7]))
        tensor([2, 1, 2])
    """
    group, _, sizes = _cells(group_ids)
    return sizes[group]


def _cells(group_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Table row and column [N] of each row, and the number of rows of each group [B]."""
    order = group_ids.argsort(stable=True)
    _, group, sizes = torch.unique_consecutive(group_ids[order], return_inverse=True, return_counts=True)
    starts = sizes.cumsum(0) - sizes
    column = torch.arange(len(order), device=order.device) - starts[group]
    back = order.argsort()
    return group[back], column[back], sizes
