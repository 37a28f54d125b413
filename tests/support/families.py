"""Tiny models of many families: fields that make a model of 2 to 4 layers with random weights, nothing downloaded."""

from __future__ import annotations

from typing import Any

import torch

from lit_rl.models import CausalLM
from support.tiny_models import TINY_QWEN2, loaded

SMALL = {name: value for name, value in TINY_QWEN2.items() if name not in ("model_type", "tie_word_embeddings")}
UNGROUPED = {name: value for name, value in SMALL.items() if name != "num_key_value_heads"}
HEAD = {"head_dim": 8}
CAPS = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
GRANITE = {
    "logits_scaling": 4.0,
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.3,
    "residual_multiplier": 0.5,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2}
LOCAL = EXPERTS | {"num_local_experts": 4}
ROUTED = EXPERTS | {"n_routed_experts": 4, "moe_intermediate_size": 16, "routed_scaling_factor": 1.5}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "n_inner": 64}
LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "n_shared_experts": 1,
}
MAMBA2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 8,
}

FAMILIES: dict[str, dict[str, Any]] = {
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "codegen": GPT2 | {"n_ctx": 128, "rotary_dim": 4},
    "cohere": SMALL | {"logit_scale": 0.3},
    "cohere2": SMALL | HEAD | {"sliding_window": 8, "logit_scale": 0.3},
    "deepseek_v3": SMALL | LATENT | ROUTED,
    "gemma2": SMALL | HEAD | CAPS | {"sliding_window": 8, "query_pre_attn_scalar": 8},
    "gemma3_text": SMALL
    | HEAD
    | CAPS
    | {"sliding_window": 8, "query_pre_attn_scalar": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "gemma3": {
        "text_config": SMALL | HEAD | {"model_type": "gemma3_text", "vocab_size": 258, "sliding_window": 8},
        "vision_config": {
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "image_size": 28,
            "patch_size": 14,
        },
    },
    "glm4_moe": SMALL | HEAD | ROUTED | {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "gpt2": GPT2,
    "gpt_bigcode": GPT2,
    "gpt_neox": UNGROUPED,
    "gpt_oss": SMALL | HEAD | LOCAL | {"sliding_window": 8},
    "granite": SMALL | GRANITE,
    "granitemoehybrid": SMALL
    | LOCAL
    | GRANITE
    | MAMBA2
    | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 32, "position_embedding_type": "rope"},
    "llama": SMALL,
    "llama_dynamic": SMALL
    | {
        "model_type": "llama",
        "max_position_embeddings": 64,
        "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
    },
    "mamba2": {name: value for name, value in UNGROUPED.items() if name != "num_attention_heads"}
    | {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8},
    "mistral": SMALL | {"sliding_window": 8},
    "mixtral": SMALL | LOCAL,
    "olmo2": SMALL,
    "phi3": SMALL,
    "phi3_longrope": SMALL
    | {
        "model_type": "phi3",
        "max_position_embeddings": 128,
        "original_max_position_embeddings": 32,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0] * 4,
            "long_factor": [1.0, 2.0, 4.0, 8.0],
            "original_max_position_embeddings": 32,
        },
    },
    "qwen2": SMALL,
    "qwen2_moe": SMALL | EXPERTS | {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 32},
    "qwen3": SMALL | HEAD,
    "qwen3_5_text": SMALL
    | HEAD
    | {
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    },
    "qwen3_moe": SMALL | HEAD | LOCAL | {"moe_intermediate_size": 16},
    "recurrent_gemma": SMALL
    | HEAD
    | {
        "num_hidden_layers": 3,
        "lru_width": 32,
        "attention_window_size": 64,
        "block_types": ["recurrent", "recurrent", "attention"],
    },
    "rwkv": {
        "hidden_size": 32,
        "attention_hidden_size": 32,
        "num_hidden_layers": 2,
        "intermediate_size": 64,
        "context_length": 128,
    },
    "smollm3": SMALL,
    "starcoder2": SMALL,
}


QUICK = ("gemma2", "granitemoehybrid", "llama_dynamic", "mamba2", "phi3_longrope", "rwkv")
"""One for each way to differ: soft-capping, masks, hybrids, long RoPE, recurrent states."""

CHECKS_THAT_RAISE = {
    "recurrent_gemma": "its logits are not its output matrix times its hidden states",
    "rwkv": "a probe of a few tokens failed",
}
"""Families that do not load, and what the one line says."""

UNADAPTED = {"mamba2"}
"""Families whose linear layers PEFT refuses."""

SHORT = {
    "mamba2": "PEFT refuses its linear layers",
    "llama_dynamic": "llama with dynamic NTK",
    "phi3_longrope": "phi3 with long RoPE: rows end where its frequencies would change",
}
"""Remarks in the table."""


def config_of(family: str) -> dict[str, Any]:
    """The fields for :class:`lit_rl.models.CausalLM`."""
    return {"model_type": family} | FAMILIES[family]


def language_model(family: str, tokenizer: str) -> CausalLM:
    """A loaded policy whose weights do not depend on transformers; it ends a completion after about 20 tokens."""
    policy = loaded(tokenizer, config=config_of(family), probe=False)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            generator = torch.Generator().manual_seed(sum(name.encode()))
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    policy.codec.eos_ids = frozenset(range(0, 256, 23))
    return policy
