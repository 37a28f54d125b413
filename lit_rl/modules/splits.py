"""How rows are split: into minibatches, one for each update, and into pieces that go through the model together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from lit_rl.functional.masking import AggregateMode, loss_denominator
from lit_rl.training.ranks import max_over_ranks, sum_over_ranks, world_size
from lit_rl.types import Completions, Experience


def minibatches(num_rows: int, num_minibatches: int, seed: int) -> tuple[Tensor, ...]:
    """The row numbers of each minibatch, dealt out at random; only the seed decides the order."""
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))
    return order.tensor_split(num_minibatches)


def denominator_over_ranks(mask: Tensor, mode: AggregateMode, max_tokens: int) -> Tensor:
    """What the losses of a minibatch are divided by, however it is split over micro-batches and ranks.

    Gradients are averaged over ranks afterwards, so each rank divides by its share of the total.

    Args:
        mask: [N, T] bool, tokens of this rank's part of the minibatch that have a loss.
        mode: how token losses become one number.
        max_tokens: of a completion, for the mode that divides by a constant.
    """
    constant = max_tokens if mode == "sequence_sum_constant" else None
    return sum_over_ranks(loss_denominator(mask, mode, constant_tokens=constant)) / world_size()


def split_rows(
    completions: Completions, rows: Tensor, size: int | None, *, shares_prompts: bool, device: torch.device
) -> Iterator[Tensor]:
    """Split rows into as many pieces on every rank; a rank with fewer rows than another ends with empty pieces.

    It must still take part in every forward and backward pass, or the others would wait for ever.

    Args:
        completions: all rows.
        rows: [n] numbers of those to split.
        size: rows of a piece; ``None`` for one piece.
        shares_prompts: whether rows of a piece that have the same prompt read it once.
        device: of the rank, for asking the others.
    """
    size = size or max(1, len(rows))
    wanted = max_over_ranks(-(-len(rows) // size), device)
    ordered = in_order(completions, rows, size, shares_prompts)
    for i in range(wanted):
        yield ordered[i * size : (i + 1) * size]


def in_order(completions: Completions, rows: Tensor, size: int, shares_prompts: bool) -> Tensor:
    """Order rows so that pieces of this size are cheap: the gradient is the same for every order.

    Pieces of rows of similar length need little padding; pieces of rows of one group read one prompt. The order that
    reads fewer tokens is used.

    Args:
        completions: all rows.
        rows: [n] numbers of those to order.
        size: rows of a piece.
        shares_prompts: whether rows of a piece that have the same prompt read it once.

    Returns:
        [n] the same numbers.
    """
    num_tokens = completions.num_tokens.cpu()
    by_length = rows[num_tokens[rows].argsort(stable=True)]
    if not shares_prompts or size >= len(rows):
        return by_length
    groups = completions.group_ids.cpu()
    longest = torch.zeros(int(groups.max()) + 1, dtype=num_tokens.dtype)
    longest.scatter_reduce_(0, groups[rows], num_tokens[rows], "amax")
    # By group, those of short completions first, and by length within a group: stable sorts, the last decides first.
    by_group = by_length[groups[by_length].argsort(stable=True)]
    by_group = by_group[longest[groups[by_group]].argsort(stable=True)]
    prompts = completions.prompt_mask.sum(-1).cpu()

    def tokens_read(ordered: Tensor) -> int:
        read = 0
        for piece in torch.split(ordered, size):
            read += len(set(groups[piece].tolist())) * int(prompts[piece].max()) + len(piece) * int(
                num_tokens[piece].max()
            )
        return read

    return by_group if tokens_read(by_group) < tokens_read(by_length) else by_length


def idle(experience: Experience) -> Experience:
    """One row that counts for nothing: what a rank without rows sends through the model."""
    row = experience.select([0]).trim()
    return replace(row, row_mask=torch.zeros_like(row.row_mask))
