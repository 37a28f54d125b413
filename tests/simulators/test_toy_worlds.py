from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lit_rl.data.toys.toy_tasks import corridor_distances, sort_distance, sort_inclusion_ordering

NUMBERS = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def test_rewards_of_the_lectures_three_answers():
    """[3, 1, 0, 2] sorted is [0, 1, 2, 3]: all right; one place right (2); one place right (0)."""
    prompt = [3, 1, 0, 2]
    assert [sort_distance(prompt, answer) for answer in ([0, 1, 2, 3], [7, 2, 2, 5], [0, 3, 1, 2])] == [4, 1, 1]
    # 4 included + 3 ordered; only 2 is included, 2<=2 and 2<=5 are ordered; all included, 0<=3 and 1<=2 ordered.
    scores = [sort_inclusion_ordering(prompt, answer) for answer in ([0, 1, 2, 3], [7, 2, 2, 5], [0, 3, 1, 2])]
    assert scores == [7, 3, 6]


@given(NUMBERS, st.data())
def test_only_the_sorted_prompt_has_the_largest_distance_reward(prompt, data):
    answer = data.draw(st.permutations(prompt))
    assert (sort_distance(prompt, answer) == len(prompt)) == (list(answer) == sorted(prompt))


@given(NUMBERS, NUMBERS)
def test_rewards_stay_within_their_limits(prompt, answer):
    answer = (answer * len(prompt))[: len(prompt)]
    assert 0 <= sort_distance(prompt, answer) <= len(prompt)
    assert 0 <= sort_inclusion_ordering(prompt, answer) <= 2 * len(prompt) - 1
    assert sort_inclusion_ordering(prompt, sorted(prompt)) == 2 * len(prompt) - 1


def test_an_answer_that_is_too_short_has_the_missing_places_wrong():
    assert sort_distance([2, 1, 3], [1]) == 1
    assert sort_inclusion_ordering([2, 1, 3], []) == 0


@given(st.integers(1, 8), st.data())
def test_walking_straight_to_the_goal_takes_as_many_steps_as_the_distance(num_cells, data):
    start = data.draw(st.integers(1, num_cells))
    assert corridor_distances(num_cells, start, [1] * start) == list(range(start, -1, -1))


@given(st.integers(1, 8), st.data(), st.lists(st.integers(0, 1), max_size=20))
def test_no_walk_leaves_the_corridor_or_the_goal(num_cells, data, actions):
    walk = corridor_distances(num_cells, data.draw(st.integers(1, num_cells)), actions)
    assert len(walk) == len(actions) + 1
    assert all(0 <= distance <= num_cells for distance in walk)
    assert 0 not in walk or set(walk[walk.index(0) :]) == {0}


def test_one_cell_is_a_binary_choice():
    assert corridor_distances(1, 1, [1]) == [1, 0]
    assert corridor_distances(1, 1, [0]) == [1, 1]
