"""Decoding in which the rows of a prompt read its keys and values together, and write their own into a buffer.

:class:`CachedDecoding` copies a prompt's keys and values for each row and copies all of them again with each token.
Here they are held once, see :mod:`lit_rl.models.decoding.shared_cache`, and rows may join others that are being
written. Numbers differ by rounding.

It replaces the model's attention function during a decode step. Whether a family of models bears that is tried once.

Letters: B prompts, n rows being written, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from lit_rl.models.codecs.codec import Codec
from lit_rl.models.decoding.cached_decoding import CachedDecoding
from lit_rl.models.decoding.shared_cache import Groups, SharedLayer, attend
from lit_rl.models.family import UnsupportedModelError, text_config
from lit_rl.models.probe import decoded, probe_rows
from lit_rl.models.projection import relative_gap, tolerance
from lit_rl.training.sharding import evaluating

_NAME = "lit_rl_shared_prompts"


class SharedDecoding(CachedDecoding):
    """Rows of a causal LM of transformers whose cache is keys and values of all tokens, and nothing else.

    Args:
        model: a causal LM that :func:`can_share`, in eval mode.
        codec: see :class:`CachedDecoding`.
    """

    can_join = True

    def __init__(self, model: nn.Module, codec: Codec | None = None) -> None:
        super().__init__(model, codec)
        if not self._takes_positions:
            raise UnsupportedModelError("the model finds positions in its mask, which shared prompts have none of")
        self._groups: Groups | None = None

    def read(self, prompts: Sequence[Sequence[int]], copies: Tensor, most_tokens: int) -> Tensor:
        """One forward pass over all prompts; see :meth:`Decoding.read`."""
        self._shared, self._cache = self._cache, None
        return super().read(prompts, copies, most_tokens)

    def _begin_rows(self, copies: Tensor, prompt_mask: Tensor, positions: Tensor, most_tokens: int) -> None:
        read = self._cache
        if type(read) is not DynamicCache or any(type(layer) is not DynamicLayer for layer in read.layers):
            raise UnsupportedModelError("the model keeps more of what it read than keys and values")
        if self._groups is None:
            self._groups, self._positions = Groups(prompt_mask), positions[:0]
            self._shared = Cache(layers=[SharedLayer(layer, self._groups) for layer in read.layers])
        self._cache = self._shared
        self._positions = torch.cat([self._positions, positions])
        for shared, layer in zip(self._cache.layers, read.layers, strict=True):
            shared.join(layer, len(copies))
        self._groups.join(copies, prompt_mask, self._cache.layers)

    def append(self, tokens: Tensor) -> Tensor:
        """One forward pass over a token per row; see :meth:`Decoding.append`."""
        assert self._groups is not None
        self._advance()
        self._groups.begin_column()
        with _attention(self.model):
            return self._forward(tokens[:, None], None, self._positions[:, None])

    def keep(self, rows: Tensor) -> None:
        """Drop the other rows' own tokens, and prompts without rows."""
        assert self._groups is not None
        rows = rows.to(self._positions.device)
        self._positions = self._positions[rows]
        self._groups.keep(rows, self._cache.layers)


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


AttentionInterface.register(_NAME, attend)


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
