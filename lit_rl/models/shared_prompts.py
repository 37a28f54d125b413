"""A prompt computed once, however many completions hang on it: forward and backward.

Each distinct prompt goes through the model once and its keys and values are kept, with their gradients. The
completions then read on, each from the keys and values of its own prompt. Nothing is approximated: a completion's
gradient reaches its prompt through them, and the numbers are those of whole rows up to rounding. A completion never
attends to another one, so there is no square mask over a group. Completions of similar length are read together, so
that a single long one does not make all others as long.

Whether a model can be read in two steps is tried when it is loaded. Those with a recurrent state cannot: they keep
more than keys and values.

Letters: N rows, K distinct prompts, P prompt tokens (padded left), T completion tokens (padded right), H hidden size.
"""

from __future__ import annotations

from typing import Any

import torch
from lightning_utilities.core.rank_zero import rank_zero_info
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from lit_rl.models.family import base_of, decoder_of, takes, text_config
from lit_rl.models.packing import hidden_states
from lit_rl.models.padding import of_similar_length
from lit_rl.models.projection import tolerance
from lit_rl.training.sharding import evaluating
from lit_rl.types import Completions

_COLUMNS_PER_PASS = 256
"""Columns of padding that one more pass through the model must save: about what its start costs."""


class _Kept(DynamicLayer):  # type: ignore[misc]
    """Keys and values of the prompts. Computing a layer again, as checkpointing does, replaces them by their equals."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        self.keys, self.values, self.is_initialized = key_states, value_states, True
        return key_states, value_states


class _Read(DynamicLayer):  # type: ignore[misc]
    """Keys and values of each row's prompt: put before those of its completion, never changed."""

    def __init__(self, kept: Any, prompt_of_row: Tensor) -> None:
        super().__init__()
        self.keys, self.values = (of_each_row(one, prompt_of_row) for one in (kept.keys, kept.values))
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return torch.cat([self.keys, key_states], -2), torch.cat([self.values, value_states], -2)


def of_each_row(of_prompts: Tensor, prompt_of_row: Tensor) -> Tensor:
    """[N, ...] what belongs to the prompt of each row, from [K, ...]; several rows add to one prompt's gradient.

    The gradient is added in the same order in every run, for which each device needs an operation of its own: the docs
    of ``torch.use_deterministic_algorithms`` list indexing as nondeterministic on CPUs, ``index_select`` on GPUs.
    """
    return of_prompts.index_select(0, prompt_of_row) if of_prompts.device.type == "cpu" else of_prompts[prompt_of_row]


def completion_states(
    model: Any, completions: Completions, pack_tokens: int | None = None, share: bool = False
) -> Tensor:
    """Run a causal LM's decoder over prompts and completions, what the environment said included.

    Args:
        model: a causal LM of transformers (inside PEFT or not).
        completions: N rows.
        pack_tokens: see :func:`lit_rl.models.packing.hidden_states`; packed rows share nothing.
        share: compute equal prompts once, for models that :func:`can_share_prompts`. Where no two rows have the same
            prompt it changes nothing.

    Returns:
        [N, 1 + T, H] last hidden states: after the prompt, and after each token of the completion.
    """
    prompt_ids, prompt_mask = completions.prompt_ids, completions.prompt_mask
    if share and pack_tokens is None:
        first, prompt_of_row = distinct_prompts(prompt_ids, prompt_mask)
        if len(first) < len(prompt_of_row):
            ids, mask = completions.completion_ids, completions.token_mask
            return _in_two_steps(model, prompt_ids[first], prompt_mask[first], prompt_of_row, ids, mask)
    ids = torch.cat([prompt_ids, completions.completion_ids], 1)
    mask = torch.cat([prompt_mask, completions.token_mask], 1)
    return hidden_states(model, ids, mask, pack_tokens)[:, prompt_ids.shape[1] - 1 :]


def distinct_prompts(prompt_ids: Tensor, prompt_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Find equal prompts by their ids.

    Args:
        prompt_ids: [N, P] int64, padded on the left.
        prompt_mask: [N, P] bool.

    Returns:
        [K] the first row that has each distinct prompt, and [N] the number of each row's prompt among them.
    """
    prompts = prompt_ids.where(prompt_mask, -1)
    distinct, prompt_of_row = torch.unique(prompts, dim=0, return_inverse=True)
    rows = torch.arange(len(prompt_of_row), device=prompt_of_row.device)
    first = rows.new_zeros(len(distinct)).scatter_reduce(0, prompt_of_row, rows, "amin", include_self=False)
    return first, prompt_of_row


def _in_two_steps(
    model: Any, prompt_ids: Tensor, prompt_mask: Tensor, prompt_of_row: Tensor, ids: Tensor, mask: Tensor
) -> Tensor:
    """States [N, 1 + T, H] of completions [N, T] that read on from prompts [K, P]."""
    kept = Cache(layer_class_to_replicate=_Kept)
    positions = (prompt_mask.long().cumsum(-1) - 1).clamp(min=0)
    after_prompt = _read(model, prompt_ids, prompt_mask, positions, kept)[:, -1:]
    after_tokens = after_prompt.new_zeros(*ids.shape, after_prompt.shape[-1])
    lengths = mask.sum(-1)
    for batch in of_similar_length(lengths.tolist(), _COLUMNS_PER_PASS):
        rows, width = torch.tensor(batch, device=ids.device), max(1, int(lengths[batch[-1]]))
        of_prompt = prompt_of_row[rows]
        read = Cache(layers=[_Read(layer, of_prompt) for layer in kept.layers])
        whole_mask = torch.cat([prompt_mask[of_prompt], mask[rows, :width]], 1)
        positions = whole_mask.long().cumsum(-1)[:, prompt_mask.shape[1] :] - 1
        after_tokens[rows, :width] = _read(model, ids[rows, :width], whole_mask, positions, read)
    return torch.cat([of_each_row(after_prompt, prompt_of_row), after_tokens], 1)


def _read(model: Any, ids: Tensor, mask: Tensor, positions: Tensor, cache: Cache) -> Tensor:
    decoder = decoder_of(model)
    given = {"position_ids": positions} if takes(decoder, "position_ids") else {}
    output = decoder(input_ids=ids, attention_mask=mask.long(), past_key_values=cache, use_cache=True, **given)
    hidden: Tensor = output.last_hidden_state
    return hidden


def can_share_prompts(model: Any) -> bool:
    """Whether a model computes the same from shared prompts, forward and backward; one log line if not.

    Tried on a few tokens: three short forward passes and two backward passes, which keep no gradients.

    Args:
        model: a causal LM of transformers (inside PEFT or not), with real weights.
    """
    try:
        with evaluating(model), torch.enable_grad():
            states, gradients = map(_gap, _tried(model, False), _tried(model, True))
        fits = states <= tolerance(model, 1e-3, 0.03) and gradients <= tolerance(model, 1e-3, 0.15)
    except Exception:  # whatever a family of models does with a cache that it did not make
        fits = False
    if not fits:
        rank_zero_info(
            f"{text_config(model).model_type} cannot go on from the keys and values of a prompt in training: "
            "the prompt is computed once for each completion"
        )
    return fits


def _tried(model: Any, share: bool) -> tuple[Tensor, Tensor]:
    """Hidden states of four rows of two prompts, and the gradient of their sum by a shift of all embeddings."""
    device = next(model.parameters()).device
    ids = torch.arange(3, 3 + 4 * 18, device=device).view(4, 18) * 7 % text_config(model).vocab_size
    mask = torch.arange(18, device=device) >= torch.tensor([[0], [8], [0], [8]], device=device)
    mask[:2, 15:] = False
    ids[2:, :11] = ids[:2, :11]  # rows 0 and 2, and 1 and 3
    embeddings = base_of(model).get_input_embeddings()
    shift: Any = torch.zeros(text_config(model).hidden_size, device=device, requires_grad=True)
    handle = embeddings.register_forward_hook(lambda _, __, output: output + shift[: output.shape[-1]].to(output.dtype))
    try:
        if share:
            of_row = torch.tensor([0, 1, 0, 1], device=device)
            states = _in_two_steps(model, ids[:2, :11], mask[:2, :11], of_row, ids[:, 11:], mask[:, 11:])
        else:
            states = hidden_states(model, ids, mask)[:, 10:]
        kept = states[mask[:, 10:]].float()
        weights = torch.arange(kept.numel(), device=device).view(kept.shape).cos()  # a plain sum is blind behind a norm
        return kept.detach(), torch.autograd.grad((kept * weights).sum(), shift)[0]
    finally:
        handle.remove()


def _gap(theirs: Tensor, ours: Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())
