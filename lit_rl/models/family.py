"""Differences between families of models in transformers: their arguments, their parts, and their logits.

The loss needs logits of a few tokens at a time, never of the whole batch, so it applies the output matrix
itself. Some families do more to their logits than that; what they do is read from their configuration, and
the result is compared with the model's own logits once, when the model is loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import NoneType
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.fsdp import FSDPModule

from lit_rl.errors import UsageError
from lit_rl.math.linear_head import LinearHead, to_weight_dtype
from lit_rl.math.logprobs import Projection
from lit_rl.math.products import FastLinear
from lit_rl.training.ranks import eval_mode


class UnsupportedModelError(UsageError):
    """A model whose log-probabilities differ between sampling and training, or that transformers cannot build."""


@contextmanager
def patched_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Set an attribute of a library's object or module inside the block, if the library has no option for it."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def unwrap_peft(model: Any) -> Any:
    """Return the model of transformers, also if PEFT wraps it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def text_config(model: Any) -> Any:
    """Return the configuration of the language model, also if that is part of a multimodal model."""
    config = unwrap_peft(model).config
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def decoder_of(model: Any) -> nn.Module:
    """Return the part of a causal LM below its output matrix."""
    decoder: nn.Module = unwrap_peft(model).get_decoder()
    return decoder


def accepted_forward_arguments(model: nn.Module) -> frozenset[str]:
    """Return the names of the arguments that a model has, or hands to a decoder that has them.

    PEFT's own ``forward`` takes anything, so the model inside is examined.
    """
    inner = unwrap_peft(model)
    decoder = inner.get_decoder() if hasattr(inner, "get_decoder") else inner
    return _forward_argument_names(type(inner).forward, type(decoder).forward)


@lru_cache(maxsize=64)
def _forward_argument_names(forward: Callable[..., Any], of_decoder: Callable[..., Any]) -> frozenset[str]:
    own = inspect.signature(forward).parameters
    hands_on = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own.values())
    return frozenset(own).union(inspect.signature(of_decoder).parameters if hands_on else ())


def cache_argument_name(model: nn.Module) -> str:
    """Return a model's name for its cache, which is both an argument and a field of its output.

    From 5.24 on transformers says ``cache`` and warns about the older names; state space models had their own.
    """
    accepted = accepted_forward_arguments(model)
    if "cache" in accepted:
        return "cache"
    return "cache_params" if "cache_params" in accepted else "past_key_values"


def max_positions(model: Any) -> int | None:
    """Return how many tokens a model reads with the same positions throughout; ``None`` for any number.

    Long RoPE changes all of its frequencies once a sequence is longer than the model was first trained on. Keys in the
    cache by then keep the old frequencies, and short rows change when batched with a long one, so rows end there.
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


def eos_token_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return every id that ends a completion, from generation config, model config and tokenizer together."""
    ids: set[int] = set()
    for owner in (getattr(model, "generation_config", None), model.config, text_config(model), tokenizer):
        value = getattr(owner, "eos_token_id", None)
        if isinstance(value, int):
            ids.add(value)
        elif value is not None:
            ids.update(int(one) for one in value)
    return frozenset(ids)


def output_projection(model: Any) -> Projection:
    """Return the function from hidden states to logits; a :class:`LinearHead` if the output layer is just a matrix.

    An output layer with adapters, hooks or quantized weights, or of a sharded model, is called as it is.

    Returns:
        Function from last hidden states [M, H], after the final norm, to logits [M, V] in the output matrix's dtype.
    """
    head, scale, cap = model.get_output_embeddings(), 1.0, None
    config = text_config(model)
    if (factor := getattr(unwrap_peft(model), "logit_scale", None)) is not None:  # Cohere
        scale *= factor
    if (divisor := getattr(config, "logits_scaling", None)) is not None:  # Granite
        scale /= divisor
    if (bound := getattr(config, "final_logit_softcapping", None)) is not None:  # Gemma 2 and 3
        cap = bound
    if is_plain_linear(head) and not any(isinstance(module, FSDPModule) for module in model.modules()):
        return LinearHead(head.weight, head.bias, scale, cap)
    shape = LinearHead(head.weight, None, scale, cap).scale_and_cap_logits

    def call(hidden: Tensor) -> Tensor:
        return shape(head(to_weight_dtype(hidden, head.weight)))

    return call


def is_plain_linear(layer: Any) -> bool:
    """Return whether a layer is a linear layer of torch on plain tensors, and does nothing else when it is called."""
    if type(layer) not in (nn.Linear, FastLinear) or "forward" in vars(layer):
        return False
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return not any(hooks) and {type(layer.weight), type(layer.bias)} <= {Tensor, nn.Parameter, FakeTensor, NoneType}


@torch.no_grad()
def check_output_projection(model: Any) -> None:
    """Raise unless :func:`output_projection` reproduces the model's own logits on a few tokens."""
    device = next(model.parameters()).device
    ids = torch.arange(1, 5, device=device)[None] % text_config(model).vocab_size
    with eval_mode(model):
        own = model(input_ids=ids).logits[0].float()
        hidden = decoder_of(model)(input_ids=ids, use_cache=False).last_hidden_state[0]
    ours = output_projection(model)(hidden).float()
    if (gap := relative_logit_gap(ours, own)) > logit_tolerance(model, 1e-3, 0.02):
        raise UnsupportedModelError(
            f"{type(model).__name__}: its logits are not its output matrix times its hidden states "
            f"(off by {gap:.1%}): add the missing step to lit_rl.models.family"
        )


def relative_logit_gap(ours: Tensor, theirs: Tensor) -> float:
    """Return the distance between logits [M, V], as a share of the spread of ``theirs`` over the vocabulary."""
    spread = theirs - theirs.mean(-1, keepdim=True)
    return float((ours - theirs).norm() / spread.norm().clamp(min=1e-20))


def logit_tolerance(model: Any, exact: float, rounded: float) -> float:
    """Return the largest gap that rounding explains: ``exact``, or ``rounded`` if some weights are below float32."""
    wide = (torch.float32, torch.float64)
    return exact if all(parameter.dtype in wide for parameter in model.parameters()) else rounded
