"""Keys and values of prompts, held once, and of the tokens that their rows write; and the attention that reads both.

The queries of all rows of a prompt are multiplied with its keys at once. Each row attends to its own tokens beside
that, and the two results are weighed by their normalizers.

Letters: B prompts, P tokens of the longest, G most rows of a prompt, n rows being written, K heads of keys, each read
by R heads of queries, D head size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import DynamicLayer

from lit_rl.models.family import UnsupportedModelError

_FIRST_ROOM = 32
"""Tokens that the buffers first have room for; doubled when they are full."""
_MOST_SLOTS = 4
"""Prompts are shared while there are at most this many slots, B x G, per row; else one row has one prompt."""
_MOST_PARTS, _ROWS_OF_PART = 4, 16
"""Rows that began at different times read their own tokens in at most this many parts, of at least this many rows."""
_HARMLESS = {"dropout", "is_causal", "position_ids", "cache_position", "use_cache", "output_attentions"}
_HARMLESS |= {"output_router_logits"}


Part = tuple[slice, slice, Tensor | None]
"""Rows, columns and a bias [rows, columns]."""


class Groups:
    """Which rows read which prompt, and which columns of the buffers are theirs.

    Row i is one of B x G slots, those of a prompt side by side. Rows write into the same column at the same time, so
    those that joined late have none before their first.
    """

    def __init__(self, prompt_mask: Tensor) -> None:
        self.bias = torch.zeros(0, prompt_mask.shape[1], device=prompt_mask.device)
        self.prompt_of_row = self.first_column = torch.zeros(0, dtype=torch.long, device=prompt_mask.device)
        self.written = 0

    def join(self, copies: Tensor, prompt_mask: Tensor, layers: Sequence[SharedLayer]) -> None:
        """Add rows that go on from prompts that were read just now."""
        self.prompt_of_row = torch.cat([self.prompt_of_row, copies + len(self.bias)])
        self.first_column = torch.cat([self.first_column, torch.full_like(copies, self.written)])
        bias = torch.zeros(prompt_mask.shape, device=copies.device).masked_fill(~prompt_mask, -torch.inf)
        self.bias = _stacked(self.bias[..., None], bias[..., None], -torch.inf)[..., 0]
        self.fit(layers)

    def keep(self, rows: Tensor, layers: Sequence[SharedLayer]) -> None:
        """Drop the other rows, and columns that belong to none any more."""
        self.prompt_of_row, self.first_column = self.prompt_of_row[rows], self.first_column[rows]
        oldest = int(self.first_column.min())
        for layer in layers:
            layer.move(rows, slice(oldest, self.written), layer.keys.shape[-2])
        self.written -= oldest
        self.first_column = self.first_column - oldest
        self.fit(layers)

    def begin_column(self) -> None:
        """Every row is about to write a token."""
        self.written += 1
        self.parts = [
            (rows, slice(first, self.written), self._bias(rows, first, last)) for rows, first, last in self.began
        ]

    def _bias(self, rows: slice, first: int, last: int) -> Tensor | None:
        """[rows, columns] of rows that began between two columns; ``None`` if they began together."""
        if first == last:
            return None
        columns = torch.arange(first, self.written, device=self.first_column.device)
        first_column = self.first_column[rows, None]
        bias = torch.zeros(len(first_column), len(columns), device=columns.device)
        return bias.masked_fill(columns < first_column, -torch.inf)

    def divide(self) -> None:
        """Divide rows that began at different times: the youngest, which come last, read a few columns only."""
        columns = self.first_column.tolist()
        most = _MOST_PARTS if min(columns) < max(columns) else 1
        size = math.ceil(len(columns) / max(1, min(most, len(columns) // _ROWS_OF_PART)))
        parts = [(start, columns[start : start + size]) for start in range(0, len(columns), size)]
        self.began = [(slice(start, start + len(part)), min(part), max(part)) for start, part in parts]

    def fit(self, layers: Sequence[SharedLayer]) -> None:
        """Drop prompts that no row reads, and give each row a slot."""
        self.divide()
        needed, prompt_of_row, counts = torch.unique(self.prompt_of_row, return_inverse=True, return_counts=True)
        num_rows, self.size = len(prompt_of_row), int(counts.max())
        if len(needed) * self.size > _MOST_SLOTS * num_rows:
            needed, self.size = self.prompt_of_row, 1
            prompt_of_row, counts = torch.arange(num_rows, device=needed.device), torch.ones_like(needed)
        if not torch.equal(needed, torch.arange(len(self.bias), device=needed.device)):
            self.bias = self.bias[needed]
            for layer in layers:
                layer.prompt_keys, layer.prompt_values = layer.prompt_keys[needed], layer.prompt_values[needed]
        self.prompt_of_row = prompt_of_row
        order = prompt_of_row.argsort(stable=True)
        place = torch.arange(num_rows, device=order.device) - (counts.cumsum(0) - counts)[prompt_of_row[order]]
        self.slots = torch.empty_like(order).scatter_(0, order, prompt_of_row[order] * self.size + place)

    def gather(self, rows: Tensor) -> Tensor:
        """[n, K, R, D] of rows as [B, K, G * R, D] of prompts."""
        heads, repeats, size = rows.shape[1:]
        slots = rows.new_zeros(len(self.bias) * self.size, heads, repeats, size).index_copy_(0, self.slots, rows)
        by_prompt = slots.view(len(self.bias), self.size, heads, repeats, size).transpose(1, 2)
        return by_prompt.reshape(len(self.bias), heads, self.size * repeats, size)

    def scatter(self, prompts: Tensor, repeats: int) -> Tensor:
        """[B, K, G * R, D] of prompts as [n, K, R, D] of rows."""
        count, heads, _, size = prompts.shape
        slots = prompts.view(count, heads, self.size, repeats, size).transpose(1, 2)
        return slots.reshape(count * self.size, heads, repeats, size)[self.slots]


class SharedLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer: [B, K, P, D] of prompts, and [n, K, room, D] of the rows' own tokens."""

    def __init__(self, like: DynamicLayer, groups: Groups) -> None:
        super().__init__()
        self.groups = groups
        self.is_initialized = True
        self.prompt_keys, self.prompt_values = like.keys[:0], like.values[:0]
        self.keys, self.values = (_empty(x, 0, _FIRST_ROOM) for x in (like.keys, like.values))

    def join(self, read: DynamicLayer, num_rows: int) -> None:
        """Add prompts that were read just now, and rows that have written nothing."""
        self.prompt_keys = _stacked(self.prompt_keys, read.keys)
        self.prompt_values = _stacked(self.prompt_values, read.values)
        room = self.keys.shape[-2]
        self.keys, self.values = (torch.cat([x, _empty(x, num_rows, room)]) for x in (self.keys, self.values))

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> Any:
        """Write a token of each row. The attention function gets the layer itself in place of keys."""
        column, room = self.groups.written - 1, self.keys.shape[-2]
        if column == room:
            self.move(slice(None), slice(room), 2 * room)
        self.keys[:, :, column] = keys[:, :, 0]
        self.values[:, :, column] = values[:, :, 0]
        return self, None

    def move(self, rows: Tensor | slice, columns: slice, room: int) -> None:
        """Move what some rows have written in some columns into buffers with this much room."""
        kept = [x[:, :, columns][rows] for x in (self.keys, self.values)]
        self.keys, self.values = (_empty(x, len(x), room) for x in kept)
        for buffer, x in zip((self.keys, self.values), kept, strict=True):
            buffer[:, :, : x.shape[-2]] = x


def _empty(like: Tensor, rows: int, room: int) -> Tensor:
    """Zeros: what is masked must still be a number."""
    return like.new_zeros(rows, like.shape[1], room, like.shape[-1])


def _stacked(above: Tensor, below: Tensor, value: float = 0.0) -> Tensor:
    """[.., P, D] of some prompts above others, the shorter ones padded on the left."""
    width = max(above.shape[-2], below.shape[-2])
    return torch.cat([nn.functional.pad(x, (0, 0, width - x.shape[-2], 0), value=value) for x in (above, below)])


def attend(
    module: nn.Module, query: Tensor, layer: Any, _: None, mask: None, scaling: float | None = None, **more: Any
) -> tuple[Tensor, None]:
    """Attention of one new token per row: query [n, heads, 1, D], output [n, 1, heads, D]."""
    unknown = {name for name, value in more.items() if value is not None and name not in _HARMLESS}
    if not isinstance(layer, SharedLayer) or mask is not None or unknown:
        raise UnsupportedModelError(f"the model's attention is more than that of shared prompts: {sorted(unknown)}")
    groups, heads = layer.groups, layer.keys.shape[1]
    num_rows, size = len(query), query.shape[-1]
    query = (query * (size**-0.5 if scaling is None else scaling)).view(num_rows, heads, -1, size)
    repeats = query.shape[2]
    of_prompt = _part(groups.gather(query), layer.prompt_keys, layer.prompt_values, groups.bias)
    prompt, prompt_norm = (groups.scatter(part, repeats) for part in of_prompt)
    of_own = [
        _part(query[rows], layer.keys[rows, :, columns], layer.values[rows, :, columns], bias)
        for rows, columns, bias in groups.parts
    ]
    own, own_norm = of_own[0] if len(of_own) == 1 else map(torch.cat, zip(*of_own, strict=True))
    output = own.lerp(prompt, (prompt_norm - own_norm).sigmoid().to(own.dtype))
    return output.reshape(num_rows, 1, heads * repeats, -1), None


def _part(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Attention [.., Q, D] to some of the keys, and the logarithm [.., Q, 1] of what normalizes it."""
    scores = (query @ keys.mT).to(torch.promote_types(query.dtype, torch.float32))
    if bias is not None:
        scores += bias[:, None, None]
    weights = scores.softmax(-1)
    # The largest weight is at least one by the number of keys, so its logarithm is safe.
    norm = scores.amax(-1, keepdim=True) - weights.amax(-1, keepdim=True).log()
    return weights.to(values.dtype) @ values, norm
