"""The reference: a frozen model that scores tokens like a policy, for comparison with it.

Letters: N rows, T completion tokens.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.models.adapters import POLICY, REFERENCE, add_reference_adapter, copy_adapter, has_adapter, using_adapter
from lit_rl.training.ranks import gathered
from lit_rl.types import Completions


class Reference(ABC):
    """Log-probabilities of completions without gradients; stays where it is until it is refreshed."""

    @abstractmethod
    def logprobs(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        """[N, T] log-probabilities (nats) of the completions' tokens, 0 outside the mask."""

    @abstractmethod
    def refresh(self) -> None:
        """Move the reference to the policy as it is now (iterative GRPO)."""


class FrozenCopy(Reference):
    """A second model that does not learn.

    Args:
        weights: of the reference, see :func:`frozen_copy`; they may be sharded.
        trained: the policy's own weights.
        logprobs: log-probabilities [N, T] of completions at a temperature, under given weights.
        on_refresh: called when the copy no longer is what the policy started from.
    """

    def __init__(
        self,
        weights: nn.Module,
        trained: nn.Module,
        logprobs: Callable[[Completions, float, Any], Tensor],
        on_refresh: Callable[[], None] | None = None,
    ) -> None:
        self.weights = weights
        self._trained = trained
        self._logprobs = logprobs
        self._on_refresh = on_refresh

    def logprobs(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        """[N, T] log-probabilities under the copy."""
        with torch.no_grad(), gathered(self.weights):
            return self._logprobs(completions, temperature, self.weights)

    def refresh(self) -> None:
        """Copy the policy's present weights into the reference."""
        if self._on_refresh is not None:
            self._on_refresh()
        with torch.no_grad():
            for old, new in zip(self.weights.parameters(), self._trained.parameters(), strict=True):
                old.copy_(new)


class BaseReference(Reference):
    """The policy's own base under another adapter, or under none: no second copy of the base in memory.

    A frozen reference adapter is used where the model has one, because the policy started from an adapter or the
    reference was to move. Otherwise the adapters are off, which is where new adapters start.

    Args:
        model: inside PEFT.
        seed: of a new adapter's initial weights, which are copied over.
        logprobs: log-probabilities [N, T] of completions at a temperature, under the adapter in use.
    """

    def __init__(self, model: Any, seed: int, logprobs: Callable[[Completions, float], Tensor]) -> None:
        self._model = model
        self._seed = seed
        self._logprobs = logprobs

    def logprobs(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        """[N, T] log-probabilities under the reference's adapter, or under none."""
        name = REFERENCE if has_adapter(self._model, REFERENCE) else None
        with torch.no_grad(), using_adapter(self._model, name):
            return self._logprobs(completions, temperature)

    def refresh(self) -> None:
        """Copy the policy's adapter into the reference's, which is added if there is none."""
        if not has_adapter(self._model, REFERENCE):
            add_reference_adapter(self._model, self._seed)
        copy_adapter(self._model, POLICY, REFERENCE)


def frozen_copy(module: nn.Module) -> nn.Module:
    """A copy in eval mode that no optimizer changes and no checkpoint holds."""
    return copy.deepcopy(module).eval().requires_grad_(False)
