"""Conversations as the padded tensors that learning reads."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lit_rl.models.padding import pad_left, pad_right
from lit_rl.rollout.conversation import Conversation
from lit_rl.types import Completions


def completions_of(conversations: Sequence[Conversation], pad_id: int, device: torch.device) -> Completions:
    """N finished rows: prompts padded on the left, what follows them on the right.

    Args:
        conversations: N rows.
        pad_id: id of the padding.
        device: where the tensors go.
    """
    prompt_ids, prompt_mask = pad_left([row.prompt_ids for row in conversations], pad_id, device)
    lengths = torch.tensor([len(row.ids) for row in conversations], dtype=torch.long)
    ids = pad_right([row.ids for row in conversations], pad_id, torch.long)
    return Completions(
        problems=tuple(row.problem for row in conversations),
        prompt_ids=prompt_ids,
        prompt_mask=prompt_mask,
        completion_ids=ids.to(device),
        completion_mask=pad_right([row.chosen for row in conversations], False, torch.bool).to(device),
        token_mask=(torch.arange(ids.shape[1]) < lengths[:, None]).to(device),
        sampler_logprobs=pad_right([row.logprobs for row in conversations], 0.0, torch.float32).to(device),
        turns=tuple(tuple(row.turns) for row in conversations),
        group_ids=torch.tensor([row.group for row in conversations], dtype=torch.long, device=device),
        weights_versions=tuple(min(row.versions) for row in conversations),
    )
