"""Advantages over the other completions of the same problem."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from lit_rl.advantages.base import Baseline, RowAdvantages
from lit_rl.bounds import require_at_least
from lit_rl.functional import advantages as functional
from lit_rl.functional.groups import lay_out, pick_up


class GroupMean(Baseline):
    """Mean of the completions of the same problem (GRPO).

    Args:
        scale_by: divide by the standard deviation of the group (``std``) or not (``none``, Dr. GRPO).
        eps: added to the standard deviation, reward units.

    Source:
        Shao et al. 2024, section 4.1.2, https://arxiv.org/abs/2402.03300
        unscaled: Liu et al. 2025, section 3.2, https://arxiv.org/abs/2503.20783
    """

    smallest_group: ClassVar[int] = 2
    _compared_with: ClassVar[functional.Baseline] = "mean"

    def __init__(self, scale_by: functional.Scale = "std", eps: float = 1e-6) -> None:
        require_at_least(0, eps=eps)
        self.scale_by: functional.Scale = scale_by
        self.eps = eps

    @property
    def is_scaled(self) -> bool:
        """Whether the standard deviation divides."""
        return self.scale_by == "std"

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """[N] scores over their group's mean."""
        return self._over_group(scores, valid, group_ids, self.scale_by)

    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """[N] mean of the group, the score itself where there is no other."""
        centred = self._over_group(scores, valid, group_ids, "none")
        return torch.where(valid, scores - centred, torch.zeros_like(centred))

    def _over_group(self, scores: Tensor, valid: Tensor, group_ids: Tensor, scale_by: functional.Scale) -> Tensor:
        table = lay_out(scores, group_ids, columns=2)
        of_rows = lay_out(valid, group_ids, fill=False, columns=2)
        over = functional.group_advantages(
            table, of_rows, scale_by=scale_by, baseline=self._compared_with, eps=self.eps
        )
        return pick_up(over, group_ids)


class LeaveOneOut(GroupMean):
    """Mean of the other completions of the same problem (RLOO with ``scale_by: none``).

    Args:
        scale_by: divide by the standard deviation of the group (``std``) or not (``none``).
        eps: added to the standard deviation, reward units.

    Source:
        Ahmadian et al. 2024, https://arxiv.org/abs/2402.14740
    """

    _compared_with: ClassVar[Literal["leave_one_out"]] = "leave_one_out"


class MaxRewards(RowAdvantages):
    """The scores that are the largest of their group, 0 for all others: a filter, not a baseline.

    Source:
        Stanford CS336 2025, lecture 17, ``compute_deltas``
    """

    smallest_group: ClassVar[int] = 2

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """[N] scores of the best."""
        of_rows = lay_out(valid, group_ids, fill=False)
        return pick_up(functional.max_rewards(lay_out(scores, group_ids), of_rows), group_ids)
