"""Masked statistics, the denominator of losses, and groups of rows as rows of a table.

Letters: N completions (rows), T completion tokens, padded on the right, B groups, G rows of the largest group. Masks
are bool, and True counts; the mask of a row may have holes, where the environment spoke. Values where a mask is False
never matter, even if they are NaN. Rows of a group need not be adjacent, and groups may differ in size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, assert_never

import torch
from torch import Tensor


def require_same_shape(like: Tensor, **tensors: Tensor) -> None:
    """Raise unless the named tensors have the shape of ``like``: a broadcast tensor would be silently wrong."""
    for name, tensor in tensors.items():
        if tensor.shape != like.shape:
            raise ValueError(f"{name} must be {[*like.shape]} like the values beside it, got {[*tensor.shape]}")


def dtype_for_sums(x: Tensor) -> torch.dtype:
    """Return the dtype for sums of ``x``: float64 if the device supports it.

    In float64 the mean of equal float32 numbers is that number itself, so that "no difference" stays exactly zero,
    however small its later divisor is.
    """
    return torch.float32 if x.device.type == "mps" else torch.float64


def dtype_at_least_float32(x: Tensor) -> torch.dtype:
    """Return float64 for float64, else float32: scores may be counts, and logits may be in half precision."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


AggregateMode = Literal["token_mean", "sequence_mean", "sequence_sum", "sequence_sum_constant"]
"""Reduction of token losses to one number; see :func:`aggregate`."""

SumOverRanks = Callable[[Tensor], Tensor]
"""Function that sums a small tensor over all ranks and returns the total, which is the same on each rank."""


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the entries that count; 0 if none counts.

        mean = sum(x * mask) / max(sum(mask), 1)

    Use it for metrics and statistics; losses need :func:`aggregate`, whose denominator spans the update.

    Args:
        x: any shape, float. May carry a gradient.
        mask: bool, shape of ``x``.

    Returns:
        Scalar. Unit of ``x``.

    Example:
        >>> masked_mean(torch.tensor([1.0, 3.0, 100.0]), torch.tensor([True, True, False]))
        tensor(2.)
    """
    require_same_shape(x, mask=mask)
    kept = torch.where(mask, x, torch.zeros_like(x))
    return kept.sum() / mask.sum().clamp(min=1)


def masked_whiten(x: Tensor, mask: Tensor, *, sum_over_ranks: SumOverRanks | None = None, eps: float = 1e-8) -> Tensor:
    """Shift and scale the entries that count to mean 0 and variance 1.

        y = (x - mean) / sqrt(var + eps)        var with n - 1

    Whiten once per rollout, over all ranks: statistics of a micro-batch would make the gradient depend
    on the split. A single entry, or entries that are all equal, become 0 (float32 or narrower input).

    Args:
        x: any shape, float. No gradient is meant to flow.
        mask: bool, shape of ``x``.
        sum_over_ranks: given a [2] and then a [1] tensor of local sums, returns the sums over all ranks. Every rank
            calls it twice, even a rank whose mask is empty. ``None`` if ``x`` is all there is.
        eps: added to the variance. Squared unit of ``x``.

    Returns:
        Shape and dtype of ``x``, unitless, 0 outside the mask.

    Source:
        advantage normalisation, detail 7 of Huang et al. 2022,
        https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/

    Example:
        >>> masked_whiten(torch.tensor([1.0, 2.0, 3.0, 9.0]), torch.tensor([True, True, True, False]))
        tensor([-1.,  0.,  1.,  0.])
    """
    mean, variance, _ = masked_moments(x, mask, sum_over_ranks=sum_over_ranks)
    centred = x.to(mean.dtype) - mean
    whitened = centred * torch.rsqrt(variance + eps)
    return torch.where(mask, whitened, torch.zeros_like(whitened)).to(x.dtype)


def masked_moments(
    x: Tensor, mask: Tensor, *, sum_over_ranks: SumOverRanks | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean, variance (n - 1) and number of the entries that count, over all ranks.

    The mean gets a pass of its own: the difference of large sums of squares would lose small variances.

    Args:
        x: any shape, float.
        mask: bool, shape of ``x``.
        sum_over_ranks: as in :func:`masked_whiten`.

    Returns:
        Three scalars in float64: mean, variance (0 for fewer than two entries), count.

    Example:
        >>> mean, variance, count = masked_moments(torch.tensor([1.0, 3.0]), torch.tensor([True, True]))
        >>> mean.item(), variance.item(), count.item()
        (2.0, 2.0, 2.0)
    """
    require_same_shape(x, mask=mask)
    total = sum_over_ranks or (lambda local: local)
    wide = dtype_for_sums(x)
    kept = torch.where(mask, x, torch.zeros_like(x)).to(wide)
    sum_and_count = total(torch.stack([kept.sum(), mask.sum().to(wide)]))
    count = sum_and_count[1]
    mean = sum_and_count[0] / count.clamp(min=1)
    deviations = torch.where(mask, kept - mean, torch.zeros_like(kept))
    squares = total(deviations.square().sum().reshape(1))[0]
    return mean, squares / (count - 1).clamp(min=1), count


def last_token_mask(mask: Tensor) -> Tensor:
    """Mark the last entry that counts in each row.

    Returns:
        [N, T] bool, one True per row; none in a row where nothing counts.

    Example:
        >>> last_token_mask(torch.tensor([[True, False, True, False], [False, False, False, False]])).long()
        tensor([[0, 0, 1, 0],
                [0, 0, 0, 0]])
    """
    return mask & (mask.cumsum(-1) == mask.sum(-1, keepdim=True))


def end_column_per_row(mask: Tensor) -> Tensor:
    """Return the column after the last entry that counts in each row; holes before it make no difference.

    Returns:
        [N] int64; 0 for a row where nothing counts.

    Example:
        >>> end_column_per_row(torch.tensor([[True, False, True, False], [False, False, False, False]]))
        tensor([3, 0])
    """
    after = mask.flip(-1).cumsum(-1) == 0
    return mask.shape[-1] - after.sum(-1)


def loss_denominator(mask: Tensor, mode: AggregateMode, *, constant_tokens: int | None = None) -> Tensor:
    """Return this mask's share of the number that :func:`aggregate` divides by.

        token_mean:             number of tokens
        sequence_mean, _sum:    number of rows with at least one token
        sequence_sum_constant:  that number of rows * constant_tokens

    Shares add up: sum them over the micro-batches of an update and over ranks, then hand the total to
    every :func:`aggregate` of that update.

    Args:
        mask: [N, T] bool.
        mode: as in :func:`aggregate`.
        constant_tokens: the constant of ``sequence_sum_constant``, usually the token limit; no other mode reads it.

    Returns:
        Scalar float64 (float32 on a device without float64); 0 for an empty mask. No gradient.

    Example:
        >>> mask = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
        >>> loss_denominator(mask, "token_mean"), loss_denominator(mask, "sequence_mean")
        (tensor(4., dtype=torch.float64), tensor(2., dtype=torch.float64))
    """
    wide = dtype_for_sums(mask)
    if mode == "token_mean":
        return mask.sum().to(wide)
    rows = mask.any(-1).sum().to(wide)
    if mode != "sequence_sum_constant":
        return rows
    assert constant_tokens is not None
    return rows * constant_tokens


def aggregate(token_loss: Tensor, mask: Tensor, *, mode: AggregateMode, denominator: Tensor | float) -> Tensor:
    """Sum the token losses that count, and divide by the denominator of the whole update.

        token_mean:             sum_it m_it l_it / D                  all tokens weigh the same (DAPO)
        sequence_mean:          sum_i (mean_t l_it) / D               all completions weigh the same (GRPO)
        sequence_sum:           sum_i (sum_t l_it) / D                log-probability of the whole completion
        sequence_sum_constant:  sum_i (sum_t l_it) / D                D holds a constant length (Dr. GRPO)

    D is :func:`loss_denominator` summed over all micro-batches and ranks of the update, so any split of the
    rows gives the same gradient. DDP and FSDP average gradients over ranks: pass D / world_size there.
    D may count rows that were left out here, as when rows without a learning signal skip the forward.

    An empty mask gives a 0 that is still part of the graph: a rank without a backward would stop the other ranks.

    Args:
        token_loss: [N, T] loss per token. Carries the gradient.
        mask: [N, T] bool. Rows are whole: a completion is never split over micro-batches.
        mode: see above. ``sequence_mean`` punishes a long wrong answer less per token than a short one.
        denominator: D, a scalar; 0 is allowed if no token counts.

    Returns:
        Scalar in the unit of ``token_loss``; the sum over micro-batches is the update's loss.

    Source:
        sequence_mean: Shao et al. 2024, eq. 3, https://arxiv.org/abs/2402.03300
        token_mean: Yu et al. 2025, eq. 12, https://arxiv.org/abs/2503.14476
        sequence_sum_constant: Liu et al. 2025, section 3, https://arxiv.org/abs/2503.20783

    Example:
        >>> loss = torch.tensor([[1.0, 1.0], [4.0, 0.0]])
        >>> mask = torch.tensor([[True, True], [True, False]])
        >>> aggregate(loss, mask, mode="token_mean", denominator=3), aggregate(
        ...     loss, mask, mode="sequence_mean", denominator=2
        ... )
        (tensor(2.), tensor(2.5000))
    """
    require_same_shape(token_loss, mask=mask)
    kept = torch.where(mask, token_loss, torch.zeros_like(token_loss))
    match mode:
        case "token_mean" | "sequence_sum" | "sequence_sum_constant":
            numerator = kept.sum()
        case "sequence_mean":
            numerator = (kept.sum(-1) / mask.sum(-1).clamp(min=1)).sum()
        case _:
            assert_never(mode)
    divisor = torch.as_tensor(denominator, dtype=token_loss.dtype, device=token_loss.device)
    # 0 / 0 happens when no rank has a token; the numerator is an exact 0 then.
    return numerator / torch.where(divisor > 0, divisor, torch.ones_like(divisor)).reshape(())


def to_table(values: Tensor, group_ids: Tensor, *, fill: float | bool = 0, columns: int = 1) -> Tensor:
    """Arrange the rows' values in a table with one table row per group, in the order of the groups' numbers.

    Args:
        values: [N] of any type.
        group_ids: [N] int64.
        fill: value where a group has no more rows.
        columns: smallest number of columns.

    Returns:
        [B, G], or [B, ``columns``] if that is more. Equals ``values.view(B, G)`` if groups have one size and are
        contiguous and in order.

    Example:
        >>> to_table(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([7, 4, 7]))
        tensor([[2., 0.],
                [1., 3.]])
    """
    group, column, sizes = _group_table_cells(group_ids)
    width = max(columns, int(sizes.max()) if len(sizes) else 0)
    table = values.new_full((len(sizes), width), fill)
    table[group, column] = values
    return table


def from_table(table: Tensor, group_ids: Tensor) -> Tensor:
    """Return the values of a table from :func:`to_table`, in the order of the rows again.

    Returns:
        [N].

    Example:
        >>> ids = torch.tensor([7, 4, 7])
        >>> from_table(to_table(torch.tensor([1.0, 2.0, 3.0]), ids), ids)
        tensor([1., 2., 3.])
    """
    group, column, _ = _group_table_cells(group_ids)
    return table[group, column]


def group_size_per_row(group_ids: Tensor) -> Tensor:
    """Count the rows of each row's group.

    Returns:
        [N] int64.

    Example:
        >>> group_size_per_row(torch.tensor([7, 4, 7]))
        tensor([2, 1, 2])
    """
    group, _, sizes = _group_table_cells(group_ids)
    return sizes[group]


def _group_table_cells(group_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the table row [N] and column [N] of each row, and the number of rows [B] of each group."""
    order = group_ids.argsort(stable=True)
    _, group, sizes = torch.unique_consecutive(group_ids[order], return_inverse=True, return_counts=True)
    starts = sizes.cumsum(0) - sizes
    column = torch.arange(len(order), device=order.device) - starts[group]
    back = order.argsort()
    return group[back], column[back], sizes
