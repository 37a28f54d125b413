"""Weights that move without training."""

from __future__ import annotations

from unittest import mock

import torch
from transformers import AutoModelForCausalLM

from lit_rl.engines.weight_export import full_weights
from lit_rl.models import CausalLM
from lit_rl.types import Completions


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


def rounding_bound(policy: CausalLM, rows: Completions, temperature: float = 1.0) -> float:
    """Distance of log-probabilities (nats a token) that rounding explains for these weights on this processor.

    It is fifty times the distance to the same weights in double precision, with adapters merged. One processor adds up
    in another order than the next, and attention with large scores multiplies that.
    """
    whole = AutoModelForCausalLM.from_config(policy.model.config).double().eval()
    whole.load_state_dict(dict(full_weights(policy, with_tied=True)))
    with torch.no_grad():
        ours = policy.logprobs(rows, temperature)
        with mock.patch.object(policy, "model", whole):
            exact = policy.logprobs(rows, temperature)
    return 50 * float((ours - exact)[rows.completion_mask].abs().max())
