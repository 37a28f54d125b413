"""Switching between the adapters of one base without touching ``requires_grad``.

PEFT's own ``set_adapter`` and ``disable_adapter`` freeze and unfreeze parameters as they switch; a checkpoint
or an optimizer that looks at ``requires_grad`` in between would see the wrong set. Here only the layers'
choice of adapter changes, and it is restored on every way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from peft.tuners.tuners_utils import BaseTunerLayer
from peft.utils.other import AuxiliaryTrainingWrapper
from torch import nn

from lit_rl.bounds import require_above, require_at_least, require_share
from lit_rl.models.family import base_of

POLICY = "policy"
REFERENCE = "reference"
CRITIC = "critic"


@dataclass(frozen=True)
class LoRA:
    """Low-rank adapters instead of training all weights.

    Args:
        rank: of the update matrices.
        alpha: the update is scaled by ``alpha / rank``.
        dropout: on the adapters' input while training.
        target_modules: layers that get one; ``all-linear`` for every linear layer but the output and those that
            :func:`not_adaptable` names.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    target_modules: str | list[str] = "all-linear"

    def __post_init__(self) -> None:
        require_at_least(1, rank=self.rank)
        require_above(0, alpha=self.alpha)
        require_share(dropout=self.dropout)


# PEFT refuses both names there: Mamba's kernels read the weights without calling the layers.
_MAMBA_TYPES = ("falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h")
_MAMBA_LAYERS = ("out_proj", "conv1d")


def not_adaptable(model: nn.Module) -> list[str]:
    """Names of the linear layers of a model that low-rank adapters cannot wrap.

    Routers of some mixtures of experts are linear layers that return several tensors, and PEFT refuses two layers of
    Mamba blocks.
    """
    inner = base_of(model)
    mamba = getattr(inner.config, "model_type", None) in _MAMBA_TYPES
    return [
        name
        for name, layer in inner.named_modules()
        if (mamba and name.rpartition(".")[2] in _MAMBA_LAYERS)
        or (isinstance(layer, nn.Linear) and "Router" in type(layer).__name__)
    ]


@contextmanager
def using_adapter(model: nn.Module, name: str | None) -> Iterator[None]:
    """Inside, the model's adapter layers use adapter ``name``; ``None`` switches all adapters off.

    Gradients computed by a recomputation of activations must be taken inside as well: a checkpointed layer
    runs again during the backward pass, with the adapter that is chosen then.
    """
    # The second kind are whole layers that an adapter trains and saves: PEFT's ``modules_to_save``.
    layers = [layer for layer in model.modules() if isinstance(layer, BaseTunerLayer | AuxiliaryTrainingWrapper)]
    before = [(layer._active_adapter, layer._disable_adapters) for layer in layers]
    try:
        for layer in layers:
            layer._disable_adapters = name is None
            if name is not None:
                layer._active_adapter = [name]
        yield
    finally:
        for layer, (active, disabled) in zip(layers, before, strict=True):
            layer._active_adapter, layer._disable_adapters = active, disabled


def copy_adapter(model: nn.Module, source: str, target: str) -> None:
    """Copy the weights of one adapter over another one of the same shape, in place."""
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        if f".{source}." in name:
            parameters[name.replace(f".{source}.", f".{target}.")].data.copy_(parameter.data)
