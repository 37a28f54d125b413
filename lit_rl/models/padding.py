"""Rows of unequal length: padded to one tensor, or with their prompts computed once.

A prompt is computed once, forward and backward, however many completions follow it. Each distinct prompt goes through
the model once and its keys and values are kept, with their gradients. The completions then read on, each from the keys
and values of its own prompt. Nothing is approximated: a completion's gradient reaches its prompt through these keys and
values, and the numbers are those of whole rows up to rounding. A completion never attends to another completion, so
there is no square mask over a group. Completions of similar length are read together, so that one long completion does
not make all others as long. Whether a model can be read in two steps is tested when it is loaded. Models with a
recurrent state cannot: they keep more than keys and values.

Letters: N rows of S columns, P prompt tokens (padded left), T completion tokens (padded right), K distinct prompts,
H hidden size.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import torch
from lightning_utilities.core.rank_zero import rank_zero_info
from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicLayer

from lit_rl.models.family import (
    accepted_forward_arguments,
    cache_argument_name,
    decoder_of,
    logit_tolerance,
    text_config,
    unwrap_peft,
)
from lit_rl.training.ranks import eval_mode
from lit_rl.types import Completions

_TYPE_CODES = {torch.int64: ("q", torch.int64), torch.float32: ("d", torch.float64), torch.bool: ("B", torch.bool)}
"""For each dtype: the array type that holds its numbers, and the dtype that a tensor reads them as."""


def pad_left(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Return ids [B, P] and mask [B, P] of rows of unequal length."""
    width = max(map(len, rows), default=0)
    ids = torch.full((len(rows), width), pad_id, dtype=torch.int64)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        if row:
            ids[i, width - len(row) :] = _row_to_tensor(row, torch.int64)
            mask[i, width - len(row) :] = True
    return ids.to(device), mask.to(device)


def pad_right(rows: Sequence[Sequence[float]], value: float, dtype: torch.dtype) -> Tensor:
    """Return rows of unequal length as a tensor [N, T] on the CPU."""
    width = max(map(len, rows), default=0)
    padded = torch.full((len(rows), width), value, dtype=dtype)
    for i, row in enumerate(rows):
        if row:
            padded[i, : len(row)] = _row_to_tensor(row, dtype)
    return padded


def _row_to_tensor(row: Sequence[float], dtype: torch.dtype) -> Tensor:
    """Return a row as a tensor [T], by way of an array: it takes numbers several times faster than ``torch.tensor``."""
    code, held_as = _TYPE_CODES[dtype]
    held = row if isinstance(row, array | bytearray) else array(code, row)
    return torch.frombuffer(held, dtype=held_as)


def bucket_by_length(lengths: Sequence[int], worth: int) -> list[list[int]]:
    """Divide rows into batches of similar length, as long as each division saves enough padding.

    Args:
        lengths: tokens of N rows.
        worth: columns of padding that one more batch must save.

    Returns:
        row numbers of each batch, batches of short rows first; each row is in one batch.

    Example:
        >>> bucket_by_length([3, 90, 5, 100], worth=50)
        [[0, 2], [1, 3]]
    """

    def divided(rows: list[int]) -> list[list[int]]:
        saved = [size * (lengths[rows[-1]] - lengths[rows[size - 1]]) for size in range(1, len(rows))]
        most = max(saved, default=0)
        if most < max(worth, 1):
            return [rows]
        size = saved.index(most) + 1
        return divided(rows[:size]) + divided(rows[size:])

    return divided(sorted(range(len(lengths)), key=lengths.__getitem__))


def hidden_states(model: Any, ids: Tensor, mask: Tensor, cache: Cache | None = None) -> Tensor:
    """Run a causal LM's decoder over rows.

    Returns:
        [N, S, H] last hidden states; outside the mask they mean nothing.
    """
    decoder = decoder_of(model)
    given: dict[str, Any] = {} if cache is None else {cache_argument_name(decoder): cache}
    if "position_ids" in accepted_forward_arguments(decoder):
        # Positions count real tokens: left padding must not move a row.
        given["position_ids"] = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :].to(ids.device)
    mask = mask.to(ids.device).long()
    hidden: Tensor = decoder(input_ids=ids, attention_mask=mask, use_cache=cache is not None, **given).last_hidden_state
    return hidden


_COLUMNS_PER_PASS = 64
"""Columns of padding that one more pass through the model must save on a CPU: about the cost of starting a pass.

One number fits models of all sizes, since both costs grow with the size. On an accelerator, where a column is fast and
a pass waits for its kernels to start, the number is four times as large; this factor was not measured.
"""


class _PromptCache(DynamicLayer):  # type: ignore[misc]
    """Keys and values of the prompts; computing a layer again, as checkpointing does, replaces them by equal ones."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        self.keys, self.values, self.is_initialized = key_states, value_states, True
        return key_states, value_states


class _ReadOnlyPromptCache(DynamicLayer):  # type: ignore[misc]
    """Keys and values of each row's prompt, which are put before those of its completion and never changed."""

    def __init__(self, kept: Any, prompt_of_row: Tensor) -> None:
        super().__init__()
        self.keys, self.values = (expand_prompts_to_rows(one, prompt_of_row) for one in (kept.keys, kept.values))
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return torch.cat([self.keys, key_states], -2), torch.cat([self.values, value_states], -2)


def expand_prompts_to_rows(of_prompts: Tensor, prompt_of_row: Tensor) -> Tensor:
    """Expand values [K, ...] of prompts to their rows [N, ...]; several rows add to the gradient of one prompt.

    The gradient is added in the same order in every run, for which each device needs an operation of its own: the docs
    of ``torch.use_deterministic_algorithms`` list indexing as nondeterministic on CPUs, ``index_select`` on GPUs.
    """
    return of_prompts.index_select(0, prompt_of_row) if of_prompts.device.type == "cpu" else of_prompts[prompt_of_row]


def completion_hidden_states(model: Any, completions: Completions, share: bool = False) -> Tensor:
    """Run a causal LM's decoder over prompts and completions, including what the environment said.

    Returns:
        [N, 1 + T, H] last hidden states: after the prompt, and after each token of the completion.
    """
    prompt_ids, prompt_mask, host = completions.prompt_ids, completions.prompt_mask, completions.on_host
    if share:
        prompts = host.prompt_ids.where(host.prompt_mask, -1)
        distinct, prompt_of_row = torch.unique(prompts, dim=0, return_inverse=True)
        if len(distinct) < len(prompts):
            numbers = torch.arange(len(prompts), device=prompts.device)
            first = numbers[: len(distinct)].scatter_reduce(0, prompt_of_row, numbers, "amin", include_self=False)
            first, prompt_of_row = first.to(prompt_ids.device), prompt_of_row.to(prompt_ids.device)
            ids, mask, lengths = completions.completion_ids, completions.token_mask, host.token_counts.tolist()
            return _states_from_shared_prompts(
                model, prompt_ids[first], prompt_mask[first], prompt_of_row, ids, mask, lengths
            )
    ids = torch.cat([prompt_ids, completions.completion_ids], 1)
    mask = torch.cat([host.prompt_mask, host.token_mask], 1)
    return hidden_states(model, ids, mask)[:, prompt_ids.shape[1] - 1 :]


def _states_from_shared_prompts(
    model: Any,
    prompt_ids: Tensor,
    prompt_mask: Tensor,
    prompt_of_row: Tensor,
    ids: Tensor,
    mask: Tensor,
    lengths: Sequence[int],
) -> Tensor:
    """Return states [N, 1 + T, H] of completions [N, T], of the given lengths, that continue prompts [K, P]."""
    kept = Cache(layer_class_to_replicate=_PromptCache)
    after_prompt = hidden_states(model, prompt_ids, prompt_mask, kept)[:, -1:]
    after_tokens = after_prompt.new_zeros(*ids.shape, after_prompt.shape[-1])
    worth = _COLUMNS_PER_PASS if ids.device.type == "cpu" else 4 * _COLUMNS_PER_PASS
    for batch in bucket_by_length(lengths, worth):
        rows, width = torch.tensor(batch, device=ids.device), max(1, lengths[batch[-1]])
        of_prompt = prompt_of_row[rows]
        read = Cache(layers=[_ReadOnlyPromptCache(layer, of_prompt) for layer in kept.layers])
        whole_mask = torch.cat([prompt_mask[of_prompt], mask[rows, :width]], 1)
        after_tokens[rows, :width] = hidden_states(model, ids[rows, :width], whole_mask, read)
    return torch.cat([expand_prompts_to_rows(after_prompt, prompt_of_row), after_tokens], 1)


def can_train_on_shared_prompts(model: Any) -> bool:
    """Return whether a model computes the same from shared prompts, forward and backward; log one line if not.

    The test on a few tokens takes three short forward passes and two backward passes, which keep no gradients.
    """
    try:
        with eval_mode(model), torch.enable_grad():
            pairs = zip(_probe_states_and_gradient(model, False), _probe_states_and_gradient(model, True), strict=True)
            states, gradients = (float((ours - theirs).norm() / theirs.norm()) for theirs, ours in pairs)
        # In bfloat16, rounding moved gradients of trained models by 0.06 and 0.11; lost gradients differ by 1.
        fits = states <= logit_tolerance(model, 1e-3, 0.05) and gradients <= logit_tolerance(model, 1e-3, 0.3)
    except Exception:  # any error of a family of models with a cache that it did not make
        fits = False
    if not fits:
        rank_zero_info(
            f"{text_config(model).model_type} cannot continue from the keys and values of a prompt in training: "
            "the prompt is computed once for each completion"
        )
    return fits


def _probe_states_and_gradient(model: Any, share: bool) -> tuple[Tensor, Tensor]:
    """Return hidden states of four rows of two prompts, and the completions' gradient at the prompts' embeddings.

    Returns:
        states after the prompts and after each token of the completions, and a gradient [2, P, H].
    """
    device = next(model.parameters()).device
    ids = torch.arange(3, 3 + 4 * 18, device=device).view(4, 18) * 7 % text_config(model).vocab_size
    mask = torch.arange(18, device=device) >= torch.tensor([[0], [8], [0], [8]], device=device)
    mask[:2, 15:] = False
    ids[2:, :11] = ids[:2, :11]  # rows 0 and 2 share a prompt, and so do 1 and 3
    embeddings = unwrap_peft(model).get_input_embeddings()
    size = (2, 11, text_config(model).hidden_size)
    shift: Any = torch.zeros(size, dtype=torch.float32, device=device, requires_grad=True)

    def move_prompts(_: Any, __: Any, output: Tensor) -> Tensor:
        if output.shape[1] < 11:  # completions that read on
            return output
        moved = (shift * mask[:2, :11, None])[..., : output.shape[-1]].to(output.dtype)
        return output + nn.functional.pad(moved.repeat(len(output) // 2, 1, 1), (0, 0, 0, output.shape[1] - 11))

    handle = embeddings.register_forward_hook(move_prompts)
    try:
        if share:
            of_row = torch.tensor([0, 1, 0, 1], device=device)
            lengths = mask[:, 11:].sum(-1).tolist()
            states = _states_from_shared_prompts(
                model, ids[:2, :11], mask[:2, :11], of_row, ids[:, 11:], mask[:, 11:], lengths
            )
        else:
            states = hidden_states(model, ids, mask)[:, 10:]
        after_tokens = states[:, 1:][mask[:, 11:]].float()
        # A plain sum does not vary behind a norm. Under bf16-true, a tensor made without a dtype would be bfloat16.
        weights = torch.arange(after_tokens.numel(), dtype=torch.float32, device=device).view(after_tokens.shape).cos()
        (gradient,) = torch.autograd.grad((after_tokens * weights).sum(), shift)
        return states[mask[:, 10:]].detach().float(), gradient
    finally:
        handle.remove()
