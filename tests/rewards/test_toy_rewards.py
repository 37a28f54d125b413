from __future__ import annotations

import pytest
import torch
from support.sampling import sample

from lit_rl.data.toys.toy_models import CorridorPolicy, SortingPolicy
from lit_rl.data.toys.toy_rewards import CorridorReward, SortingReward, answers
from lit_rl.data.toys.toy_tasks import (
    corridor_distances,
    corridor_problem,
    sort_distance,
    sort_inclusion_ordering,
    sorting_problem,
)
from lit_rl.execution import Outcome, ReferenceText, Verdict
from lit_rl.models.sampling import StreamKey
from lit_rl.rewards.composite import Composite
from lit_rl.types import Judgement, Problem


def sampled(policy, problem, **sampling):
    policy.load()
    return sample(policy, [problem], StreamKey(0, "test", 0), **sampling)


def judged(completions):
    return [Judgement(problem, None, Outcome(Verdict.NO_PROGRAM)) for problem in completions.problems]


@pytest.mark.parametrize("kind", ["sort_distance", "sort_inclusion_ordering"])
def test_sorting_is_scored_by_the_chosen_rule(kind):
    completions = sampled(SortingPolicy(), sorting_problem([1, 0, 2]), num_samples=20, max_tokens=3)
    rule = {"sort_distance": sort_distance, "sort_inclusion_ordering": sort_inclusion_ordering}[kind]
    scores = SortingReward(kind=kind).score(completions, judged(completions))
    assert [score.value for score in scores] == [rule([1, 0, 2], ids) for ids in answers(completions)]
    assert len({score.value for score in scores}) > 1


def test_the_goal_pays_one_to_the_action_that_reached_it():
    problem = corridor_problem(3, 2)
    completions = sampled(CorridorPolicy(num_cells=3), problem, num_samples=40, max_tokens=4)
    output = Composite([CorridorReward()])(completions, judged(completions))
    for ids, reward, credit in zip(answers(completions), output.rewards.tolist(), output.credit, strict=True):
        reached = corridor_distances(3, 2, ids)[-1] == 0
        expected = torch.zeros_like(credit)
        if reached:
            expected[len(ids) - 1] = 1.0
        assert reward == float(reached)
        assert torch.equal(credit, expected)
    assert 0 < output.rewards.sum() < 40


def test_problems_without_numbers_are_refused_before_a_rollout():
    text = Problem("t", "p", ReferenceText("r"))
    for term in (SortingReward(), CorridorReward()):
        with pytest.raises(ValueError, match="TokenTarget"):
            term.check_problem(text)
    with pytest.raises(ValueError, match="num_cells, start"):
        CorridorReward().check_problem(sorting_problem([3, 1, 2]))


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"SortingReward\.kind"):
        SortingReward(kind="bubble")
