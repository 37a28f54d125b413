"""Several short rows in one sequence: no padding goes through the model, and the numbers stay the same.

Attention is block-diagonal and positions start again with each row, so a row attends only to itself. Models of
transformers tell packed rows apart by their positions; whether a model really does is checked when it is loaded.

Letters: N rows of S columns, K packed sequences of L columns, H hidden size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lit_rl.models.family import decoder_of, takes, text_config
from lit_rl.models.projection import tolerance
from lit_rl.training.sharding import evaluating


def hidden_states(model: Any, ids: Tensor, mask: Tensor, pack_tokens: int | None = None) -> Tensor:
    """Run a causal LM's decoder over rows.

    Args:
        model: a causal LM of transformers (inside PEFT or not).
        ids: [N, S] int64.
        mask: [N, S] bool; the real tokens of a row are contiguous.
        pack_tokens: put rows together in sequences of at most this many tokens (or the longest row); ``None`` gives
            each row a sequence of its own.

    Returns:
        [N, S, H] last hidden states; outside the mask they mean nothing.
    """
    decoder = decoder_of(model)
    # Positions count real tokens: left padding must not move a row.
    positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
    if pack_tokens is None or len(ids) < 2:
        given = {"position_ids": positions} if takes(decoder, "position_ids") else {}
        output = decoder(input_ids=ids, attention_mask=mask.long(), use_cache=False, **given)
        hidden: Tensor = output.last_hidden_state
        return hidden
    sequence, column = first_fit(mask.sum(-1).tolist(), pack_tokens)
    of_row = mask.nonzero()[:, 0]
    k = torch.tensor(sequence, device=ids.device)[of_row]
    at = torch.tensor(column, device=ids.device)[of_row] + positions[mask]
    shape = (max(sequence) + 1, int(at.max()) + 1)
    # Every empty column has position 0: rows of one token that nobody reads.
    packed_ids, packed_positions = ids.new_zeros(shape), positions.new_zeros(shape)
    packed_ids[k, at], packed_positions[k, at] = ids[mask], positions[mask]
    output = decoder(input_ids=packed_ids, position_ids=packed_positions, use_cache=False)
    packed = output.last_hidden_state
    hidden = packed.new_zeros(*ids.shape, packed.shape[-1])
    hidden[mask] = packed[k, at]
    return hidden


def first_fit(lengths: list[int], pack_tokens: int) -> tuple[list[int], list[int]]:
    """Where each row goes: longest first, each into the first sequence that has room.

    Args:
        lengths: tokens of N rows.
        pack_tokens: room of a sequence; at least the longest row.

    Returns:
        N numbers of sequences and N first columns.

    Example:
        >>> first_fit([3, 5, 2], 5)
        ([1, 0, 1], [0, 0, 3])
    """
    room = max(pack_tokens, *lengths)
    used: list[int] = []
    sequences, columns = [0] * len(lengths), [0] * len(lengths)
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        fitting = (k for k, tokens in enumerate(used) if tokens + lengths[row] <= room)
        k = next(fitting, len(used))
        if k == len(used):
            used.append(0)
        sequences[row], columns[row] = k, used[k]
        used[k] += lengths[row]
    return sequences, columns


@torch.no_grad()
def check_packing(model: Any) -> None:
    """Raise unless a model keeps packed rows apart.

    Raises:
        ValueError: packed rows differ from rows alone; training would silently mix them.
    """
    device = next(model.parameters()).device
    ids = torch.arange(1, 25, device=device).view(4, 6) % text_config(model).vocab_size
    mask = torch.arange(6, device=device) < torch.tensor([[6], [4], [3], [5]], device=device)
    with evaluating(model):
        alone = hidden_states(model, ids, mask)[mask].float()
        packed = hidden_states(model, ids, mask, pack_tokens=10)[mask].float()
    difference = float((alone - packed).abs().max() / alone.abs().max())
    if difference > tolerance(model, 1e-3, 0.02):
        raise ValueError(
            f"{type(model).__name__} with attention {model.config._attn_implementation} does not keep packed rows "
            f"apart (they differ by {difference:.1%}): leave pack_tokens out, or use attention: sdpa"
        )
