import pytest
import torch
from support.sampling import sample

from lit_rl.data.toys.toy_models import CorridorPolicy, SortingPolicy, distances_to_goal
from lit_rl.data.toys.toy_rewards import CorridorReward, SortingReward, last_turn_ids
from lit_rl.data.toys.toy_tasks import (
    corridor_problem,
    count_sorted_positions,
    sort_inclusion_ordering,
    sorting_problem,
)
from lit_rl.execution import Outcome, Verdict
from lit_rl.models.sampling import RandomKey
from lit_rl.rewards.composite import Composite
from lit_rl.types import Judgement


def sampled(policy, problem, **sampling):
    policy.load()
    return sample(policy, [problem], RandomKey(0, "test", 0), **sampling)


def judged(completions):
    return [Judgement(problem, None, Outcome(Verdict.NO_PROGRAM)) for problem in completions.problems]


@pytest.mark.parametrize("kind", ["sort_distance", "sort_inclusion_ordering"])
def test_sorting_is_scored_by_the_chosen_rule(kind):
    completions = sampled(SortingPolicy(), sorting_problem([1, 0, 2]), num_samples=20, max_tokens=3)
    rule = {"sort_distance": count_sorted_positions, "sort_inclusion_ordering": sort_inclusion_ordering}[kind]
    scores = SortingReward(kind=kind).score(completions, judged(completions))
    assert [score.value for score in scores] == [rule([1, 0, 2], ids) for ids in last_turn_ids(completions)]
    assert len({score.value for score in scores}) > 1


def walk_of(num_cells, start, actions):
    return distances_to_goal(torch.tensor([[num_cells, start]]), torch.tensor([[*actions, 0]]))[0].tolist()


def test_the_goal_pays_one_to_the_action_that_reached_it():
    problem = corridor_problem(3, 2)
    completions = sampled(CorridorPolicy(num_cells=3), problem, num_samples=40, max_tokens=4)
    output = Composite([CorridorReward()])(completions, judged(completions))
    for ids, reward, credit in zip(last_turn_ids(completions), output.rewards.tolist(), output.credit, strict=True):
        reached = walk_of(3, 2, ids)[-1] == 0
        expected = torch.zeros_like(credit)
        if reached:
            expected[len(ids) - 1] = 1.0
        assert reward == float(reached)
        assert torch.equal(credit, expected)
    assert 0 < output.rewards.sum() < 40
    assert walk_of(3, 1, [0, 0, 0, 1, 1, 1, 1, 0]) == [1, 2, 3, 3, 2, 1, 0, 0, 0], "a wall, and no way back"


def test_rewards_of_the_lectures_three_answers():
    """[3, 1, 0, 2] sorted is [0, 1, 2, 3]: all right; one place right (2); one place right (0)."""
    prompt = [3, 1, 0, 2]
    assert [count_sorted_positions(prompt, answer) for answer in ([0, 1, 2, 3], [7, 2, 2, 5], [0, 3, 1, 2])] == [
        4,
        1,
        1,
    ]
    # 4 included + 3 ordered; only 2 is included, 2<=2 and 2<=5 are ordered; all included, 0<=3 and 1<=2 ordered.
    scores = [sort_inclusion_ordering(prompt, answer) for answer in ([0, 1, 2, 3], [7, 2, 2, 5], [0, 3, 1, 2])]
    assert scores == [7, 3, 6]
