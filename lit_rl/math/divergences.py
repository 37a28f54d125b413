"""Distance of the policy's next-token distribution from a teacher's, one number per token.

Mask, weights and mean are added outside, by :class:`lit_rl.modules.Distillation`. P is the teacher's distribution, Q
the policy's.

Letters: n tokens, V vocabulary. Divergences are nats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lit_rl.math.masking import dtype_at_least_float32
from lit_rl.signature_check import ArgumentChecks, PositiveFloat, Share

__all__ = ["JSD", "Divergence", "SampledReverseKL"]

_MASKED_LOGPROB = -1e4
"""Log-probability of an excluded token, so that it adds 0 to a sum and not 0 * inf."""


class Divergence(ArgumentChecks):
    """Base class of divergences over the whole vocabulary and of those of the sampled token."""


@dataclass(frozen=True)
class JSD(Divergence):
    """Generalised Jensen-Shannon divergence over the whole vocabulary, with the two KLs at its ends.

        beta = 0:  KL(P || Q) = sum_v P(v) (log P(v) - log Q(v))      forward: cover all that the teacher might say
        beta = 1:  KL(Q || P)                                         reverse: leave what the teacher would not say
        else:      beta KL(P || M) + (1 - beta) KL(Q || M),   M = beta P + (1 - beta) Q

    Between these ends the divergence is bounded. Its gradient approaches that of beta times the forward KL as beta goes
    to 0, and that of 1 - beta times the reverse KL as beta goes to 1. A subclass overrides :meth:`between`.

    Args:
        beta: weight of the teacher in the mean M, from 0 to 1.
        temperature: temperature of both distributions; ``None`` for the sampler's.
        clip: largest divergence of a token, nats; larger ones count as ``clip``, without gradient; ``None``: no clip.

    Source:
        Agarwal et al. 2023 (GKD), eq. 1, https://arxiv.org/abs/2306.13649; reverse: Gu et al. 2023 (MiniLLM),
        https://arxiv.org/abs/2306.08543; forward: Hinton et al. 2015, https://arxiv.org/abs/1503.02531

    Example:
        >>> policy, teacher = torch.tensor([[0.0, 0.0]]), torch.tensor([[0.75, 0.25]]).log()
        >>> JSD(beta=1.0)(policy, teacher), JSD(beta=0.0)(policy, teacher)  # 1/2 log(1/2 / 3/16), 3/4 log 3/2 - ...
        (tensor([0.1438]), tensor([0.1308]))
    """

    beta: Share = 0.5
    temperature: PositiveFloat | None = None
    clip: PositiveFloat | None = None

    def __call__(self, policy: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
        """Return the divergence of each token.

        Args:
            policy: [n, V] logits. Carries the gradient.
            teacher: [n, V'] logits. No gradient. Entries by which one vocabulary is longer than the other are left out.
            temperature: the sampler's.

        Returns:
            [n] nats, float32 or float64.
        """
        width = min(policy.shape[-1], teacher.shape[-1])
        scale = self.temperature or temperature
        wide = (logits[:, :width].to(dtype_at_least_float32(logits)) for logits in (policy, teacher.detach()))
        ours, theirs = ((logits / scale).log_softmax(-1) for logits in wide)
        found = self.between(ours, theirs.to(ours.dtype))
        return found if self.clip is None else found.clamp(max=self.clip)

    def between(self, policy: Tensor, teacher: Tensor) -> Tensor:
        """Return the divergence [n], nats, of normalized log-distributions [n, V]; ``policy`` carries the gradient."""
        if self.beta == 0:
            return _kl(teacher, policy)
        if self.beta == 1:
            return _kl(policy, teacher)
        theirs = teacher.clamp(min=_MASKED_LOGPROB) + math.log(self.beta)
        mean = torch.logaddexp(theirs, policy.clamp(min=_MASKED_LOGPROB) + math.log(1 - self.beta))
        return self.beta * _kl(teacher, mean) + (1 - self.beta) * _kl(policy, mean)


@dataclass(frozen=True)
class SampledReverseKL(Divergence):
    """The reverse KL from the sampled token alone, as an advantage that is added to the reward's advantage.

        A = log P(token) - log Q(token)

    On-policy, the expected policy gradient of this advantage is the gradient of minus the reverse KL. The teacher gives
    one number per token, and the objective's loss, with ratio and clip, learns from the advantage.

    Args:
        clip: largest size of an advantage, nats; ``None`` for no clip.

    Source:
        Lu and Thinking Machines Lab 2025, https://thinkingmachines.ai/blog/on-policy-distillation

    Example:
        >>> SampledReverseKL(clip=1.0).advantages(torch.tensor([[-2.0, -1.0]]), torch.tensor([[-0.5, -1.5]]))
        tensor([[ 1.0000, -0.5000]])
    """

    clip: PositiveFloat | None = None

    def advantages(self, logprobs: Tensor, teacher_logprobs: Tensor) -> Tensor:
        """Return advantages [N, T], nats, from the log-probabilities [N, T] of the sampled tokens; no gradient."""
        gap = (teacher_logprobs - logprobs).detach()
        return gap if self.clip is None else gap.clamp(-self.clip, self.clip)


def _kl(first: Tensor, second: Tensor) -> Tensor:
    """Return KL(first || second) [n], nats, of two log-distributions [n, V]."""
    return (first.exp() * (first.clamp(min=_MASKED_LOGPROB) - second.clamp(min=_MASKED_LOGPROB))).sum(-1)
