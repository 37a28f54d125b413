"""Which tokens a completion's reward is put on before anything is learned from it.

A token learns from its own reward and all later ones. Without a discount that is the gradient of the expected
reward, as long as each reward is put where it was decided, or later: rewards before a token do not teach it. A place
in the text (the line that failed) is decided by the token after it, since until then it might have continued; the
outcome of the whole program only by the last token, EOS, which says that nothing more follows. In a row of several
turns the text and the program are those of the last turn; earlier turns learn from what comes after them.

Letters: N completions, T completion tokens.
"""

from __future__ import annotations

from typing import Literal, assert_never

import torch
from torch import Tensor

from lit_rl.functional.masking import last_tokens
from lit_rl.rewards.term import RewardOutput

Credit = Literal["spans", "tokens", "terminal"]
"""Where rewards are put; see :func:`place_rewards`."""


def place_rewards(rewards: RewardOutput, mask: Tensor, credit: Credit) -> Tensor:
    """Each completion's reward on its tokens, before any KL.

        spans:     what has a place on the token that decided it, the rest on the last token
        tokens:    what has a place on the tokens of that place, the rest spread evenly over the program
        terminal:  all of it on the last token

    Each row sums to its reward. ``tokens`` is the credit that is reported. Learning from it is biased: a late token
    sees less of the outcome than an early one, and EOS none, so that where programs pass it pays to keep writing; and
    the end of a line that fails sees less of its loss than the beginning.

    Args:
        rewards: of N completions.
        mask: [N, T] bool, the tokens that the policy chose.
        credit: see above.

    Returns:
        [N, T] reward units, 0 outside the mask.
    """
    match credit:
        case "spans":
            decided = rewards.decided * mask
            return decided + terminal(rewards.rewards - decided.sum(-1), mask)
        case "tokens":
            return rewards.credit * mask
        case "terminal":
            return terminal(rewards.rewards, mask)
        case _:
            assert_never(credit)


def terminal(rewards: Tensor, mask: Tensor) -> Tensor:
    """[N, T] with each reward [N] on the last token of its row that the policy chose."""
    return torch.where(last_tokens(mask), rewards[:, None], 0.0)
