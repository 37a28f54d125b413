"""Advantages of tokens from rewards and a critic's values.

Letters: N rows, T completion tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from lit_rl.bounds import require_share
from lit_rl.functional.masking import turn_starts
from lit_rl.functional.returns import gae
from lit_rl.functional.turns import turn_gae


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
            token_rewards: [N, T] reward units, minus the KL if that is subtracted from the reward.
            values: [N, T] the critic's value before each token, reward units.
            mask: [N, T] bool, tokens of the policy; it has gaps between the policy's turns.
            bootstrap_values: [N] value after the last token, 0 where nothing follows.

        Returns:
            Advantages [N, T] and the critic's targets [N, T], reward units, 0 outside the mask.
        """

    def targets(self, mask: Tensor) -> Tensor:
        """[N, T] bool: tokens before which the critic has a target; by default all that the policy chose."""
        return mask


class GAE(TokenAdvantages):
    """Generalised advantage estimation.

    Args:
        gamma: discount per token.
        gae_lambda: 1 trusts the rewards alone, 0 the next value.

    Source:
        Schulman et al. 2016, eq. 16, https://arxiv.org/abs/1506.02438
    """

    _formula = staticmethod(gae)

    def __init__(self, gamma: float = 1.0, gae_lambda: float = 0.95) -> None:
        require_share(gamma=gamma, gae_lambda=gae_lambda)
        self.gamma, self.gae_lambda = gamma, gae_lambda

    def estimate(
        self, token_rewards: Tensor, values: Tensor, mask: Tensor, bootstrap_values: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Advantages and returns [N, T]."""
        return self._formula(
            token_rewards,
            values,
            mask,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            bootstrap_values=bootstrap_values,
        )


class TurnGAE(GAE):
    """Generalised advantage estimation over whole turns: the critic values prompts, not tokens.

    All tokens of a turn have its advantage, and the critic learns only where a turn begins. The KL of a turn, if it
    is subtracted from the reward, is the sum over its tokens (the paper takes their mean).

    Args:
        gamma: discount per turn.
        gae_lambda: 1, as in the paper, trusts the rewards alone, 0 the next turn's value.

    Source:
        Gehring et al. 2024 (RLEF), section 2.2, https://arxiv.org/abs/2410.02089
    """

    _formula = staticmethod(turn_gae)

    def __init__(self, gamma: float = 1.0, gae_lambda: float = 1.0) -> None:
        super().__init__(gamma, gae_lambda)

    def targets(self, mask: Tensor) -> Tensor:
        """[N, T] bool: where turns begin."""
        return turn_starts(mask)
