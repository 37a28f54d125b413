"""Tiny models of many families: fields that make a model of 2 to 4 layers with random weights, nothing downloaded."""

from __future__ import annotations

from typing import Any

SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
HEAD = {"head_dim": 8}
CAPS = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
GRANITE = {
    "logits_scaling": 4.0,
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.3,
    "residual_multiplier": 0.5,
}
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "moe_topk": 2,
    "route_scale": 1.5,
    "routed_scaling_factor": 1.5,
}
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
    "mamba_d_ssm": 64,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 8,
}

FAMILIES: dict[str, dict[str, Any]] = {
    "afmoe": SMALL
    | HEAD
    | EXPERTS
    | {"num_dense_layers": 1, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "apertus": SMALL,
    "arcee": SMALL,
    "bamba": SMALL | MAMBA2 | {"num_hidden_layers": 2, "attn_layer_indices": [1]},
    "biogpt": SMALL,
    "bitnet": SMALL,
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "codegen": {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 128,
        "n_ctx": 128,
        "rotary_dim": 4,
        "n_inner": 64,
    },
    "cohere": SMALL | {"logit_scale": 0.3},
    "cohere2": SMALL | HEAD | {"sliding_window": 8, "logit_scale": 0.3},
    "cwm": SMALL
    | HEAD
    | {"bos_token_id": 256, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention"]},
    "dbrx": {
        "d_model": 32,
        "n_heads": 4,
        "n_layers": 2,
        "max_seq_len": 128,
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.8, "rope_theta": 10000.0},
    },
    "deepseek_v2": SMALL | LATENT | EXPERTS | {"q_lora_rank": None},
    "deepseek_v3": SMALL | LATENT | EXPERTS,
    "diffllama": SMALL,
    "doge": SMALL,
    "dots1": SMALL
    | HEAD
    | EXPERTS
    | {"n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "ernie4_5": SMALL | HEAD,
    "ernie4_5_moe": SMALL | EXPERTS | {"moe_num_experts": 4, "moe_k": 2, "moe_layer_start_index": 1},
    "exaone4": SMALL | HEAD | {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "falcon": SMALL | {"alibi": False},
    "falcon_alibi": SMALL | {"model_type": "falcon", "alibi": True},
    "falcon_h1": SMALL
    | HEAD
    | MAMBA2
    | {
        "attention_in_multiplier": 0.7,
        "attention_out_multiplier": 1.4,
        "embedding_multiplier": 1.7,
        "key_multiplier": 0.6,
        "lm_head_multiplier": 0.4,
        "mlp_multipliers": [0.8, 1.3],
        "ssm_in_multiplier": 1.2,
        "ssm_multipliers": [0.9, 1.1, 0.7, 1.3, 0.6],
        "ssm_out_multiplier": 0.8,
    },
    "falcon_mamba": SMALL | {"state_size": 8},
    "flex_olmo": SMALL | EXPERTS,
    "gemma": SMALL | HEAD,
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
    "glm": SMALL | HEAD,
    "glm4": SMALL | HEAD,
    "glm4_moe": SMALL | HEAD | EXPERTS | {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "gpt2": GPT2,
    "gpt_bigcode": GPT2,
    "gpt_neo": {
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "attention_types": [[["global", "local"], 1]],
        "window_size": 8,
        "max_position_embeddings": 128,
        "intermediate_size": 64,
    },
    "gpt_neox": SMALL,
    "gpt_neox_japanese": SMALL | {"intermediate_multiple_size": 2},
    "gpt_oss": SMALL | HEAD | EXPERTS | {"sliding_window": 8},
    "gptj": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "rotary_dim": 4, "n_inner": 64},
    "granite": SMALL | GRANITE,
    "granitemoe": SMALL | EXPERTS | GRANITE,
    "granitemoehybrid": SMALL
    | EXPERTS
    | GRANITE
    | MAMBA2
    | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 32, "position_embedding_type": "rope"},
    "granitemoeshared": SMALL | EXPERTS | GRANITE | {"shared_intermediate_size": 32},
    "helium": SMALL | HEAD,
    "hunyuan_v1_dense": SMALL | HEAD,
    "hunyuan_v1_moe": SMALL | HEAD | EXPERTS,
    "hyperclovax": SMALL | HEAD | GRANITE,
    "jamba": SMALL
    | EXPERTS
    | {
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "mamba_d_state": 8,
        "mamba_dt_rank": 4,
        "use_mamba_kernels": False,
    },
    "jetmoe": SMALL | EXPERTS | {"kv_channels": 8, "num_key_value_heads": 2},
    "lfm2": SMALL | {"layer_types": ["conv", "full_attention"], "block_ff_dim": 64},
    "llama": SMALL,
    "llama_dynamic": SMALL
    | {
        "model_type": "llama",
        "max_position_embeddings": 64,
        "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
    },
    "llama4_text": SMALL | HEAD | EXPERTS | {"intermediate_size_mlp": 64, "attention_chunk_size": 8},
    "mamba": SMALL | {"state_size": 8},
    "mamba2": SMALL | {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8},
    "minimax": SMALL | HEAD | EXPERTS | {"layer_types": ["linear_attention", "full_attention"], "block_size": 8},
    "ministral": SMALL | HEAD | {"sliding_window": 8},
    "mistral": SMALL | {"sliding_window": 8},
    "mixtral": SMALL | EXPERTS,
    "modernbert-decoder": SMALL | {"bos_token_id": 256, "local_attention": 8, "sliding_window": 8},
    "mpt": {
        "d_model": 32,
        "n_heads": 4,
        "n_layers": 2,
        "max_seq_len": 128,
        "logit_scale": 0.3,
        "attn_config": {"clip_qkv": 0.8, "softmax_scale": 0.5},
    },
    "nanochat": SMALL | CAPS,
    "nemotron": SMALL | HEAD,
    "nemotron_h": SMALL
    | HEAD
    | EXPERTS
    | {
        "hybrid_override_pattern": "M*E",
        "mamba_num_heads": 8,
        "mamba_head_dim": 8,
        "ssm_state_size": 8,
        "n_groups": 1,
        "chunk_size": 8,
    },
    "olmo": SMALL | {"clip_qkv": 0.8},
    "olmo2": SMALL,
    "olmo3": SMALL | {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "olmoe": SMALL | EXPERTS | {"clip_qkv": 0.8},
    "openai-gpt": GPT2,
    "opt": SMALL | {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "persimmon": SMALL | {"num_key_value_heads": 4},
    "phi": SMALL,
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
    "phimoe": SMALL | EXPERTS,
    "qwen2": SMALL,
    "qwen2_moe": SMALL | EXPERTS | {"shared_expert_intermediate_size": 32},
    "qwen2_vl": {
        "text_config": SMALL
        | {
            "vocab_size": 258,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
        },
        "vision_config": {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2},
    },
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
    "qwen3_moe": SMALL | HEAD | EXPERTS,
    "qwen3_next": SMALL
    | HEAD
    | EXPERTS
    | {
        "layer_types": ["linear_attention", "full_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 32,
    },
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
    "seed_oss": SMALL | HEAD,
    "smollm3": SMALL,
    "solar_open": SMALL | HEAD | EXPERTS,
    "stablelm": SMALL,
    "starcoder2": SMALL,
    "vaultgemma": SMALL | HEAD | CAPS | {"sliding_window": 8},
    "xglm": {"d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 64, "max_position_embeddings": 300},
    "zamba2": SMALL
    | {
        "num_key_value_heads": 4,
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
        "num_hidden_layers": 3,
        "layers_block_type": ["mamba", "hybrid", "mamba"],
        "n_mamba_heads": 4,
        "mamba_headdim": 16,
        "mamba_ngroups": 1,
        "mamba_d_state": 8,
        "chunk_size": 8,
        "num_mem_blocks": 1,
    },
}


QUICK = (
    "gemma2",
    "gpt_neo",
    "granitemoehybrid",
    "llama_dynamic",
    "mamba2",
    "phi3_longrope",
    "rwkv",
)
"""One for each way to differ: soft-capping, masks, hybrids, long RoPE, recurrent states."""

REFUSED = {
    "minimax": "cannot be sampled and trained here",
    "modernbert-decoder": "not its output matrix times its hidden states",
    "openai-gpt": "in no cache whose rows can be chosen",
    "qwen2_vl": "no causal language model of the kind",
    "recurrent_gemma": "not its output matrix times its hidden states",
    "rwkv": "in no cache whose rows can be chosen",
}
"""Families that do not load, and what the one line says."""

SHORT = {
    "gpt_neo": "left pads use positions up",
    "llama_dynamic": "llama with dynamic NTK",
    "falcon_alibi": "falcon with ALiBi",
    "mpt": "left pads use positions up",
    "phi3_longrope": "phi3 with long RoPE: rows end where its frequencies would change",
}
"""Remarks in the table."""


def config_of(family: str) -> dict[str, Any]:
    """The fields for :class:`lit_rl.models.CausalLM`."""
    return {"model_type": family} | FAMILIES[family]
