"""The reference: a frozen model that scores tokens like a policy, for comparison with it.

Letters: N rows, T completion tokens.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.functional.logprobs import TokenLogits
from lit_rl.models.adapters import (
    POLICY,
    REFERENCE,
    add_reference_adapter,
    copy_adapter,
    has_adapter,
    move,
    using_adapter,
)
from lit_rl.training.ranks import gathered, reshard, stay_whole
from lit_rl.types import Completions


class Reference(ABC):
    """Log-probabilities of completions without gradients; stays where it is until it is refreshed."""

    @abstractmethod
    def logprobs(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        """[N, T] log-probabilities (nats) of the completions' tokens, 0 outside the mask."""

    @abstractmethod
    def token_logits(self, completions: Completions) -> TokenLogits:
        """Whole distributions of the completions' tokens; see :meth:`lit_rl.models.Policy.token_logits`."""

    @abstractmethod
    def refresh(self, share: float = 1.0) -> None:
        """Move the reference to the policy as it is now (iterative GRPO), or by a share of the way there (an EMA)."""


class FrozenCopy(Reference):
    """A second model that does not learn.

    Args:
        policy: a :class:`lit_rl.models.Policy`; scores completions with weights that are handed to it as ``model``.
        weights: of the reference, see :func:`frozen_copy`; they may be sharded.
        trained: the policy's own weights.
    """

    def __init__(self, policy: Any, weights: nn.Module, trained: nn.Module) -> None:
        self._policy = policy
        self.weights = weights
        self._trained = trained

    def logprobs(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        """[N, T] log-probabilities under the copy."""
        with torch.no_grad(), gathered(self.weights):
            logprobs: Tensor = self._policy(completions, temperature, model=self.weights)[0]
            return logprobs

    def token_logits(self, completions: Completions) -> TokenLogits:
        """Whole distributions under the copy, whose output matrix then stays gathered where weights are sharded."""
        stay_whole(self.weights)
        logits: TokenLogits = self._policy.token_logits(completions, model=self.weights)
        return logits

    def refresh(self, share: float = 1.0) -> None:
        """Move the copy's weights to the policy's present ones, or by a share of the way."""
        self._policy.reference_was_refreshed = True
        reshard(self.weights)
        with torch.no_grad():
            for old, new in zip(self.weights.parameters(), self._trained.parameters(), strict=True):
                move(old, new, share)


class BaseReference(Reference):
    """The policy's own base under another adapter, or under none: no second copy of the base in memory.

    A frozen reference adapter is used where the model has one, because the policy started from an adapter or the
    reference was to move. Otherwise the adapters are off, which is where new adapters start.

    Args:
        policy: a :class:`lit_rl.models.CausalLM` with adapters.
    """

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def logprobs(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        """[N, T] log-probabilities under the reference's adapter, or under none."""
        with torch.no_grad(), self._adapter():
            logprobs: Tensor = self._policy.logprobs(completions, temperature)
            return logprobs

    def token_logits(self, completions: Completions) -> TokenLogits:
        """Whole distributions under the reference's adapter, or under none."""
        with self._adapter():
            logits: TokenLogits = self._policy.token_logits(completions)

        def under_adapter(rows: slice) -> Tensor:
            with self._adapter():
                return logits(rows)

        return under_adapter

    def _adapter(self) -> AbstractContextManager[None]:
        model = self._policy.model
        return using_adapter(model, REFERENCE if has_adapter(model, REFERENCE) else None)

    def refresh(self, share: float = 1.0) -> None:
        """Move the reference's adapter, which is added if there is none, to the policy's, or by a share of the way."""
        model = self._policy.model
        if not has_adapter(model, REFERENCE):
            add_reference_adapter(model, self._policy.init_seed)
        copy_adapter(model, POLICY, REFERENCE, share)


def frozen_copy(module: nn.Module) -> nn.Module:
    """A copy in eval mode that no optimizer changes and no checkpoint holds."""
    return copy.deepcopy(module).eval().requires_grad_(False)
