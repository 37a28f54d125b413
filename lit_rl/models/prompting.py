"""Problems as prompt ids: chat template or plain text, padded on the left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lit_rl.models.family import text_config
from lit_rl.types import Problem


def prompt_token_ids(tokenizer: Any, problem: Problem) -> list[int]:
    """Token ids of one prompt.

    Text is tokenized with the tokenizer's own special tokens (BOS where it has one); chat messages go through
    its chat template, which writes its special tokens itself, so none are added a second time.

    Raises:
        ValueError: the prompt is a chat and the tokenizer has no chat template.
    """
    if isinstance(problem.prompt, str):
        ids: list[int] = tokenizer(problem.prompt)["input_ids"]
        return ids
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError(
            f"problem {problem.task_id} is a chat, but the tokenizer has no chat template: "
            "use the task's completion form or a chat model"
        )
    text = tokenizer.apply_chat_template(
        [dict(message) for message in problem.prompt], tokenize=False, add_generation_prompt=True
    )
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def pad_left(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Ids [B, P] and mask [B, P] of rows of unequal length."""
    width = max((len(row) for row in rows), default=0)
    ids = torch.full((len(rows), width), pad_id, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        if row:
            ids[i, width - len(row) :] = torch.tensor(row, dtype=torch.long)
            mask[i, width - len(row) :] = True
    return ids.to(device), mask.to(device)


def pad_right(rows: Sequence[Sequence[float]], value: float, dtype: torch.dtype) -> Tensor:
    """[N, T] of rows of unequal length, on the CPU."""
    width = max((len(row) for row in rows), default=0)
    padded = torch.full((len(rows), width), value, dtype=dtype)
    for i, row in enumerate(rows):
        if row:
            padded[i, : len(row)] = torch.tensor(row, dtype=dtype)
    return padded


def eos_token_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends a completion: generation config, model config and tokenizer together."""
    ids: set[int] = set()
    for owner in (getattr(model, "generation_config", None), model.config, text_config(model), tokenizer):
        value = getattr(owner, "eos_token_id", None)
        if isinstance(value, int):
            ids.add(value)
        elif value is not None:
            ids.update(int(one) for one in value)
    return frozenset(ids)
