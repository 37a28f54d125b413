"""Advantages of tokens from rewards and a critic's values.

Letters: N rows, T completion tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from lit_rl.bounds import require_share
from lit_rl.functional.returns import gae


class TokenAdvantages(ABC):
    """Advantages and the critic's targets; one of your own implements :meth:`estimate`.

    Constructor arguments are what YAML gives under ``init_args``.
    """

    @abstractmethod
    def estimate(
        self, token_rewards: Tensor, values: Tensor, mask: Tensor, bootstrap_values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """From rewards to advantages; the module whitens them afterwards.

        Args:
            token_rewards: [N, T] reward units, less the KL if it is taken off the reward.
            values: [N, T] the critic's value before each token, reward units.
            mask: [N, T] bool, tokens of the policy. Between its turns the mask has a gap.
            bootstrap_values: [N] value after the last token, 0 where nothing follows.

        Returns:
            Advantages [N, T] and the critic's targets [N, T], reward units, 0 outside the mask.
        """


class GAE(TokenAdvantages):
    """Generalised advantage estimation.

    Args:
        gamma: discount per token.
        gae_lambda: 1 trusts the rewards alone, 0 the next value.

    Source:
        Schulman et al. 2016, eq. 16, https://arxiv.org/abs/1506.02438
    """

    def __init__(self, gamma: float = 1.0, gae_lambda: float = 0.95) -> None:
        require_share(gamma=gamma, gae_lambda=gae_lambda)
        self.gamma, self.gae_lambda = gamma, gae_lambda

    def estimate(
        self, token_rewards: Tensor, values: Tensor, mask: Tensor, bootstrap_values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Advantages and returns [N, T]."""
        return gae(
            token_rewards,
            values,
            mask,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            bootstrap_values=bootstrap_values,
        )
