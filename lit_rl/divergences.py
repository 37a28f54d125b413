"""Divergences: distance of the policy's next-token distribution from a teacher's, one number per token.

A divergence is a class with one method, from two log-distributions (or the log-probabilities of the sampled token) to
a number. Which tokens count, with which weight,
and the mean are outside, in :class:`lit_rl.modules.Distillation`. P is the teacher's distribution, Q the policy's.

Letters: n tokens, V vocabulary. Divergences are nats.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from lit_rl.arguments import ArgumentError, TypedArguments, require_above, require_at_least

__all__ = ["JSD", "Divergence", "ForwardKL", "FullDivergence", "ReverseKL", "SampledReverseKL", "with_tail"]

_LOWEST = -1e4
"""Log-probability of an excluded token, so that it adds 0 to a sum and not 0 * inf."""


class Divergence(TypedArguments):
    """Base of all: a divergence of whole distributions, or of the sampled tokens."""


@dataclass(frozen=True)
class FullDivergence(Divergence, ABC):
    """A divergence of whole distributions; one of your own implements :meth:`between`.

    Args:
        top_k: compare the teacher's k likeliest tokens and, as one more, all others together; ``None`` compares every
            token. Never more than the whole divergence: within the tail nothing is taught.
        temperature: of both distributions; ``None`` for the sampler's.
        clip: a token whose divergence is larger (nats) counts as this much and has no gradient; ``None`` for no clip.
    """

    top_k: int | None = None
    temperature: float | None = None
    clip: float | None = None

    def __post_init__(self) -> None:
        require_at_least(1, self, top_k=self.top_k)
        require_above(0, self, temperature=self.temperature, clip=self.clip)

    def __call__(self, policy: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
        """Divergence of each token.

        Args:
            policy: [n, V] logits. Carries the gradient.
            teacher: [n, V'] logits. No gradient. Where one vocabulary is padded to more entries, those are left out.
            temperature: the sampler's.

        Returns:
            [n] nats, float32 or float64.
        """
        width = min(policy.shape[-1], teacher.shape[-1])
        scale = self.temperature or temperature
        ours, theirs = (_log_softmax(logits[:, :width], scale) for logits in (policy, teacher.detach()))
        theirs = theirs.to(ours.dtype)
        if self.top_k is not None and self.top_k < width:
            ids = theirs.topk(self.top_k, -1).indices
            ours, theirs = with_tail(ours, ids), with_tail(theirs, ids)
        found = self.between(ours, theirs)
        return found if self.clip is None else found.clamp(max=self.clip)

    @abstractmethod
    def between(self, policy: Tensor, teacher: Tensor) -> Tensor:
        """[n] nats from two log-distributions [n, V], each of which sums to 1; the policy's carries the gradient."""


@dataclass(frozen=True)
class ReverseKL(FullDivergence):
    """KL of the policy from the teacher: the policy leaves what the teacher would not say.

        KL(Q || P) = sum_v Q(v) (log Q(v) - log P(v))

    Source:
        Gu et al. 2023 (MiniLLM), https://arxiv.org/abs/2306.08543; on the policy's own tokens: Agarwal et al. 2023,
        section 3, https://arxiv.org/abs/2306.13649

    Example:
        >>> ReverseKL()(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.75, 0.25]]).log())  # 1/2 log(1/2 / 3/16)
        tensor([0.1438])
    """

    def between(self, policy: Tensor, teacher: Tensor) -> Tensor:
        """[n] nats."""
        return _kl(policy, teacher)


@dataclass(frozen=True)
class ForwardKL(FullDivergence):
    """KL of the teacher from the policy: the policy covers all that the teacher might say.

        KL(P || Q) = sum_v P(v) (log P(v) - log Q(v))

    Source:
        Hinton et al. 2015, https://arxiv.org/abs/1503.02531; on the policy's own tokens: Agarwal et al. 2023

    Example:
        >>> ForwardKL()(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.75, 0.25]]).log())  # 3/4 log 3/2 + 1/4 log 1/2
        tensor([0.1308])
    """

    def between(self, policy: Tensor, teacher: Tensor) -> Tensor:
        """[n] nats."""
        return _kl(teacher, policy)


@dataclass(frozen=True)
class JSD(FullDivergence):
    """Generalised Jensen-Shannon divergence: between the two KLs, and bounded.

        JSD = beta KL(P || M) + (1 - beta) KL(Q || M),   M = beta P + (1 - beta) Q

    Its gradient becomes that of beta times the forward KL as beta goes to 0, of 1 - beta times the reverse as beta
    goes to 1.

    Args:
        beta: weight of the teacher in the mean M, above 0 and below 1.

    Source:
        Agarwal et al. 2023 (GKD), eq. 1, https://arxiv.org/abs/2306.13649

    Example:
        >>> JSD()(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.75, 0.25]]).log())
        tensor([0.0338])
    """

    beta: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.beta < 1:
            raise ArgumentError("JSD.beta", "above 0 and below 1", str(self.beta), "use ForwardKL or ReverseKL there")

    def between(self, policy: Tensor, teacher: Tensor) -> Tensor:
        """[n] nats."""
        theirs = teacher.clamp(min=_LOWEST) + math.log(self.beta)
        mean = torch.logaddexp(theirs, policy.clamp(min=_LOWEST) + math.log(1 - self.beta))
        return self.beta * _kl(teacher, mean) + (1 - self.beta) * _kl(policy, mean)


@dataclass(frozen=True)
class SampledReverseKL(Divergence):
    """The reverse KL from the sampled token alone, as an advantage that is added to the reward's.

        A = log P(token) - log Q(token)

    On-policy the expected policy gradient of this advantage is that of minus the reverse KL. It needs one number per
    token from the teacher, and the objective's loss, with its ratio and clip, learns from it.

    Args:
        clip: largest size of an advantage, nats; ``None`` for no clip.

    Source:
        Lu and Thinking Machines Lab 2025, https://thinkingmachines.ai/blog/on-policy-distillation

    Example:
        >>> SampledReverseKL(clip=1.0).advantages(torch.tensor([[-2.0, -1.0]]), torch.tensor([[-0.5, -1.5]]))
        tensor([[ 1.0000, -0.5000]])
    """

    clip: float | None = None

    def __post_init__(self) -> None:
        require_above(0, self, clip=self.clip)

    def advantages(self, logprobs: Tensor, teacher_logprobs: Tensor) -> Tensor:
        """[N, T] nats from the log-probabilities [N, T] of the sampled tokens; no gradient."""
        gap = (teacher_logprobs - logprobs).detach()
        return gap if self.clip is None else gap.clamp(-self.clip, self.clip)


def with_tail(logprobs: Tensor, ids: Tensor) -> Tensor:
    """Chosen tokens and, in one more entry, the log-probability of all others together.

    Args:
        logprobs: [n, V] a log-distribution. May carry the gradient.
        ids: [n, k] int64, distinct in a row, k < V.

    Returns:
        [n, k + 1] a log-distribution.

    Example:
        >>> with_tail(torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([[1]])).exp()
        tensor([[0.3000, 0.7000]])
    """
    # Not log(1 - sum of the chosen), whose gradient explodes where the tail is small.
    others = logprobs.scatter(-1, ids, -torch.inf).clamp(min=_LOWEST)
    return torch.cat([logprobs.gather(-1, ids), others.logsumexp(-1, keepdim=True)], -1)


def _log_softmax(logits: Tensor, temperature: float) -> Tensor:
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return (wide / temperature).log_softmax(-1)


def _kl(first: Tensor, second: Tensor) -> Tensor:
    """[n] nats from the first log-distribution to the second."""
    return (first.exp() * (first.clamp(min=_LOWEST) - second.clamp(min=_LOWEST))).sum(-1)
