"""The KL to the reference where it is subtracted from the reward, with a coefficient that may move."""

from __future__ import annotations

import torch
from torch import Tensor

from lit_rl.functional.kl import adaptive_kl_coef
from lit_rl.modules.logprobs import Logprobs
from lit_rl.modules.objective import Objective
from lit_rl.training.ranks import sum_over_ranks

HORIZON_COMPLETIONS = 10_000
"""Completions over which the coefficient moves by its own size at most."""


class KLPenalty:
    """Subtracts the KL from the credit of each token; with a target the coefficient follows it.

    Args:
        objective: with its coefficient, and whether the KL belongs into the reward.

    Attributes:
        coef: reward units per nat, as it is now.

    Source:
        adaptive coefficient: Ziegler et al. 2019, section 2.2, https://arxiv.org/abs/1909.08593
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.coef = objective.kl_coef

    def penalise(self, credit: Tensor, logprobs: Logprobs, mask: Tensor) -> Tensor:
        """Token rewards [N, T], 0 outside the mask; all ranks call together.

        Args:
            credit: [N, T] reward units.
            logprobs: of the N rows, under old policy and reference.
            mask: [N, T] bool, tokens that have a reward.
        """
        token_rewards = self.objective.penalised(credit, *logprobs, mask, self.coef)
        if self.objective.target_kl is not None:
            self._adapt(logprobs, mask, self.objective.target_kl)
        return token_rewards

    def _adapt(self, logprobs: Logprobs, mask: Tensor, target: float) -> None:
        """Move the coefficient towards the target, the same on all ranks."""
        assert logprobs.old is not None and logprobs.ref is not None
        kl = ((logprobs.old - logprobs.ref) * mask).sum()
        total = sum_over_ranks(torch.stack([kl, mask.any(-1).sum().to(kl.dtype)]))
        self.coef = adaptive_kl_coef(
            self.coef,
            float(total[0] / total[1].clamp(min=1)),
            target_kl=target,
            num_completions=int(total[1]),
            horizon_completions=HORIZON_COMPLETIONS,
        )
