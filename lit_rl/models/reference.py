"""Frozen scorers: log-probabilities of given tokens without gradients, for a reference or a teacher.

Letters: N rows, T completion tokens.
"""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.math.logprobs import TokenLogits
from lit_rl.models.adapters import (
    POLICY,
    REFERENCE,
    add_reference_adapter,
    copy_or_interpolate_adapter,
    has_adapter,
    interpolate_in_place,
    using_adapter,
)
from lit_rl.training.ranks import gather_unit_until_reshard, gathered_unit_weights, reshard
from lit_rl.types import Completions


class NoGradScorer:
    """Scorer of tokens with a policy's present weights, without gradients; a subclass overrides the first two methods.

    Args:
        policy: a :class:`lit_rl.models.Policy`, the policy that learns or another one.
        own: weights that serve this scorer alone; if they are sharded, their output matrix stays gathered from
            :meth:`lazy_token_logits` until :meth:`free_gathered_weights`.
    """

    own: nn.Module | None = None

    def __init__(self, policy: Any, own: nn.Module | None = None) -> None:
        self._policy = policy
        self.own = own

    def logprobs(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        """Return the log-probabilities [N, T] (nats) of the completions' tokens, 0 outside the mask."""
        with torch.no_grad():
            logprobs: Tensor = self._policy.logprobs(completions, temperature)
            return logprobs

    def lazy_token_logits(self, completions: Completions) -> TokenLogits:
        """Return the logits of the completions' tokens; see :meth:`lit_rl.models.Policy.lazy_token_logits`."""
        logits: TokenLogits = self._policy.lazy_token_logits(completions)
        if self.own is not None:
            gather_unit_until_reshard(self.own)
        return logits

    def free_gathered_weights(self) -> None:
        """Free the gathered weights."""
        if self.own is not None:
            reshard(self.own)

    def refresh_from_policy(self, share: float = 1.0) -> None:
        """Move to the policy as it is now (iterative GRPO), or by a share of the way there (a moving average)."""


class FrozenCopyReference(NoGradScorer):
    """A second model that does not learn."""

    own: nn.Module

    def __init__(self, policy: Any, own: nn.Module, trained: nn.Module) -> None:
        super().__init__(policy, own)
        self._trained = trained

    def logprobs(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        with torch.no_grad(), gathered_unit_weights(self.own):
            logprobs: Tensor = self._policy(completions, temperature, model=self.own)[0]
            return logprobs

    def lazy_token_logits(self, completions: Completions) -> TokenLogits:
        gather_unit_until_reshard(self.own)
        logits: TokenLogits = self._policy.lazy_token_logits(completions, model=self.own)
        return logits

    def refresh_from_policy(self, share: float = 1.0) -> None:
        self._policy.reference_was_refreshed = True
        self.free_gathered_weights()
        with torch.no_grad():
            for old, new in zip(self.own.parameters(), self._trained.parameters(), strict=True):
                interpolate_in_place(old, new, share)


class SharedBaseReference(NoGradScorer):
    """The policy's own base under another adapter, or under none: no second copy of the base in memory.

    If the policy started from an adapter, or the reference is to move, the model has a frozen reference adapter, which
    is used. Otherwise the adapters are off: new adapters begin without effect.
    """

    def logprobs(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        with self._using_reference_adapter():
            return super().logprobs(completions, temperature)

    def lazy_token_logits(self, completions: Completions) -> TokenLogits:
        with self._using_reference_adapter():
            logits = super().lazy_token_logits(completions)

        def under_adapter(rows: slice) -> Tensor:
            with self._using_reference_adapter():
                return logits(rows)

        return under_adapter

    def _using_reference_adapter(self) -> AbstractContextManager[None]:
        model = self._policy.model
        return using_adapter(model, REFERENCE if has_adapter(model, REFERENCE) else None)

    def refresh_from_policy(self, share: float = 1.0) -> None:
        model = self._policy.model
        if not has_adapter(model, REFERENCE):
            add_reference_adapter(model, self._policy.init_seed)
        copy_or_interpolate_adapter(model, POLICY, REFERENCE, share)


def make_frozen_copy(module: nn.Module) -> nn.Module:
    """Return a copy in eval mode that no optimizer changes and no checkpoint holds."""
    return copy.deepcopy(module).eval().requires_grad_(False)
