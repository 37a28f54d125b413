"""Advantages of whole turns: a turn is one action, however many tokens it has.

Letters: N rows, T completion tokens, K turns of the row with the most. A turn is a run of tokens in the mask.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lit_rl.functional.masking import turn_starts
from lit_rl.functional.returns import gae
from lit_rl.functional.shapes import require_mask, require_same_shape


def turn_gae(
    token_rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
    bootstrap_values: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation over turns: one advantage for all tokens of a turn.

        delta_k  = R_k + gamma * V_{k+1} - V_k         R_k: all rewards of turn k; V_k: value before its first token
        A_k      = delta_k + gamma * gae_lambda * A_{k+1}
        return_k = A_k + V_k

    After a row's last turn V is its bootstrap value. With gamma and lambda 1 A_k is the sum of R from k on, less V_k.

    Args:
        token_rewards: [N, T] reward units. No gradient.
        values: [N, T] the critic's value before each token, reward units; read where a turn begins. No gradient.
        mask: [N, T] bool, tokens that the policy chose.
        gamma: discount per turn, in [0, 1].
        gae_lambda: in [0, 1]; 1 trusts the rewards alone, 0 the next turn's value.
        bootstrap_values: [N] value after the last token; None: 0 for all.

    Returns:
        advantages [N, T], the same at every token of a turn, 0 outside the mask; returns [N, T], 0 except where a
        turn begins. Reward units.

    Raises:
        ValueError: shapes differ, ``mask`` is not bool, a discount out of range, or an input requires grad.

    Source:
        Gehring et al. 2024 (RLEF), section 2.2, https://arxiv.org/abs/2410.02089: gamma and lambda 1

    Example:
        >>> rewards, values = torch.tensor([[0.0, -0.5, 0.0, 1.0]]), torch.tensor([[0.25, 7.0, 7.0, 0.75]])
        >>> turn_gae(rewards, values, torch.tensor([[True, True, False, True]]), gamma=1.0, gae_lambda=1.0)
        (tensor([[0.2500, 0.2500, 0.0000, 0.2500]]), tensor([[0.5000, 0.0000, 0.0000, 1.0000]]))
    """
    require_same_shape(token_rewards=token_rewards, values=values)
    require_mask(mask, token_rewards)
    starts = turn_starts(mask)
    turn = (starts.cumsum(-1) - 1).clamp(min=0)  # [N, T], the turn of each token; read only under the mask
    counts = starts.sum(-1)
    turns = torch.arange(int(counts.max()) if mask.numel() else 0, device=mask.device) < counts[:, None]

    def of_turns(per_token: Tensor, where: Tensor) -> Tensor:
        """[N, K] sums over the marked tokens of each turn."""
        kept = torch.where(where, per_token, torch.zeros_like(per_token))
        return kept.new_zeros(turns.shape).scatter_add(1, turn, kept) if turns.shape[1] else kept[:, :0]

    advantages, returns = gae(
        of_turns(token_rewards, mask),
        of_turns(values, starts),
        turns,
        gamma=gamma,
        gae_lambda=gae_lambda,
        bootstrap_values=bootstrap_values,
    )

    def on_tokens(per_turn: Tensor, where: Tensor) -> Tensor:
        """[N, T] each turn's number on its marked tokens."""
        spread = per_turn.gather(1, turn) if per_turn.shape[1] else torch.zeros_like(values)
        return torch.where(where, spread, torch.zeros_like(spread))

    return on_tokens(advantages, mask), on_tokens(returns, starts)
