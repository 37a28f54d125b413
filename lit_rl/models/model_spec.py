"""What a model is built from: all that :mod:`lit_rl.models.loading` needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lit_rl.models.adapters import LoRA


@dataclass(frozen=True)
class ModelSpec:
    """A causal language model and its adapters, described before anything is loaded.

    Args:
        source: hub id, folder of a model, GGUF file, or folder of a PEFT adapter; ``None`` builds a model from
            ``config``.
        config: fields of a new model's configuration, ``model_type`` among them.
        lora: shape of new adapters; ``None`` for none.
        dtype: of the weights, by torch's name.
        attention: attention implementation of transformers; ``None`` lets it choose.
        init_seed: seed of the initial weights of a new model and of new adapters.
        quantization: ``4bit`` loads the base in 4 bits.
    """

    source: str | None = None
    config: Mapping[str, Any] | None = None
    lora: LoRA | None = None
    dtype: str = "float32"
    attention: str | None = None
    init_seed: int = 0
    quantization: Literal["4bit"] | None = None
