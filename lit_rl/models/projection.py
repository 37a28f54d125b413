"""From hidden states to logits, chunk by chunk, for any causal LM of transformers.

The loss needs logits of a few tokens at a time, never of the whole batch, so it applies the output matrix
itself. Some families do more to their logits than that; what they do is read from their configuration, and
the result is compared with the model's own logits once, when the model is loaded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from lit_rl.functional.linear_head import LinearHead, narrowed
from lit_rl.functional.logprobs import Projection
from lit_rl.models.family import UnsupportedModelError, decoder_of, text_config
from lit_rl.training.sharding import evaluating


def project(model: Any, hidden: Tensor) -> Tensor:
    """Logits of hidden states.

    Args:
        model: a causal LM of transformers (inside PEFT or not).
        hidden: [M, H] last hidden states, after the final norm.

    Returns:
        [M, V] logits, in the dtype of the output matrix.
    """
    return projection(model)(hidden)


def projection(model: Any) -> Projection:
    """The function from hidden states to logits; a :class:`LinearHead` where the output layer is just a matrix.

    An output layer with adapters, hooks or quantized weights, and that of a sharded model, is called as it is.

    Args:
        model: a causal LM of transformers (inside PEFT or not).
    """
    head, scale, cap = model.get_output_embeddings(), 1.0, None
    config = text_config(model)
    if (factor := getattr(config, "logit_scale", None)) is not None:  # Cohere
        scale *= factor
    if (divisor := getattr(config, "logits_scaling", None)) is not None:  # Granite
        scale /= divisor
    if (bound := getattr(config, "final_logit_softcapping", None)) is not None:  # Gemma 2 and 3
        cap = bound
    if is_plain(head) and not any(isinstance(module, FSDPModule) for module in model.modules()):
        return LinearHead(head.weight, head.bias, scale, cap)
    shape = LinearHead(head.weight, None, scale, cap).shape

    def call(hidden: Tensor) -> Tensor:
        return shape(head(narrowed(hidden, head.weight)))

    return call


def is_plain(layer: Any) -> bool:
    """Whether a layer is a linear layer of torch on plain tensors, and calling it does nothing else."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    tensors = [layer.weight, layer.bias] if type(layer) is nn.Linear else []
    return (
        type(layer) is nn.Linear
        and not any(hooks)
        and "forward" not in vars(layer)
        and all(tensor is None or type(tensor) in (Tensor, nn.Parameter) for tensor in tensors)
    )


@torch.no_grad()
def check_projection(model: Any) -> None:
    """Raise unless :func:`project` reproduces the model's own logits on a few tokens.

    Raises:
        UnsupportedModelError: the family does something to its logits that :func:`project` does not know;
            training it would silently follow wrong log-probabilities.
    """
    device = next(model.parameters()).device
    ids = torch.arange(1, 5, device=device)[None] % text_config(model).vocab_size
    with evaluating(model):
        own = model(input_ids=ids).logits[0].float()
        hidden = decoder_of(model)(input_ids=ids, use_cache=False).last_hidden_state[0]
    ours = project(model, hidden).float()
    if (gap := relative_gap(ours, own)) > tolerance(model, 1e-3, 0.02):
        raise UnsupportedModelError(
            f"the logits of {type(model).__name__} are not its output matrix times its hidden states "
            f"(they differ by {gap:.1%}): add what it does to lit_rl.models.projection"
        )


def relative_gap(ours: Tensor, theirs: Tensor) -> float:
    """How far logits [M, V] lie from others, as a share of the others' spread over the vocabulary."""
    spread = theirs - theirs.mean(-1, keepdim=True)
    return float((ours - theirs).norm() / spread.norm().clamp(min=1e-20))


def tolerance(model: Any, exact: float, rounded: float) -> float:
    """The largest gap that rounding explains: ``exact``, or ``rounded`` where some weights are below float32."""
    wide = (torch.float32, torch.float64)
    return exact if all(parameter.dtype in wide for parameter in model.parameters()) else rounded
