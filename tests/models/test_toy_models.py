from __future__ import annotations

import pytest
import torch
from support import sampling as on_policy

from lit_rl.data.toys.toy_models import CorridorCritic, CorridorPolicy, SortingPolicy, ToyPolicy, distances
from lit_rl.data.toys.toy_tasks import Corridor, Sorting, corridor_distances, corridor_problem, sorting_problem
from lit_rl.execution import ReferenceText
from lit_rl.models.sampling import StreamKey
from lit_rl.types import Problem, StopReason

KEY = StreamKey(0, "test", 0)


def loaded(policy: ToyPolicy) -> ToyPolicy:
    policy.load()
    return policy


def sample(policy, problems, **sampling):
    return on_policy.sample(policy, problems, KEY, **{"max_tokens": 8, **sampling})


@pytest.fixture
def sorter():
    return loaded(SortingPolicy(init_seed=1))


@pytest.fixture
def walker():
    policy = loaded(CorridorPolicy(num_cells=4))
    with torch.no_grad():
        policy.weights.weight.copy_(torch.tensor([[0, 0], [0.3, -0.2], [1, 0], [0, 2], [-1, 1.0]]))
    return policy


@pytest.mark.parametrize("which", ["sorter", "walker"])
def test_scores_are_those_of_the_sampler(which, request):
    policy = request.getfixturevalue(which)
    problems = (Sorting() if which == "sorter" else Corridor(num_cells=4)).problems("train")
    for temperature in (1.0, 0.5):
        completions = sample(policy, problems, num_samples=6, temperature=temperature)
        logprobs = policy.logprobs(completions, temperature)
        torch.testing.assert_close(logprobs, completions.sampler_logprobs)
        assert logprobs.requires_grad


def test_entropy_is_that_of_the_distribution_the_action_was_drawn_from(walker):
    completions = sample(walker, [corridor_problem(4, 1)], num_samples=3)
    at_start = torch.tensor([0.3, -0.2]).softmax(-1)
    expected = -(at_start * at_start.log()).sum()
    torch.testing.assert_close(walker.entropy(completions)[:, 0], expected.expand(3))
    assert walker.entropy(completions)[~completions.completion_mask].abs().sum() == 0


def test_a_response_has_as_many_numbers_as_the_prompt_or_is_cut(sorter):
    problems = Sorting().problems("train")
    whole = sample(sorter, problems)
    assert set(whole.stop_reasons) == {StopReason.EOS} and whole.completion_ids.shape == (3, 3)
    cut = sample(sorter, problems, max_tokens=2)
    assert set(cut.stop_reasons) == {StopReason.LENGTH} and cut.completion_ids.shape == (3, 2)
    # Places of tokens point at the numbers, of one digit or of two.
    longer = sample(loaded(SortingPolicy(vocabulary_size=13, length=2)), [sorting_problem([12, 11])], num_samples=8)
    for done in (whole, cut, longer):
        for text, places, ids in zip(done.texts, done.token_bytes, done.completion_ids.tolist(), strict=True):
            assert [int(text[start:end]) for start, end in places] == ids
    nothing = sample(sorter, [])
    assert len(nothing) == 0 and nothing.texts == ()


def test_a_walk_ends_at_the_goal_or_at_the_limit(walker):
    completions = sample(walker, Corridor(num_cells=4).problems("train"), num_samples=20, max_tokens=5)
    for problem, ids, length, reason in zip(
        completions.problems,
        completions.completion_ids.tolist(),
        completions.lengths,
        completions.stop_reasons,
        strict=True,
    ):
        walk = corridor_distances(*problem.check.data, ids[:length])
        assert (reason is StopReason.EOS) == (walk[-1] == 0)
        assert length == 5 or walk[-1] == 0
        assert 0 not in walk[:-1]


def test_distances_in_tensors_are_those_of_the_world():
    actions = torch.randint(0, 2, (30, 12), generator=torch.Generator().manual_seed(0))
    prompts = torch.tensor([[4, 1 + i % 4] for i in range(30)])
    expected = [corridor_distances(*p, a)[:-1] for p, a in zip(prompts.tolist(), actions.tolist(), strict=True)]
    assert distances(prompts, actions).tolist() == expected


def test_the_critic_says_the_value_of_the_place_before_each_action():
    critic = CorridorCritic(num_cells=3)
    with torch.no_grad():
        critic.weights.weight[:, 0] = torch.tensor([9.0, 1.0, 0.9, 0.81])
    policy = loaded(CorridorPolicy(num_cells=3))
    completions = sample(policy, [corridor_problem(3, 3)], num_samples=10, max_tokens=4)
    values, tails = critic(completions)
    before = distances(completions.prompt_ids, completions.completion_ids)
    assert torch.equal(values[:, 0], torch.full((10,), 0.81))
    mask = completions.completion_mask
    torch.testing.assert_close(values[mask], 0.9 ** (before[mask] - 1).float())
    assert values[~mask].abs().sum() == 0
    assert critic.table() == pytest.approx({1: 1.0, 2: 0.9, 3: 0.81})
    ended = ~completions.truncated  # at the goal, where nothing more is to come
    assert tails[ended].abs().sum() == 0


def test_the_reference_stays_while_the_policy_learns(sorter):
    reference = sorter.make_reference()
    completions = sample(sorter, Sorting().problems("train"))
    before = sorter.logprobs(completions).detach()
    with torch.no_grad():
        sorter.weights["embedding"].mul_(2.0)
    torch.testing.assert_close(reference.logprobs(completions), before)
    assert not reference.logprobs(completions).requires_grad
    assert not torch.equal(sorter.logprobs(completions), before)
    assert sum(p.requires_grad for p in sorter.parameters()) == 3
    # Asked for again, as by a module that is configured again for validation, it is where the first one is.
    torch.testing.assert_close(sorter.make_reference().logprobs(completions), before)
    reference.refresh()
    torch.testing.assert_close(reference.logprobs(completions), sorter.logprobs(completions).detach())


def test_the_same_seed_builds_the_same_weights_and_problems_of_another_shape_do_not_fit(sorter, walker):
    second, other = (loaded(SortingPolicy(init_seed=seed)).weights["encode"] for seed in (1, 4))
    assert torch.equal(sorter.weights["encode"], second) and not torch.equal(second, other)
    assert sorter.codec.fits(sorting_problem([1, 0, 4]))
    assert not sorter.codec.fits(sorting_problem([1, 0, 5]))
    assert not sorter.codec.fits(sorting_problem([1, 0]))
    assert walker.codec.fits(corridor_problem(4, 4)) and not walker.codec.fits(corridor_problem(5, 1))
    assert not sorter.codec.fits(Problem("x", "y", ReferenceText("z")))
