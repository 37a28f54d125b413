"""The base classes of advantages per completion, and of baselines.

Letters: N rows of one rank.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from lit_rl.functional.groups import group_sizes


class RowAdvantages(ABC):
    """One advantage per completion from one score per completion; one of your own implements :meth:`advantages`.

    Constructor arguments are what YAML gives under ``init_args``.
    """

    smallest_group: ClassVar[int] = 1
    """Completions of one problem that it takes to compare. Rows of smaller groups get advantage 0."""

    @abstractmethod
    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """Advantages of a rollout. Called once per rollout, by all ranks together.

        Args:
            scores: [N] reward units, minus the KL if that is subtracted from the reward.
            valid: [N] bool; False for rows without a score of their own, whose advantage must be 0.
            group_ids: [N] int64; rows with the same number answer the same prompt. They need not be adjacent, nor need
                groups have the same size; :func:`lit_rl.functional.groups.lay_out` makes a table of them.

        Returns:
            [N].
        """

    def __call__(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """:meth:`advantages`, checked, with 0 for rows of groups that are too small.

        Raises:
            ValueError: the result is not one number per row.
        """
        result = self.advantages(scores, valid, group_ids)
        if result.shape != scores.shape:
            raise ValueError(
                f"{type(self).__name__} must return one number per row, {tuple(scores.shape)}, "
                f"got {tuple(result.shape)}"
            )
        too_small = group_sizes(group_ids) < self.smallest_group
        return result.masked_fill(too_small, 0.0) if self.smallest_group > 1 else result

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps: plain data."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027  # most have no state
        """Restore what a checkpoint kept."""


class Baseline(RowAdvantages):
    """The expected score of each completion; one of your own implements :meth:`expected`.

    ``GRPO`` subtracts it from a completion's score, ``REINFORCE`` from each token's reward-to-go.
    """

    @property
    def is_scaled(self) -> bool:
        """Whether advantages are divided by something after the baseline was subtracted."""
        return False

    @abstractmethod
    def expected(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """[N] what the scores are compared with, reward units; arguments as of :meth:`advantages`."""

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        """[N] scores minus what was expected, 0 for rows that are not valid."""
        advantages = scores - self.expected(scores, valid, group_ids).to(scores.dtype)
        return torch.where(valid, advantages, torch.zeros_like(advantages))
