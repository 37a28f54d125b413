"""The plain policy gradient."""

from __future__ import annotations

from torch import Tensor

from lit_rl.functional.policy_losses import policy_gradient_loss
from lit_rl.losses.base import Loss, Tokens


class PolicyGradient(Loss):
    """Log-probability times advantage, without a ratio (``naive`` by its old name).

    Source:
        REINFORCE: Williams 1992, https://doi.org/10.1007/BF00992696
    """

    def token_losses(self, tokens: Tokens) -> Tensor:
        """[n, T] log-probability times advantage, negative."""
        return policy_gradient_loss(tokens.logprobs, tokens.advantages)
