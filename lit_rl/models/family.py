"""What differs between families of models in transformers: which arguments they take and where their parts are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from torch import nn

from lit_rl.arguments import UsageError


class UnsupportedModelError(UsageError):
    """A model whose log-probabilities differ between sampling and training, or that transformers cannot build."""


@contextmanager
def plain_refusals(model: str, attention: str | None) -> Iterator[None]:
    """Say in one line what transformers says in a hundred when it refuses to build a model.

    Raises:
        UnsupportedModelError: the model is not a causal language model, or lacks the attention implementation.
    """
    try:
        yield
    except ValueError as error:
        if "Unrecognized configuration class" in str(error):
            raise UnsupportedModelError(
                f"transformers has no causal language model of the kind of {model}: use a model that writes text"
            ) from error
        if attention is not None and "does not support an attention implementation" in str(error):
            raise UnsupportedModelError(
                f"{model} has no attention implementation {attention}: leave attention out, or use eager"
            ) from error
        raise


def base_of(model: Any) -> Any:
    """The model of transformers, also where PEFT wraps it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def text_config(model: Any) -> Any:
    """The configuration of the language model, also inside a multimodal one."""
    config = base_of(model).config
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def decoder_of(model: Any) -> nn.Module:
    """The part of a causal LM below its output matrix."""
    inner = base_of(model)
    decoder: nn.Module = inner.get_decoder()
    if decoder is inner or isinstance(decoder, nn.Linear):
        # Llama 4 looks under a name that its text model does not use; ModernBERT calls its output matrix that way.
        decoder = getattr(inner, "model", inner)
    return decoder


def takes(module: nn.Module, name: str) -> bool:
    """Whether a model has an argument of this name, or hands unknown ones to a decoder that has it.

    PEFT's own ``forward`` takes anything, so the question goes to the model inside.
    """
    inner = base_of(module)
    parameters = _parameters(inner.__class__.forward)
    if name in parameters or inspect.Parameter.VAR_KEYWORD not in parameters.values():
        return name in parameters
    decoder = inner.get_decoder() if hasattr(inner, "get_decoder") else inner
    return decoder is not inner and name in _parameters(decoder.__class__.forward)


@lru_cache(maxsize=64)
def _parameters(forward: Callable[..., Any]) -> dict[str, Any]:
    """Names and kinds of a function's arguments."""
    return {name: one.kind for name, one in inspect.signature(forward).parameters.items()}


def most_positions(model: Any) -> int | None:
    """Tokens of prompt and completion that a model reads with the same positions throughout; ``None`` for any number.

    Long RoPE changes all of its frequencies once a sequence is longer than the model was first trained on. Keys that
    are in the cache by then keep the old ones, and short rows change with a long one beside them, so rows end there.
    """
    config = text_config(model)
    limits = [getattr(config, "max_position_embeddings", None), getattr(config, "max_seq_len", None)]
    rope = getattr(config, "rope_parameters", None) or {}
    for kind in [rope, *(value for value in rope.values() if isinstance(value, dict))]:
        if kind.get("rope_type") == "longrope":
            limits.append(
                kind.get("original_max_position_embeddings")
                or getattr(config, "original_max_position_embeddings", None)
            )
    return min((int(limit) for limit in limits if limit), default=None)


def counts_pads(model: Any) -> bool:
    """Whether a model has causal masks for as many columns as positions, so that left pads use some of them up."""
    return text_config(model).model_type in ("gpt_neo", "mpt")


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
