"""Weights that move without training."""

from __future__ import annotations

import torch

from lit_rl.models import CausalLM


def disturb(policy: CausalLM, seed: int, size: float = 0.05) -> None:
    """Move what learns, as an optimizer step does.

    Args:
        policy: a loaded one; changed in place.
        seed: of the noise; with 0 the version stays, as before any step.
        size: standard deviation of the noise.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter += size * torch.randn(parameter.shape, generator=generator)
    policy.version += seed > 0
