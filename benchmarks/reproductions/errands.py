"""The share of a robot's errands that are done, as a reward without places."""

from __future__ import annotations

from collections.abc import Sequence

from lit_rl.data.robots.robot_checks import RobotWorlds
from lit_rl.data.robots.trace_checks import holds_or_false
from lit_rl.rewards.places import rows, unjudged
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement


class ErrandsReward(RewardTerm):
    """Share of the errands whose condition holds in every world that the program was run in, 0 to 1."""

    default_name = "errands"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """Scores of all N completions; none where the sandbox failed."""
        return [unjudged(judgement) or TermScore(_share(judgement)) for _, judgement in rows(completions, judgements)]


def _share(judgement: Judgement) -> float:
    check, number = judgement.problem.check, len(judgement.problem.fields["errands"])
    assert isinstance(check, RobotWorlds)
    # A world's condition is ["and", ...] with a formula for each errand, in their order.
    pairs = list(zip(check.tests, judgement.outcome.traces, strict=False))
    done = [all(holds_or_false(test.check[1 + i], trace) for test, trace in pairs) for i in range(number)]
    return sum(done) / number if pairs else 0.0
