"""How rows are split: into minibatches, one for each update, and into pieces that go through the model together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

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
    completions: Completions,
    rows: Tensor,
    size: int | None,
    max_tokens: int | None = None,
    *,
    shares_prompts: bool,
    device: torch.device,
) -> Iterator[Tensor]:
    """Split rows into as many pieces on every rank; a rank with fewer pieces than another ends with empty ones.

    It must still take part in every forward and backward pass, or the others would wait for ever.

    Args:
        completions: all rows.
        rows: [n] numbers of those to split.
        size: most rows of a piece; ``None`` for any number.
        max_tokens: most tokens of a piece, see :func:`pieces_of`; ``None`` for any number.
        shares_prompts: whether rows of a piece that have the same prompt read it once.
        device: of the rank, for asking the others.
    """
    pieces = pieces_of(completions, rows, size, max_tokens, shares_prompts)
    for i in range(max_over_ranks(len(pieces), device)):
        yield pieces[i] if i < len(pieces) else rows[:0]


def pieces_of(
    completions: Completions, rows: Tensor, size: int | None, max_tokens: int | None, shares_prompts: bool
) -> list[Tensor]:
    """Divide rows into pieces that are cheap: the gradient is the same however they are divided.

    Pieces of rows of similar length need little padding; pieces of rows of one group read one prompt. The order that
    reads fewer tokens is used.

    Args:
        completions: all rows.
        rows: [n] numbers of those to divide.
        size: most rows of a piece; ``None`` for any number.
        max_tokens: most tokens of a piece, padding included, a prompt counted once for rows that share it; a row with
            more is a piece of its own. ``None`` for any number.
        shares_prompts: whether rows of a piece that have the same prompt read it once.

    Returns:
        numbers of the rows of each piece; no piece is empty.
    """
    num_tokens, groups = completions.num_tokens.cpu(), completions.group_ids.cpu()
    by_length = rows[num_tokens[rows].argsort(stable=True)]
    orders = [by_length]
    if shares_prompts and len(rows) > 1:
        longest = torch.zeros(int(groups.max()) + 1, dtype=num_tokens.dtype)
        longest.scatter_reduce_(0, groups[rows], num_tokens[rows], "amax")
        # By group, those of short completions first, and by length within a group: stable sorts, the last rules.
        by_group = by_length[groups[by_length].argsort(stable=True)]
        orders.append(by_group[longest[groups[by_group]].argsort(stable=True)])
    names = groups.tolist() if shares_prompts else range(len(completions))
    known = list(map(_Row, names, completions.prompt_mask.sum(-1).tolist(), num_tokens.tolist()))
    divided = [_divided(order.tolist(), known, size, max_tokens) for order in orders]
    cheapest = min(divided, key=lambda pieces: sum(piece.num_tokens for piece in pieces))
    return [torch.tensor(piece.rows) for piece in cheapest]


class _Row(NamedTuple):
    """What a row reads: the name and tokens of its prompt, and the tokens after it."""

    name: int
    prompt: int
    completion: int


class _Piece:
    """Rows that are read together, each padded to the longest, a prompt of one name once."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self._names: set[int] = set()
        self._prompt = self._completion = 0

    @property
    def num_tokens(self) -> int:
        return len(self._names) * self._prompt + len(self.rows) * self._completion

    def num_tokens_with(self, row: _Row) -> int:
        names = len(self._names) + (row.name not in self._names)
        completion = max(self._completion, row.completion)
        return names * max(self._prompt, row.prompt) + (len(self.rows) + 1) * completion

    def add(self, number: int, row: _Row) -> None:
        self.rows.append(number)
        self._names.add(row.name)
        self._prompt, self._completion = max(self._prompt, row.prompt), max(self._completion, row.completion)


def _divided(ordered: Sequence[int], known: Sequence[_Row], size: int | None, max_tokens: int | None) -> list[_Piece]:
    """Cut rows, in this order, wherever one more would be too many."""
    pieces: list[_Piece] = []
    for number in ordered:
        row, last = known[number], pieces[-1] if pieces else None
        if (
            last is None
            or len(last.rows) == size
            or (max_tokens is not None and last.num_tokens_with(row) > max_tokens)
        ):
            last = _Piece()
            pieces.append(last)
        last.add(number, row)
    return pieces


def idle(experience: Experience) -> Experience:
    """One row that counts for nothing: what a rank without rows sends through the model."""
    row = experience.select([0]).trim()
    return replace(row, row_mask=torch.zeros_like(row.row_mask))
