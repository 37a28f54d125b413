"""Decoding in which the rows of a prompt read its keys and values together, and write their own into a buffer.

:class:`CachedDecoding` copies a prompt's keys and values for each row and copies all of them again with each token.
Here they stay where the prompt's forward pass left them. A decode step multiplies the queries of all rows of a prompt
with them at once, attends to each row's own tokens beside that, and weighs the two results by their normalizers.
Numbers differ by rounding.

It replaces the model's attention function during a decode step. Whether a family of models bears that is tried once.

Letters: B prompts, P tokens of the longest, G most rows of a prompt, n rows being written, K heads of keys, each read
by R heads of queries, D head size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from lit_rl.models.cached_decoding import CachedDecoding
from lit_rl.models.codec import Codec
from lit_rl.models.family import UnsupportedModelError, text_config
from lit_rl.models.probe import decoded, probe_rows
from lit_rl.models.projection import relative_gap, tolerance
from lit_rl.training.modes import evaluating

_NAME = "lit_rl_shared_prompts"
_FIRST_ROOM = 32
"""Tokens that the buffers first have room for; doubled when they are full."""
_MOST_SLOTS = 4
"""Prompts are shared while there are at most this many slots, B x G, per row; else one row has one prompt."""
_HARMLESS = {
    "dropout",
    "is_causal",
    "position_ids",
    "cache_position",
    "use_cache",
    "output_attentions",
    "output_router_logits",
}


class SharedDecoding(CachedDecoding):
    """Rows of a causal LM of transformers whose cache is keys and values of all tokens, and nothing else.

    Args:
        model: a causal LM that :func:`can_share`, in eval mode.
        codec: see :class:`CachedDecoding`.
    """

    def __init__(self, model: nn.Module, codec: Codec | None = None) -> None:
        super().__init__(model, codec)
        if not self._takes_positions:
            raise UnsupportedModelError("the model finds positions in its mask, which shared prompts have none of")

    def _begin_rows(self, copies: Tensor, prompt_mask: Tensor, most_tokens: int) -> None:
        if type(self._cache) is not DynamicCache or any(
            type(layer) is not DynamicLayer for layer in self._cache.layers
        ):
            raise UnsupportedModelError("the model keeps more of what it read than keys and values")
        self._groups = _Groups(copies, prompt_mask)
        self._cache = Cache(layers=[_Layer(layer, self._groups, most_tokens) for layer in self._cache.layers])
        self._groups.fit(self._cache.layers)

    def append(self, tokens: Tensor) -> Tensor:
        """One forward pass over a token per row; see :meth:`Decoding.append`."""
        self._advance()
        with _attention(self.model):
            logits = self._forward(tokens[:, None], None, self._positions[:, None])
        self._groups.written += 1
        return logits

    def keep(self, rows: Tensor) -> None:
        """Drop the other rows' own tokens, and prompts without rows."""
        rows = rows.to(self._positions.device)
        self._positions = self._positions[rows]
        self._groups.keep(rows, self._cache.layers)


class _Groups:
    """Which rows read which prompt: row i is one of B x G slots, those of a prompt side by side."""

    def __init__(self, prompt_of_row: Tensor, prompt_mask: Tensor) -> None:
        self.prompt_of_row = prompt_of_row
        self.bias = torch.zeros(prompt_mask.shape, device=prompt_mask.device).masked_fill(~prompt_mask, -torch.inf)
        self.written = 0

    def keep(self, rows: Tensor, layers: Sequence[_Layer]) -> None:
        self.prompt_of_row = self.prompt_of_row[rows]
        for layer in layers:
            layer.keep(rows)
        self.fit(layers)

    def fit(self, layers: Sequence[_Layer]) -> None:
        """Drop prompts that no row reads, and give each row a slot."""
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


class _Layer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer: [B, K, P, D] of prompts, and [n, K, room, D] of the rows' own tokens."""

    def __init__(self, read: DynamicLayer, groups: _Groups, most_tokens: int) -> None:
        super().__init__()
        self.prompt_keys, self.prompt_values = read.keys, read.values
        self.groups = groups
        self.most_tokens = most_tokens
        self.is_initialized = True
        self._move(read, min(_FIRST_ROOM, most_tokens), groups.prompt_of_row)

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> Any:
        """Write a token of each row. The attention function gets the layer itself in place of keys."""
        column, room = self.groups.written, self.keys.shape[-2]
        if column == room:
            self._move(self, min(2 * room, self.most_tokens), slice(None))
        self.keys[:, :, column] = keys[:, :, 0]
        self.values[:, :, column] = values[:, :, 0]
        return self, None

    def keep(self, rows: Tensor) -> None:
        """Drop the other rows' own tokens."""
        self._move(self, self.keys.shape[-2], rows)

    def _move(self, source: DynamicLayer, room: int, rows: Tensor | slice) -> None:
        """Move what some rows have written into buffers with this much room."""
        written = self.groups.written
        keys, values = source.keys[rows, :, :written], source.values[rows, :, :written]
        self.keys, self.values = (x.new_empty(*x.shape[:2], room, x.shape[-1]) for x in (keys, values))
        self.keys[:, :, :written], self.values[:, :, :written] = keys, values


def _attend(
    module: nn.Module, query: Tensor, layer: Any, _: None, mask: None, scaling: float | None = None, **more: Any
) -> tuple[Tensor, None]:
    """Attention of one new token per row: query [n, heads, 1, D], output [n, 1, heads, D]."""
    unknown = {name for name, value in more.items() if value is not None and name not in _HARMLESS}
    if not isinstance(layer, _Layer) or mask is not None or unknown:
        raise UnsupportedModelError(f"the model's attention is more than that of shared prompts: {sorted(unknown)}")
    groups, heads = layer.groups, layer.keys.shape[1]
    num_rows, size = len(query), query.shape[-1]
    query = (query * (size**-0.5 if scaling is None else scaling)).view(num_rows, heads, -1, size)
    repeats, written = query.shape[2], groups.written + 1
    of_prompt = _part(groups.gather(query), layer.prompt_keys, layer.prompt_values, groups.bias[:, None, None])
    prompt, prompt_norm = (groups.scatter(part, repeats) for part in of_prompt)
    own, own_norm = _part(query, layer.keys[:, :, :written], layer.values[:, :, :written])
    output = own.lerp(prompt, (prompt_norm - own_norm).sigmoid().to(own.dtype))
    return output.reshape(num_rows, 1, heads * repeats, -1), None


def _part(query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention [.., Q, D] to some of the keys, and the logarithm [.., Q, 1] of what normalizes it."""
    scores = (query @ keys.mT).to(torch.promote_types(query.dtype, torch.float32))
    if bias is not None:
        scores += bias
    weights = scores.softmax(-1)
    # The largest weight is at least one by the number of keys, so its logarithm is safe.
    norm = scores.amax(-1, keepdim=True) - weights.amax(-1, keepdim=True).log()
    return weights.to(values.dtype) @ values, norm


@contextmanager
def _attention(model: Any) -> Iterator[None]:
    """Decode steps with the attention of this file."""
    config = text_config(model)
    usual = config._attn_implementation
    config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = usual


AttentionInterface.register(_NAME, _attend)


@torch.no_grad()
def can_share(model: Any) -> bool:
    """Whether a model decodes the same with shared prompts; tried on a few tokens.

    Args:
        model: a causal LM of transformers (inside PEFT or not), with real weights.
    """
    rows = probe_rows(model)
    try:
        with evaluating(model):
            plain, shared = (decoded(kind(model), *rows) for kind in (CachedDecoding, SharedDecoding))
    except Exception:  # whatever a family of models does with a cache and an attention that are not its own
        return False
    return relative_gap(shared, plain) <= tolerance(model, 1e-4, 0.03)
