"""The model that most tests use."""

from __future__ import annotations

from typing import Any

from lit_rl.models import CausalLM

TINY_QWEN2 = {
    "model_type": "qwen2",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "tie_word_embeddings": True,
}
"""A model of transformers small enough for every test; random weights."""


def loaded(tokenizer: str | None = None, **options: Any) -> CausalLM:
    """A loaded policy: a tiny one, or what the policy's options say instead."""
    shape = {} if "model" in options else {"config": TINY_QWEN2}
    policy = CausalLM(tokenizer=tokenizer, **shape | options)
    policy.load()
    return policy
