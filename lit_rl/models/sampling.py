"""The sampling loop of causal language models: one prefill per prompt, finished rows leave the batch.

Letters: B prompts, G samples per prompt, N = B * G rows, P prompt tokens, T completion tokens, V vocabulary;
n rows still being sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.models.family import UnsupportedModelError, most_positions, takes, text_config
from lit_rl.models.streams import Uniforms
from lit_rl.types import Sampling, StopReason

# Rows that finished stay in the batch, sampling for nothing, until this share of it is left: dropping them
# copies the cache, which costs about one step.
_COMPACT_BELOW = 0.75


@dataclass(frozen=True)
class SampledRow:
    """One finished row: its ids (EOS included), their log-probabilities under the sampler, why it ended."""

    row: int
    ids: list[int]
    logprobs: list[float]
    reason: StopReason


def choose_tokens(logits: Tensor, sampling: Sampling, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
    """Sample one token per row by inverting the cumulative distribution.

    One uniform number decides a row's token, so a row's samples depend on its own stream alone.
    (``torch.multinomial`` draws V numbers per row and is several times slower on a CPU.)

    Args:
        logits: [n, V] of the next token.
        sampling: temperature and filters.
        uniforms: [n] float64 in [0, 1); ``None`` if greedy.

    Returns:
        ids [n] int64 and their log-probabilities [n] float32 (nats) under the distribution that was sampled
        from. Greedy choices are scored at temperature 1.
    """
    logits = logits.float()
    if sampling.temperature == 0 or uniforms is None:
        ids = logits.argmax(-1)
        return ids, logits.log_softmax(-1).gather(-1, ids[:, None])[:, 0]
    logprobs = keep_likely(logits / sampling.temperature, sampling).log_softmax(-1)
    cumulative = logprobs.double().exp().cumsum(-1)
    total = cumulative[:, -1:]
    # Just below the total at most, so that rounding never lands on a token of probability zero.
    target = torch.minimum(uniforms.to(total.device)[:, None] * total, total.nextafter(torch.zeros_like(total)))
    ids = torch.searchsorted(cumulative, target, right=True).clamp(max=logits.shape[-1] - 1)
    return ids[:, 0], logprobs.gather(-1, ids)[:, 0]


def keep_likely(logits: Tensor, sampling: Sampling) -> Tensor:
    """Set the logits of tokens outside top-k and top-p to minus infinity.

    Args:
        logits: [n, V], already divided by the temperature.
        sampling: ``top_k`` and ``top_p``; the most likely token always stays.

    Returns:
        [n, V]; the same tensor if nothing is filtered.
    """
    if 0 < sampling.top_k < logits.shape[-1]:
        smallest = logits.topk(sampling.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, -torch.inf)
    if sampling.top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        drop = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= sampling.top_p)
        logits = logits.masked_fill(drop, -torch.inf)
    return logits


@torch.no_grad()
def sample_rows(
    model: nn.Module,
    prompt_ids: Tensor,
    prompt_mask: Tensor,
    sampling: Sampling,
    *,
    seeds: list[int],
    eos_ids: frozenset[int],
    max_tokens: list[int],
    stops: Callable[[int, list[int]], bool] | None = None,
    on_finished: Callable[[SampledRow], None],
) -> None:
    """Sample ``num_samples`` completions per prompt and hand over each row as soon as it ends.

    Args:
        model: a causal LM of transformers, in eval mode.
        prompt_ids: [B, P], padded on the left.
        prompt_mask: [B, P] bool.
        sampling: how; its ``max_tokens`` is the upper limit of every row.
        seeds: N seeds of the rows' random streams.
        eos_ids: every id that ends a completion.
        max_tokens: N limits, one per row.
        stops: ``stops(row, ids)`` says whether the row's text so far holds a stop string.
        on_finished: called once per row, in the order in which rows end.
    """
    batch = Batch(model, prompt_ids, prompt_mask, sampling.num_samples, max(max_tokens))
    uniforms = Uniforms(seeds) if sampling.temperature > 0 else None
    ids: list[list[int]] = [[] for _ in seeds]
    logprobs: list[list[float]] = [[] for _ in seeds]
    finished = [False] * len(seeds)
    for step in range(max(max_tokens)):
        numbers = uniforms.at(step, batch.rows) if uniforms is not None else None
        chosen, scores = choose_tokens(batch.logits, sampling, numbers)
        for row, token, score in zip(batch.rows.tolist(), chosen.tolist(), scores.tolist(), strict=True):
            if finished[row]:
                continue
            ids[row].append(token)
            logprobs[row].append(score)
            reason = _stop_reason(token, ids[row], row, eos_ids, max_tokens[row], stops)
            if reason is not None:
                finished[row] = True
                on_finished(SampledRow(row, ids[row], logprobs[row], reason))
        if all(finished):
            return
        batch.advance(chosen, finished)


def _stop_reason(
    token: int,
    ids: list[int],
    row: int,
    eos_ids: frozenset[int],
    max_tokens: int,
    stops: Callable[[int, list[int]], bool] | None,
) -> StopReason | None:
    """Why the row ends here, if it does. EOS as the last allowed token is EOS, not a cut."""
    if token in eos_ids:
        return StopReason.EOS
    if stops is not None and stops(row, ids):
        return StopReason.STOP_STRING
    return StopReason.LENGTH if len(ids) >= max_tokens else None


class Batch:
    """The rows being sampled: cache, attention mask, next logits. Rows that finished are dropped in time.

    Args:
        model: a causal LM of transformers, in eval mode.
        prompt_ids: [B, P], padded on the left.
        prompt_mask: [B, P] bool.
        num_samples: G rows of each prompt.
        room: most tokens that any row will write.
    """

    def __init__(self, model: nn.Module, prompt_ids: Tensor, prompt_mask: Tensor, num_samples: int, room: int) -> None:
        self.model = model
        self._is_recurrent = takes(model, "cache_params")
        self._cache_name = "cache_params" if self._is_recurrent else "past_key_values"
        self._takes_positions = takes(model, "position_ids")
        self._fixed: dict[str, Any] = {"logits_to_keep": 1} if takes(model, "logits_to_keep") else {}
        self._last_position = (most_positions(model) or 1 << 30) - 1
        self._cache: Any = None
        self._prefill(prompt_ids, prompt_mask, num_samples)
        device = prompt_ids.device
        num_rows, prompt_length = self.logits.shape[0], prompt_ids.shape[1]
        self.rows = torch.arange(num_rows)
        self.mask = torch.ones(num_rows, prompt_length + room, dtype=torch.long, device=device)
        self.mask[:, :prompt_length] = prompt_mask.repeat_interleave(num_samples, 0).long()
        self.length = prompt_length

    def _prefill(self, prompt_ids: Tensor, prompt_mask: Tensor, num_samples: int) -> None:
        """Read each prompt once, then give every sample of it a copy of the cache."""
        positions = (prompt_mask.long().cumsum(-1) - 1).clamp(min=0)
        logits = self._forward(prompt_ids, prompt_mask.long(), positions)
        if num_samples > 1:
            rows = torch.arange(len(prompt_ids), device=prompt_ids.device)
            self._cache.reorder_cache(rows.repeat_interleave(num_samples))
        self.logits = logits.repeat_interleave(num_samples, 0)
        self.positions = positions[:, -1].repeat_interleave(num_samples, 0)

    def _forward(self, ids: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
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

    def advance(self, chosen: Tensor, finished: list[bool]) -> None:
        """Append the chosen tokens and compute the next logits."""
        going = [i for i, row in enumerate(self.rows.tolist()) if not finished[row]]
        if len(going) <= _COMPACT_BELOW * len(self.rows):
            chosen = self._keep(torch.tensor(going), chosen)
        self.length += 1
        # A finished row that is still in the batch may have used its last position; nobody reads what it gets.
        self.positions = (self.positions + 1).clamp(max=self._last_position)
        self.logits = self._forward(chosen[:, None], self.mask[:, : self.length], self.positions[:, None])

    def _keep(self, keep: Tensor, chosen: Tensor) -> Tensor:
        """Drop all other rows from every state; return the chosen tokens of the kept ones."""
        self.rows = self.rows[keep]
        keep = keep.to(chosen.device)
        self._cache.reorder_cache(keep)
        self.mask = self.mask[keep]
        self.positions = self.positions[keep]
        return chosen[keep]
