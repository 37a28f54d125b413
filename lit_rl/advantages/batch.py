"""Baselines that do not look at groups: none, the rollout, the rollouts before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lit_rl.advantages.base import Baseline
from lit_rl.bounds import require_share
from lit_rl.functional.advantages import Scale, batch_advantages, exponential_baseline
from lit_rl.training.ranks import sum_over_ranks


class NoBaseline(Baseline):
    """Nothing is expected: the bare score."""

    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """[N] zeros."""
        return torch.zeros_like(scores)


class BatchMean(Baseline):
    """Mean of all completions of all ranks.

    Args:
        scale_by: divide by the standard deviation of them all (``std``) or not (``none``).
    """

    def __init__(self, scale_by: Scale = "std") -> None:
        self.scale_by: Scale = scale_by

    @property
    def is_scaled(self) -> bool:
        """Whether the standard deviation divides."""
        return self.scale_by == "std"

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """[N] scores over the mean of all."""
        return batch_advantages(scores, valid, scale_by=self.scale_by, sum_over_ranks=sum_over_ranks)

    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """[N] the mean of all, the same everywhere."""
        return torch.full_like(scores, mean_over_ranks(scores, valid), dtype=torch.float64)


class RunningMean(Baseline):
    """Exponential mean of the scores of earlier rollouts; the first rollout has none.

    Args:
        decay: weight of the old mean, in [0, 1).

    Source:
        reinforcement comparison in Williams 1992, https://doi.org/10.1007/BF00992696
    """

    def __init__(self, decay: float = 0.9) -> None:
        require_share(decay=decay)
        self.decay = decay
        self.mean: float | None = None

    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """[N] the mean before this rollout, which is then counted."""
        before = self.mean
        self.mean = exponential_baseline(before, mean_over_ranks(scores, valid), decay=self.decay)
        return torch.full_like(scores, 0.0 if before is None else before, dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        """The mean so far."""
        return {"mean": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.mean = state.get("mean")


def mean_over_ranks(scores: Tensor, valid: Tensor) -> float:
    """Mean of the valid scores of all ranks, 0 if there are none.

    Args:
        scores: [N] reward units.
        valid: [N] bool.
    """
    total = sum_over_ranks(torch.stack([scores[valid].sum(), valid.sum().to(scores.dtype)]))
    return float(total[0] / total[1].clamp(min=1))
