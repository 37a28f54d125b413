"""Teachers: whose next-token distributions the policy learns, on tokens that the policy sampled.

A teacher says with which weights tokens are scored. What it reads before them, the policy's prompt or one that tells
more, is another matter, see :class:`lit_rl.rollout.Hindsight`.

Letters: N rows, T completion tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.arguments import TypedArguments, UsageError
from lit_rl.functional.logprobs import TokenLogits
from lit_rl.models.policy import Policy
from lit_rl.models.reference import Reference
from lit_rl.training.ranks import evaluating, stay_whole
from lit_rl.types import Completions

_MOST_NAMED = 3


class Teacher(nn.Module, TypedArguments, ABC):
    """Scores given tokens without gradients; one of your own implements the three methods.

    Attributes:
        reads_reference: whether it is the policy's reference, which the module then keeps.
        is_policy: whether it has the policy's present weights, and so teaches only by what it reads.
    """

    reads_reference = False
    is_policy = False

    @abstractmethod
    def begin(self, policy: Policy, reference: Reference | None) -> None:
        """Load the weights, or take those of the policy or its reference; called before weights are sharded.

        Args:
            policy: loaded.
            reference: what it started from, where :attr:`reads_reference` is set.

        Raises:
            ValueError: the teacher cannot score the policy's tokens.
        """

    @abstractmethod
    def logprobs(self, completions: Completions, temperature: float) -> Tensor:
        """[N, T] log-probabilities (nats) of the completions' tokens, 0 outside the mask."""

    @abstractmethod
    def token_logits(self, completions: Completions) -> TokenLogits:
        """Whole distributions of the completions' tokens; see :meth:`lit_rl.models.Policy.token_logits`."""


class ModelTeacher(Teacher):
    """Another model with the policy's tokenizer, frozen.

    Args:
        model: the teacher; ``quantization: 4bit`` and its other arguments are those of a policy.
    """

    def __init__(self, model: Policy) -> None:
        super().__init__()
        self.model = model

    @property
    def shares_prompts(self) -> bool:
        """True if rows with the same prompt are computed faster together; sharding switches it off."""
        return self.model.shares_prompts

    @shares_prompts.setter
    def shares_prompts(self, value: bool) -> None:
        self.model.shares_prompts = value

    def begin(self, policy: Policy, reference: Reference | None) -> None:
        """Load and freeze the model; compare its vocabulary with the policy's."""
        self.model.load()
        self.model.requires_grad_(False)
        _require_same_vocabulary(policy, self.model)

    def forward(self, completions: Completions, temperature: float | None = None) -> Any:
        """Whole distributions, or log-probabilities at a temperature: sharded weights are gathered in this call."""
        with torch.no_grad(), evaluating(self.model):
            if temperature is None:
                return self.model.token_logits(completions)
            return self.model.logprobs(completions, temperature)

    def logprobs(self, completions: Completions, temperature: float) -> Tensor:
        """[N, T] under the model."""
        found: Tensor = self(completions, temperature)
        return found

    def token_logits(self, completions: Completions) -> TokenLogits:
        """Whole distributions under the model, whose output matrix then stays gathered where weights are sharded."""
        found: TokenLogits = self(completions)
        stay_whole(self)
        return found


class _Present(Teacher):
    """Scores with a model that the run has anyway."""

    _scorer: tuple[Policy | Reference]  # in a tuple, so that its weights are not this module's too

    def logprobs(self, completions: Completions, temperature: float) -> Tensor:
        """[N, T] under the model."""
        with torch.no_grad():
            return self._scorer[0].logprobs(completions, temperature)

    def token_logits(self, completions: Completions) -> TokenLogits:
        """Whole distributions under the model."""
        return self._scorer[0].token_logits(completions)


class ReferenceTeacher(_Present):
    """The policy's reference: where it started, or what ``update.refresh_reference_every`` and ``_share`` make of it.

    With adapters that is the base without them. A share of 0.05 after each rollout is SDPO's moving average.
    """

    reads_reference = True

    def begin(self, policy: Policy, reference: Reference | None) -> None:
        """Take the reference."""
        assert reference is not None
        self._scorer = (reference,)


class PolicyTeacher(_Present):
    """The policy with its present weights, as a constant; it teaches what it knows only from reading more."""

    is_policy = True

    def begin(self, policy: Policy, reference: Reference | None) -> None:
        """Take the policy."""
        self._scorer = (policy,)


def _require_same_vocabulary(policy: Policy, teacher: Policy) -> None:
    """Check whether an id is the same token to policy and teacher.

    Raises:
        ValueError: it is not.
    """
    tokenizers: list[Any] = [getattr(model, "tokenizer", None) for model in (policy, teacher)]
    if None in tokenizers:
        return
    ours, theirs = (tokenizer.get_vocab() for tokenizer in tokenizers)
    differing = sorted(token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token))
    if differing:
        named = ", ".join(map(repr, differing[:_MOST_NAMED]))
        raise UsageError(
            f"teacher.model: expected the policy's tokenizer, got one with {len(differing)} other tokens, for example "
            f"{named}; a teacher scores the policy's own ids, so take one of the same family"
        )
