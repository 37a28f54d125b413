"""Tensors of the current update, for crash dumps and callbacks."""

from __future__ import annotations

import torch
from torch import Tensor

from lit_rl.modules.not_finite import Evidence, evidence_of_experience
from lit_rl.types import Experience


class UpdateTrace:
    """The current micro-batch and, over a rollout's updates, what its forward passes found of each token.

    Attributes:
        micro: n rows that are being learned from.
        logprobs: [n, T] nats of the policy, once its forward pass is done.
        found: of the rollout, [N, T] nats by name: ``logprobs`` and, where computed, ``entropy`` of each token in the
            forward pass of the last update that its row was part of; NaN in rows that were not trained.
    """

    micro: Experience | None
    logprobs: Tensor | None
    _entropy: Tensor | None

    def __init__(self) -> None:
        self.found: dict[str, Tensor] = {}
        self.end()

    def begin(self, micro: Experience) -> None:
        """Start a micro-batch."""
        self.end()
        self.micro = micro

    def note(self, logprobs: Tensor, entropy: Tensor | None) -> None:
        """Keep what the policy's forward pass found of its rows, [n, T] nats each."""
        self.logprobs = logprobs.detach()
        self._entropy = None if entropy is None else entropy.detach()

    def store(self, rows: Tensor, like: Tensor) -> None:
        """Put what was found into the rollout's places.

        Args:
            rows: [n] numbers of these rows in the rollout; none for a row that counts for nothing.
            like: [N, T] of the rollout's shape.
        """
        for name, values in (("logprobs", self.logprobs), ("entropy", self._entropy)):
            if values is not None and len(rows):
                kept = self.found.setdefault(name, torch.full_like(like, torch.nan))
                kept[rows.to(kept.device), : values.shape[1]] = values.to(kept.dtype)

    def end(self) -> None:
        """Drop the micro-batch: the update is over."""
        self.micro = self.logprobs = self._entropy = None

    def evidence(self) -> Evidence:
        """The rows as they went into the loss, and their log-probabilities now, each if known."""
        rows = evidence_of_experience(self.micro) if self.micro is not None else {}
        return rows | ({"logprobs": self.logprobs.cpu()} if self.logprobs is not None else {})
