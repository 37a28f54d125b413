"""Rules about the size of the steps that the weights make."""

from __future__ import annotations

from itertools import pairwise

from lit_rl.arguments import require_above, require_at_least
from lit_rl.reports.diagnosis.base import Rule
from lit_rl.reports.diagnosis.so_far import RunSoFar


class StillWeights(Rule):
    """The weights stay where they are although there are gradients.

    Args:
        at_most: move over ``patience`` rollouts, as a share of the weights' norm, that counts as none.
    """

    name = "still_weights"

    def __init__(self, at_most: float = 1e-8) -> None:
        require_at_least(0, at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunSoFar) -> str:
        """Compare the weights now with those before the last rollouts."""
        weights = run.weights
        if len(weights) <= run.patience:
            return ""
        moved = float((weights[-1] - weights[0]).norm())
        norm, rate = run.share("policy/gradient_norm"), run.largest("optimizer/learning_rate")
        if norm == 0 or moved > self.at_most * float(weights[0].norm()):
            return ""
        return (
            f"the weights did not move in {run.patience} rollouts despite gradients (norm {norm:.2g}): the "
            f"learning rate {rate:.2g} is too small for the weights' dtype, or the schedule has ended"
        )


class JumpingWeights(Rule):
    """A rollout moves the weights by a large part of the size that they began with.

    Weights that began at 0, such as tables, are let pass.

    Args:
        at_most: move of a rollout that is let pass, as a share of the norm of the weights that the run began with.
    """

    name = "jumping_weights"

    def __init__(self, at_most: float = 0.2) -> None:
        require_above(0, at_most=at_most)
        self.at_most = at_most

    def look(self, run: RunSoFar) -> str:
        """Compare the largest move of the last rollouts with where the run began: a run that is broken stays."""
        weights, norm = run.weights, run.first_norm
        if len(weights) <= run.patience or norm == 0:
            return ""
        moves = [float((after - before).norm()) for before, after in pairwise(weights)]
        share = max(moves) / norm
        if share <= self.at_most:
            return ""
        rate = run.largest("optimizer/learning_rate")
        return (
            f"a rollout moved the weights by {share:.0%} of the size they began with: the learning rate ({rate:.2g}) "
            "is far too high; try a tenth or a hundredth of it, and start from the weights before this run"
        )
