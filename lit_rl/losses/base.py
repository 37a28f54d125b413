"""The base class of losses: one number per token, from tensors and nothing else.

Letters: n rows of a micro-batch, T completion tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lit_rl.functional.ratios import RatioLevel, log_ratio


@dataclass(frozen=True)
class Tokens:
    """What a loss reads.

    Args:
        logprobs: [n, T] nats of the sampled tokens under the policy. Carries the gradient.
        old_logprobs: [n, T] nats under the weights that sampled, by the training forward.
        sampler_logprobs: [n, T] nats that the sampler itself reported; see :attr:`Loss.reads_sampler_logprobs`.
        advantages: [n, T], 0 outside the mask.
        mask: [n, T] bool, tokens that count.
        level: what a ratio is about, see :func:`lit_rl.functional.ratios.log_ratio`.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    sampler_logprobs: Tensor
    advantages: Tensor
    mask: Tensor
    level: RatioLevel = "token"

    @property
    def log_ratio(self) -> Tensor:
        """[n, T] nats, policy over old policy, at the objective's level. Carries the gradient."""
        return log_ratio(self.logprobs, self.old_logprobs, level=self.level, mask=self.mask)


class Loss(ABC):
    """A policy's loss; one of your own implements :meth:`token_losses`.

    Constructor arguments are what YAML gives under ``init_args``. Mask, mean, KL and entropy are added outside: see
    :class:`lit_rl.modules.Objective`.
    """

    reads_sampler_logprobs: ClassVar[bool] = False
    """Whether the sampler's log-probabilities are compared with the policy's. Sampling with top-k or top-p is then
    refused, because its probabilities are spread over fewer tokens."""

    pulls_on_every_token: ClassVar[bool] = False
    """Whether tokens with advantage 0 move weights too. If not, rows without an advantage skip the forward pass."""

    @abstractmethod
    def token_losses(self, tokens: Tokens) -> Tensor:
        """[n, T] loss of each token, in units of the advantage; values outside the mask do not matter."""

    def metrics(self, tokens: Tokens) -> dict[str, Tensor]:
        """Scalars to log without gradient, means over the tokens that count, such as ``policy/clip_fraction``."""
        return {}
