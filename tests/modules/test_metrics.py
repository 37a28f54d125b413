"""What is logged of a rollout, on hand-made rows."""

from __future__ import annotations

import pytest
import torch

from lit_rl.execution import Outcome, TokenTarget, Verdict
from lit_rl.modules.metrics import rollout_metrics
from lit_rl.modules.reduction import Means
from lit_rl.rewards.base import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.types import Completions, Judgement, Problem, StopReason

P, W, LOST = Verdict.PASSED, Verdict.WRONG_ANSWER, Verdict.INFRASTRUCTURE_FAILURE


def metrics_of(groups: list[list[Verdict]]) -> dict[str, float]:
    """Metrics of groups of one token each; the reward is 1 for a pass, else 0, and none where judging failed."""
    verdicts = [verdict for group in groups for verdict in group]
    n = len(verdicts)
    problem, ids, mask = Problem("p", "p", TokenTarget()), torch.zeros(n, 1).long(), torch.ones(n, 1).bool()
    stops = (StopReason.EOS,) * n
    completions = Completions(
        (problem,) * n, ids, mask, ids, mask, ids.float(), stops, ("",) * n, ((),) * n, len(groups[0])
    )
    judgements = tuple(Judgement(problem, None, Outcome(verdict)) for verdict in verdicts)
    rewards = torch.tensor([float(verdict is P) for verdict in verdicts])
    valid = torch.tensor([verdict is not LOST for verdict in verdicts])
    means = Means()
    rollout_metrics(means, Rollout(completions, judgements), RewardOutput(rewards, valid, rewards[:, None], {}, {}))
    return means.reduce(torch.device("cpu"))


def test_a_group_whose_judged_rows_are_equal_has_no_advantage() -> None:
    """Item 58: the 0 that stands for a row without a reward makes no group unequal."""
    logged = metrics_of([[P, P, LOST], [P, W, LOST], [W, W, W], [LOST, LOST, P]])
    assert logged["group/zero_advantage_fraction"] == 3 / 4


def test_the_pass_rate_is_that_of_the_programs_that_were_judged() -> None:
    """Item 58: 2 of 3; the fractions by verdict are of all rows."""
    logged = metrics_of([[P, LOST], [W, P]])
    assert logged["execution/pass_rate"] == pytest.approx(2 / 3)
    assert logged["execution/passed_fraction"] == 2 / 4
    assert logged["execution/infrastructure_failure_fraction"] == 1 / 4
