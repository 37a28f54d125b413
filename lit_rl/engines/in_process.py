"""Sampling in the trainer's own process with the trainer's own weights: always on-policy, nothing to sync."""

from __future__ import annotations

import torch

from lit_rl.engines.base import Engine
from lit_rl.models.policy import OnFinished, Policy
from lit_rl.models.streams import StreamKey
from lit_rl.training.modes import evaluating
from lit_rl.training.phases import phase
from lit_rl.training.sharding import unsharded
from lit_rl.types import Completions, PromptBatch, Sampling


class InProcess(Engine):
    """The default engine: calls :meth:`Policy.sample`."""

    def generate(
        self,
        policy: Policy,
        prompts: PromptBatch,
        sampling: Sampling,
        key: StreamKey,
        on_finished: OnFinished | None = None,
    ) -> Completions:
        """See :meth:`Engine.generate`."""
        with torch.no_grad(), evaluating(policy), phase("sampling"), unsharded(policy):
            return policy.sample(prompts, sampling, key, on_finished)
