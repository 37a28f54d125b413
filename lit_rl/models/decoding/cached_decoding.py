"""Decoding of causal language models of transformers from a cache of what they have read.

Letters: B distinct prompts, P tokens of the longest, n rows being written, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.models.codecs.codec import Codec
from lit_rl.models.decoding.protocol import Decoding
from lit_rl.models.family import UnsupportedModelError, counts_pads, most_positions, takes, text_config
from lit_rl.models.padding import pad_left
from lit_rl.types import StopReason

_NO_LIMIT = 1 << 30


class CachedDecoding(Decoding):
    """Rows with their cache, attention mask and positions. Prompts stand behind left pads.

    Args:
        model: a causal LM of transformers, in eval mode.
        codec: of the policy; says what pads prompts and what ends a row. ``None``: id 0, and nothing.
    """

    def __init__(self, model: nn.Module, codec: Codec | None = None) -> None:
        self.model = model
        self.codec = codec
        self._is_recurrent = takes(model, "cache_params")
        self._cache_name = "cache_params" if self._is_recurrent else "past_key_values"
        self._takes_positions = takes(model, "position_ids")
        self._fixed: dict[str, Any] = {"logits_to_keep": 1} if takes(model, "logits_to_keep") else {}
        self._max_positions = most_positions(model) or _NO_LIMIT
        self._cache: Any = None

    def read(self, prompts: Sequence[Sequence[int]], copies: Tensor, most_tokens: int) -> Tensor:
        """One forward pass over all prompts, then a copy of its cache for each row; see :meth:`Decoding.read`."""
        pad_id = 0 if self.codec is None else self.codec.pad_id
        prompt_ids, prompt_mask = pad_left(prompts, pad_id, next(self.model.parameters()).device)
        positions = (prompt_mask.long().cumsum(-1) - 1).clamp(min=0)
        logits = self._forward(prompt_ids, prompt_mask.long(), positions)
        copies = copies.to(logits.device)
        self.room = self._room(prompt_mask[copies])
        self._begin_rows(copies, prompt_mask, positions[copies, -1], most_tokens)
        return logits[copies]

    def _begin_rows(self, copies: Tensor, prompt_mask: Tensor, positions: Tensor, most_tokens: int) -> None:
        """Give each row what was read of its prompt."""
        self._positions = positions
        if len(copies) != len(prompt_mask) or not torch.equal(copies, torch.arange(len(copies), device=copies.device)):
            self._cache.reorder_cache(copies)
        self._length = prompt_mask.shape[1]
        self._mask = torch.ones(len(copies), self._length + most_tokens, dtype=torch.long, device=copies.device)
        self._mask[:, : self._length] = prompt_mask[copies].long()

    def _room(self, mask: Tensor) -> list[int]:
        used = [mask.shape[1]] * len(mask) if counts_pads(self.model) else mask.sum(-1).tolist()
        return [max(1, self._max_positions - length) for length in used]

    def append(self, tokens: Tensor) -> Tensor:
        """One forward pass over a token per row; see :meth:`Decoding.append`."""
        self._length += 1
        self._advance()
        return self._forward(tokens[:, None], self._mask[:, : self._length], self._positions[:, None])

    def _advance(self) -> None:
        # A row that has ended but was not dropped yet may have used its last position; what it gets is not read.
        self._positions = (self._positions + 1).clamp(max=self._max_positions - 1)

    def keep(self, rows: Tensor) -> None:
        """Drop the other rows from every state."""
        rows = rows.to(self._mask.device)
        self._cache.reorder_cache(rows)
        self._mask = self._mask[rows]
        self._positions = self._positions[rows]

    def ends(self, prompt: Sequence[int], ids: Sequence[int], stop_strings: Sequence[str]) -> StopReason | None:
        """By an id of EOS, or by the token that completes a stop string."""
        if self.codec is None:
            return None
        if ids[-1] in self.codec.eos_ids:
            return StopReason.EOS
        return StopReason.STOP_STRING if self.codec.holds_stop(ids, stop_strings) else None

    def _forward(self, ids: Tensor, mask: Tensor | None, positions: Tensor) -> Tensor:
        given = self._fixed | ({"position_ids": positions} if self._takes_positions else {})
        if self._cache is not None:
            given[self._cache_name] = self._cache
        if self._cache is None or not self._is_recurrent:  # a state that was read holds no pads to mask
            given["attention_mask"] = mask
        output = self.model(input_ids=ids, use_cache=True, **given)
        if self._cache is None:
            self._cache = self._found_cache(output)
        logits: Tensor = output.logits[:, -1]
        return logits

    def _found_cache(self, output: Any) -> Any:
        """The cache that the model made: families differ in its kind.

        Raises:
            UnsupportedModelError: there is none, or its rows cannot be chosen.
        """
        cache = getattr(output, self._cache_name, None)
        if not hasattr(cache, "reorder_cache"):
            raise UnsupportedModelError(
                f"{text_config(self.model).model_type} keeps what it has read in no cache whose rows can be chosen "
                f"(got {type(cache).__name__}), so rows cannot be sampled side by side: use another model"
            )
        return cache
