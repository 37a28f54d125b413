"""Which rows go through the model together."""

from __future__ import annotations

import torch
from torch import Tensor

from lit_rl.types import Completions


def in_order(completions: Completions, rows: Tensor, size: int, shares_prompts: bool) -> Tensor:
    """Order rows so that pieces of this many cost little: the gradient is the same for every order.

    Rows of similar length need no padding beside each other; rows of a group bring one prompt. The order that reads
    fewer tokens is taken.

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
