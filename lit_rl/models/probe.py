"""Check that a model samples from its training forward's distribution; run once, after loading.

Sampling reads a prompt once, after left pads, and continues from a cache; training reads whole rows without one.
Families of models treat pads, positions and caches differently, and where sampling and training disagree, training
silently goes wrong. So both are compared, on a few tokens, with the model's plain forward pass over a row alone.

Letters: B rows, P prompt tokens, T tokens after the prompt, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor

from lit_rl.models.adapters import using_adapter
from lit_rl.models.decoding import BatchDecoder, SharedPromptDecoder
from lit_rl.models.family import (
    UnsupportedModelError,
    check_output_projection,
    logit_tolerance,
    output_projection,
    relative_logit_gap,
    text_config,
)
from lit_rl.models.padding import hidden_states
from lit_rl.training.ranks import eval_mode

_PROMPT_TOKENS = (3, 11)
"""Prompt lengths of two rows: one after eight pads, the other without pads."""
_DECODED = 3
"""Tokens that are appended after the prompt; before the second token, one row of each prompt leaves the batch."""


@torch.no_grad()
def check_sampling_matches_training(model: Any) -> None:
    """Raise unless sampling and training agree on logits, with adapters and without.

    This costs five forward passes over some 30 tokens, and five more if there are adapters.
    """
    with eval_mode(model):
        _probe_logit_consistency(model)
        if hasattr(model, "peft_config"):
            with using_adapter(model, None):
                _probe_logit_consistency(model)


def _probe_logit_consistency(model: Any) -> None:
    name = f"{text_config(model).model_type} ({type(model).__name__})"
    try:
        check_output_projection(model)
        ids, mask = probe_ids_and_mask(model)
        rows = zip(ids, mask, strict=True)
        alone = torch.cat([model(input_ids=row[m][None]).logits[0, -_DECODED - 1 :] for row, m in rows]).float()
        hidden = hidden_states(model, ids, mask)[:, -_DECODED - 1 :]
        trained = output_projection(model)(hidden.flatten(0, 1)).float()
        sampled = logits_while_decoding(BatchDecoder(model), ids, mask)
    except UnsupportedModelError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UnsupportedModelError(
            f"{name} cannot be sampled and trained here: a probe of a few tokens failed with {reason}; use another "
            "model, or name the layers in lora.target_modules if its adapters are in the way"
        ) from error
    for what, logits in (("training on padded rows", trained), ("sampling from a cache after left pads", sampled)):
        gap = relative_logit_gap(logits, alone)
        if not gap <= logit_tolerance(model, 0.01, 0.15):
            raise UnsupportedModelError(
                f"{name} would be trained on wrong log-probabilities: {what} differs from its plain forward by "
                f"{gap:.0%} of the logits' spread; use another model or another attention, or set probe to false "
                "if you know better"
            )


def logits_while_decoding(decoding: BatchDecoder, ids: Tensor, mask: Tensor) -> Tensor:
    """Return logits [B * (T + 1), V] of rows [B, P + T] that are read and then written token by token, two copies each.

    One of the two copies leaves the batch after the first token.
    """
    width = ids.shape[1] - _DECODED
    prompts = [row[m].tolist() for row, m in zip(ids[:, :width], mask[:, :width], strict=True)]
    rows = torch.arange(len(ids)).repeat_interleave(2)
    sampled = [decoding.prefill(prompts, rows, _DECODED)[::2]]
    for step in range(_DECODED):
        if step == 1:  # the remaining steps are those of a batch that has become smaller
            decoding.keep_rows(torch.arange(1, len(rows), 2))
            rows = rows[1::2]
        logits = decoding.decode_step(ids[rows.to(ids.device), width + step])
        sampled.append(logits[-1 - len(rows) // 2 :: len(rows) // 2])  # the second row of each prompt
    return torch.stack(sampled, 1).flatten(0, 1).float()


def probe_ids_and_mask(model: Any) -> tuple[Tensor, Tensor]:
    """Return ids [B, P + T] that differ from row to row, and their mask; the first row has pads on its left."""
    device = next(model.parameters()).device
    width = max(_PROMPT_TOKENS) + _DECODED
    ids = torch.arange(3, 3 + 2 * width, device=device).view(2, width) * 7 % text_config(model).vocab_size
    pads = torch.tensor([max(_PROMPT_TOKENS) - n for n in _PROMPT_TOKENS], device=device)
    return ids, torch.arange(width, device=device) >= pads[:, None]


@torch.no_grad()
def can_decode_from_shared_prompts(model: Any) -> bool:
    """Return whether a model decodes a few tokens the same with shared prompts; log one line if not."""
    rows = probe_ids_and_mask(model)
    try:
        with eval_mode(model):
            plain, shared = (logits_while_decoding(kind(model), *rows) for kind in (BatchDecoder, SharedPromptDecoder))
        # In bfloat16, both logits of Qwen2.5-Coder-0.5B were 0.13 away from those in float32, and 0.05 from each other.
        fits = relative_logit_gap(shared, plain) <= logit_tolerance(model, 1e-4, 0.15)
    except Exception:  # any error of a family of models with a cache and an attention not its own
        fits = False
    if not fits:
        rank_zero_info(
            f"{text_config(model).model_type} cannot share prompts while it samples: each row has a copy of its "
            "prompt's keys and values, which takes more memory and time"
        )
    return fits
