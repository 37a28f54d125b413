"""Mistakes in losses and advantages."""

from __future__ import annotations

from mutations.mutant import Mutant

LOSSES: list[Mutant] = [
    Mutant(
        "CISPO has a lower bound unless it is given",
        "lit_rl/losses.py",
        "weights.clamp(0.0 if self.clip_low is None else 1 - self.clip_low",
        "weights.clamp(0.8 if self.clip_low is None else 1 - self.clip_low",
        "tests/losses",
    ),
    Mutant(
        "a completion alone with its problem counts where completions are compared",
        "lit_rl/advantages.py",
        "return result.masked_fill(too_small, 0.0) if self.smallest_group > 1 else result",
        "return result",
        "tests/advantages",
    ),
    Mutant(
        "rows of a table come back in the order of the groups",
        "lit_rl/functional/masking.py",
        "    back = order.argsort()",
        "    back = torch.arange(len(order), device=order.device)",
        "tests/functional/test_masking.py tests/advantages",
    ),
    Mutant(
        "the running mean holds the rollout's own scores",
        "lit_rl/advantages.py",
        "0.0 if before is None else before",
        "self.mean",
        "tests/advantages",
    ),
    Mutant(
        "the dual clip bounds tokens whose advantage is positive too",
        "lit_rl/losses.py",
        "objective = torch.where(tokens.advantages < 0, bounded, objective)",
        "objective = bounded",
        "tests/losses",
    ),
    Mutant(
        "the KL in the reward is that of the starting coefficient",
        "lit_rl/modules/objective.py",
        "coef=self.kl_coef if coef is None else coef",
        "coef=self.kl_coef",
        "tests/modules/test_objective.py",
    ),
]
