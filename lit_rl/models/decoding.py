"""Decoding with causal language models of transformers, from a cache of the tokens that they have read.

:class:`BatchDecoder` copies a prompt's keys and values for each row and copies all of them again with each token.
:class:`SharedPromptDecoder` holds them once, and new rows may join rows that are being written. The queries of all rows
of a prompt are multiplied with the prompt's keys together; each row attends to its own tokens, which it writes into a
buffer, and the two results are weighted by their normalizers. The two classes differ by rounding.

Shared decoding replaces the model's attention function during a step. Whether a family of models allows this is tested
once, by :func:`lit_rl.models.probe.can_decode_from_shared_prompts`.

Letters: B distinct prompts, P tokens of the longest prompt, G largest number of rows of a prompt, n rows being written,
K heads of keys, each read by R heads of queries, D head size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from lit_rl.models.codecs.codec import Codec
from lit_rl.models.family import (
    UnsupportedModelError,
    accepted_forward_arguments,
    cache_argument_name,
    patched_attribute,
    text_config,
)
from lit_rl.models.padding import pad_left
from lit_rl.types import StopReason

_NO_LIMIT = 1 << 30


class BatchDecoder:
    """Rows that are written side by side, each by one token per step, from a cache of what the model has read.

    A policy makes a new decoding for each batch. :meth:`prefill` comes first; then the caller repeatedly chooses a
    token per row and appends these tokens. Use it in eval mode and without gradients. Prompts are padded on the left.
    """

    can_add_rows = False
    """True if :meth:`prefill` may be called again between two tokens, to append new rows."""

    room: Sequence[int]
    """Tokens that each row of the last :meth:`prefill` may write before the policy's positions are full."""

    def __init__(self, model: nn.Module, codec: Codec | None = None) -> None:
        self.model = model
        self.codec = codec
        self._cache_name = cache_argument_name(model)
        accepted = accepted_forward_arguments(model)
        self._takes_positions = "position_ids" in accepted
        self._fixed: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._max_positions = _NO_LIMIT if codec is None else codec.max_positions
        self._cache: Any = None

    def prefill(self, prompts: Sequence[Sequence[int]], copies: Tensor, max_tokens: int) -> Tensor:
        """Read each prompt once, then begin the rows that continue it.

        Args:
            prompts: ids of B distinct prompts, none of them empty.
            copies: [n] int64 on the CPU: the prompt that each row continues.
            max_tokens: largest number of tokens that a row writes.

        Returns:
            [n, V] logits of the first token of each of these rows.
        """
        self._cache = None
        pad_id = 0 if self.codec is None else self.codec.pad_id
        prompt_ids, prompt_mask = pad_left(prompts, pad_id, next(self.model.parameters()).device)
        positions = (prompt_mask.long().cumsum(-1) - 1).clamp(min=0)
        logits = self._forward(prompt_ids, prompt_mask.long(), positions)
        here = copies.to(logits.device)
        self.room = [max(1, self._max_positions - len(prompts[i])) for i in copies.tolist()]
        self._begin_rows(copies, prompt_mask, positions[here, -1], max_tokens)
        return logits[here]

    def _begin_rows(self, copies: Tensor, prompt_mask: Tensor, positions: Tensor, max_tokens: int) -> None:
        """Give each row the cache of its prompt."""
        self._positions = positions
        if len(copies) != len(prompt_mask) or not torch.equal(copies, torch.arange(len(copies))):
            self._cache.reorder_cache(copies.to(prompt_mask.device))
        self._length = prompt_mask.shape[1]
        self._mask = torch.ones(len(copies), self._length + max_tokens, dtype=torch.long, device=prompt_mask.device)
        self._mask[:, : self._length] = prompt_mask[copies.to(prompt_mask.device)].long()

    def decode_step(self, tokens: Tensor) -> Tensor:
        """Append tokens [n], one to each row; return the logits [n, V] of the next tokens."""
        self._length += 1
        self._advance_positions()
        return self._forward(tokens[:, None], self._mask[:, : self._length], self._positions[:, None])

    def _advance_positions(self) -> None:
        # A row that has ended but was not dropped yet may have used its last position; its new logits are not read.
        self._positions = (self._positions + 1).clamp(max=self._max_positions - 1)

    def keep_rows(self, rows: Tensor) -> None:
        """Keep only the rows with the given numbers, in the given order; ``rows`` is on the CPU."""
        rows = rows.to(self._mask.device)
        self._cache.reorder_cache(rows)
        self._mask = self._mask[rows]
        self._positions = self._positions[rows]

    def stop_reason_if_ended(
        self, prompt: Sequence[int], ids: Sequence[int], stop_strings: Sequence[str]
    ) -> StopReason | None:
        """Return the reason a row ends with its last token, if it does; the caller enforces token limits."""
        if self.codec is None:
            return None
        if ids[-1] in self.codec.eos_ids:
            return StopReason.EOS
        return StopReason.STOP_STRING if self.codec.contains_stop(ids, stop_strings) else None

    def _forward(self, ids: Tensor, mask: Tensor | None, positions: Tensor) -> Tensor:
        given = self._fixed | ({"position_ids": positions} if self._takes_positions else {})
        if self._cache is not None:
            given[self._cache_name] = self._cache
        if self._cache is None or self._cache_name != "cache_params":  # a state that was read holds no pads to mask
            given["attention_mask"] = mask
        output = self.model(input_ids=ids, use_cache=True, **given)
        if self._cache is None:  # families of models make different kinds of caches
            self._cache = getattr(output, self._cache_name, None)
        logits: Tensor = output.logits[:, -1]
        return logits


_FIRST_ROOM = 32
"""Tokens that new buffers have room for; the room is doubled when the buffers are full."""
_MAX_SLOTS = 4
"""Prompts are shared while there are at most this many slots (B x G) per row; else each row has a prompt of its own."""
_MAX_PARTS, _ROWS_OF_PART = 4, 16
"""Most parts, and fewest rows of a part, in which rows that began at different times read their own tokens."""
_HARMLESS = {"dropout", "is_causal", "position_ids", "cache_position", "use_cache", "output_attentions"}
_HARMLESS |= {"output_router_logits"}


class PromptGroups:
    """Table of the prompt, and the columns of the buffer, that each row reads.

    Each row has one of B x G slots; the slots of a prompt are side by side. All rows write each new column together, so
    rows that joined later have no earlier columns. Numbers of rows, prompts and columns are kept on the CPU.
    """

    def __init__(self, prompt_mask: Tensor) -> None:
        self.bias = torch.zeros(0, prompt_mask.shape[1], device=prompt_mask.device)
        self.prompt_of_row = self.first_column = torch.zeros(0, dtype=torch.long)
        self.written = 0
        self.parts: list[tuple[slice, slice, Tensor | None]] = []  # rows, columns and a bias [rows, columns]

    def add_rows(self, copies: Tensor, prompt_mask: Tensor, layers: Sequence[SharedPromptCacheLayer]) -> None:
        """Add rows that continue the prompts just read."""
        self.prompt_of_row = torch.cat([self.prompt_of_row, copies + len(self.bias)])
        self.first_column = torch.cat([self.first_column, torch.full_like(copies, self.written)])
        bias = torch.zeros(prompt_mask.shape, device=prompt_mask.device).masked_fill(~prompt_mask, -torch.inf)
        self.bias = _stack_prompts(self.bias[..., None], bias[..., None], -torch.inf)[..., 0]
        self.drop_prompts_and_assign_slots(layers)

    def keep_rows(self, rows: Tensor, layers: Sequence[SharedPromptCacheLayer]) -> None:
        """Keep these rows, and drop columns that belong to no row any more."""
        self.prompt_of_row, self.first_column = self.prompt_of_row[rows], self.first_column[rows]
        oldest = int(self.first_column.min())
        for layer in layers:
            layer.copy_to_new_buffers(rows.to(layer.keys.device), slice(oldest, self.written), layer.keys.shape[-2])
        self.written -= oldest
        self.first_column = self.first_column - oldest
        self.drop_prompts_and_assign_slots(layers)

    def begin_column(self) -> None:
        """Begin a column of the buffer; every row is about to write a token."""
        self.written += 1
        self.parts = []
        for rows, first, last in self.began:
            bias = None  # not needed by rows that began together
            if first < last:
                columns = torch.arange(first, self.written, device=self.bias.device)
                first_column = self.first_column[rows, None].to(self.bias.device)
                bias = torch.zeros(len(first_column), len(columns), device=columns.device)
                bias = bias.masked_fill(columns < first_column, -torch.inf)
            self.parts.append((rows, slice(first, self.written), bias))

    def drop_prompts_and_assign_slots(self, layers: Sequence[SharedPromptCacheLayer]) -> None:
        """Drop prompts that no row reads, divide the rows into parts, and give each row a slot."""
        # If rows began at different times, the youngest rows, which come last, read only a few columns.
        columns = self.first_column.tolist()
        most = _MAX_PARTS if min(columns) < max(columns) else 1
        size = math.ceil(len(columns) / max(1, min(most, len(columns) // _ROWS_OF_PART)))
        parts = [(start, columns[start : start + size]) for start in range(0, len(columns), size)]
        self.began = [(slice(start, start + len(part)), min(part), max(part)) for start, part in parts]
        needed, prompt_of_row, counts = torch.unique(self.prompt_of_row, return_inverse=True, return_counts=True)
        num_rows, self.size = len(prompt_of_row), int(counts.max())
        if len(needed) * self.size > _MAX_SLOTS * num_rows:
            needed, self.size = self.prompt_of_row, 1
            prompt_of_row, counts = torch.arange(num_rows), torch.ones_like(needed)
        if not torch.equal(needed, torch.arange(len(self.bias))):
            kept = needed.to(self.bias.device)
            self.bias = self.bias[kept]
            for layer in layers:
                layer.prompt_keys, layer.prompt_values = layer.prompt_keys[kept], layer.prompt_values[kept]
        self.prompt_of_row = prompt_of_row
        order = prompt_of_row.argsort(stable=True)
        place = torch.arange(num_rows) - (counts.cumsum(0) - counts)[prompt_of_row[order]]
        slots = torch.empty_like(order).scatter_(0, order, prompt_of_row[order] * self.size + place)
        self.slots = slots.to(self.bias.device)

    def group_by_prompt(self, rows: Tensor) -> Tensor:
        """Regroup rows [n, K, R, D] by prompt: [B, K, G * R, D], with K heads of keys and R queries for each."""
        heads, repeats, size = rows.shape[1:]
        slots = rows.new_zeros(len(self.bias) * self.size, heads, repeats, size).index_copy_(0, self.slots, rows)
        by_prompt = slots.view(len(self.bias), self.size, heads, repeats, size).transpose(1, 2)
        return by_prompt.reshape(len(self.bias), heads, self.size * repeats, size)

    def ungroup_to_rows(self, prompts: Tensor, repeats: int) -> Tensor:
        """Undo :meth:`group_by_prompt`: return [B, K, G * R, D] by prompt as rows [n, K, R, D]."""
        count, heads, _, size = prompts.shape
        slots = prompts.view(count, heads, self.size, repeats, size).transpose(1, 2)
        return slots.reshape(count * self.size, heads, repeats, size)[self.slots]


class SharedPromptCacheLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer: [B, K, P, D] of prompts, and [n, K, room, D] of the rows' own tokens."""

    def __init__(self, like: DynamicLayer, groups: PromptGroups) -> None:
        super().__init__()
        self.groups = groups
        self.is_initialized = True
        self.prompt_keys, self.prompt_values = like.keys[:0], like.values[:0]
        self.keys = _zero_token_buffer(like.keys, 0, _FIRST_ROOM)
        self.values = _zero_token_buffer(like.values, 0, _FIRST_ROOM)

    def add_rows(self, read: DynamicLayer, num_rows: int) -> None:
        """Add prompts that were just read, and empty buffers for the rows that begin with them."""
        self.prompt_keys = _stack_prompts(self.prompt_keys, read.keys)
        self.prompt_values = _stack_prompts(self.prompt_values, read.values)
        room = self.keys.shape[-2]
        self.keys = torch.cat([self.keys, _zero_token_buffer(self.keys, num_rows, room)])
        self.values = torch.cat([self.values, _zero_token_buffer(self.values, num_rows, room)])

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> Any:
        """Write a token of each row; the attention function gets the returned layer itself in place of keys."""
        column, room = self.groups.written - 1, self.keys.shape[-2]
        if column == room:
            self.copy_to_new_buffers(slice(None), slice(room), 2 * room)
        self.keys[:, :, column] = keys[:, :, 0]
        self.values[:, :, column] = values[:, :, 0]
        return self, None

    def copy_to_new_buffers(self, rows: Tensor | slice, columns: slice, room: int) -> None:
        """Move the keys and values of some rows and columns into buffers with room for ``room`` tokens."""
        kept = [x[:, :, columns][rows] for x in (self.keys, self.values)]
        self.keys, self.values = (_zero_token_buffer(x, len(x), room) for x in kept)
        for buffer, x in zip((self.keys, self.values), kept, strict=True):
            buffer[:, :, : x.shape[-2]] = x


def _zero_token_buffer(like: Tensor, rows: int, room: int) -> Tensor:
    """Return zeros, since masked entries must still be numbers."""
    return like.new_zeros(rows, like.shape[1], room, like.shape[-1])


def _stack_prompts(above: Tensor, below: Tensor, value: float = 0.0) -> Tensor:
    """Stack prompts [.., P, D] above others, with the shorter ones padded on the left."""
    width = max(above.shape[-2], below.shape[-2])
    return torch.cat([nn.functional.pad(x, (0, 0, width - x.shape[-2], 0), value=value) for x in (above, below)])


def attend_to_shared_prompts(
    module: nn.Module, query: Tensor, layer: Any, _: None, mask: None, scaling: float | None = None, **more: Any
) -> tuple[Tensor, None]:
    """Compute the attention of one new token per row: query [n, heads, 1, D], output [n, 1, heads, D]."""
    unknown = {name for name, value in more.items() if value is not None and name not in _HARMLESS}
    if not isinstance(layer, SharedPromptCacheLayer) or mask is not None or unknown:
        raise UnsupportedModelError(
            f"shared prompts do not support this model's attention ({', '.join(sorted(unknown))})"
        )
    groups, heads = layer.groups, layer.keys.shape[1]
    num_rows, size = len(query), query.shape[-1]
    query = (query * (size**-0.5 if scaling is None else scaling)).view(num_rows, heads, -1, size)
    repeats = query.shape[2]
    prompt, prompt_norm = _attention_and_lognorm(
        groups.group_by_prompt(query), layer.prompt_keys, layer.prompt_values, groups.bias
    )
    prompt, prompt_norm = groups.ungroup_to_rows(prompt, repeats), groups.ungroup_to_rows(prompt_norm, repeats)
    of_own = [
        _attention_and_lognorm(query[rows], layer.keys[rows, :, columns], layer.values[rows, :, columns], bias)
        for rows, columns, bias in groups.parts
    ]
    own, own_norm = of_own[0] if len(of_own) == 1 else map(torch.cat, zip(*of_own, strict=True))
    output = own.lerp(prompt, (prompt_norm - own_norm).sigmoid().to(own.dtype))
    return output.reshape(num_rows, 1, heads * repeats, -1), None


def _attention_and_lognorm(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return attention [.., Q, D] to some of the keys, and the logarithm [.., Q, 1] of its normalizer."""
    scores = (query @ keys.mT).to(torch.promote_types(query.dtype, torch.float32))
    if bias is not None:
        scores += bias[:, None, None]
    weights = scores.softmax(-1)
    # The largest weight is at least 1 / (number of keys), so its logarithm is safe.
    norm = scores.amax(-1, keepdim=True) - weights.amax(-1, keepdim=True).log()
    return weights.to(values.dtype) @ values, norm


_NAME = "lit_rl_shared_prompts"


class SharedPromptDecoder(BatchDecoder):
    """Decoding with a causal LM of transformers whose cache holds keys and values of all tokens, and nothing else."""

    can_add_rows = True

    def __init__(self, model: nn.Module, codec: Codec | None = None) -> None:
        super().__init__(model, codec)
        if not self._takes_positions:
            raise UnsupportedModelError("the model takes positions from its mask, and shared prompts have no mask")
        self._groups: PromptGroups | None = None

    def _begin_rows(self, copies: Tensor, prompt_mask: Tensor, positions: Tensor, max_tokens: int) -> None:
        read = self._cache
        if type(read) is not DynamicCache or {*map(type, read.layers)} != {DynamicLayer}:
            raise UnsupportedModelError("the model's cache holds not only keys and values")
        if self._groups is None:
            self._groups, self._positions = PromptGroups(prompt_mask), positions[:0]
            self._shared = Cache(layers=[SharedPromptCacheLayer(layer, self._groups) for layer in read.layers])
        self._cache = self._shared
        self._positions = torch.cat([self._positions, positions])
        for shared, layer in zip(self._cache.layers, read.layers, strict=True):
            shared.add_rows(layer, len(copies))
        self._groups.add_rows(copies, prompt_mask, self._cache.layers)

    def decode_step(self, tokens: Tensor) -> Tensor:
        assert self._groups is not None
        self._advance_positions()
        self._groups.begin_column()
        with patched_attribute(text_config(self.model), "_attn_implementation", _NAME):
            return self._forward(tokens[:, None], None, self._positions[:, None])

    def keep_rows(self, rows: Tensor) -> None:
        assert self._groups is not None
        self._positions = self._positions[rows.to(self._positions.device)]
        self._groups.keep_rows(rows, self._cache.layers)


AttentionInterface.register(_NAME, attend_to_shared_prompts)
