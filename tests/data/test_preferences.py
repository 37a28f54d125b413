import json
from math import nan

import pytest
from hypothesis import strategies as st
from support.few_examples import given
from support.json_rows import write_rows

from lit_rl.data.preferences import (
    PreferencePair,
    PreferencePairs,
    make_preference_pairs,
    pair_from_problem,
    write_preference_pairs,
)
from lit_rl.data.rows import RowError
from lit_rl.execution.checks import TokenTarget
from lit_rl.types import Problem

PROBLEM = Problem("task/1", "2 + 2 =", TokenTarget())


def names(pairs: list[PreferencePair]) -> list[tuple[str, str]]:
    return [(pair.chosen, pair.rejected) for pair in pairs]


def test_pairs_are_those_whose_rewards_differ_by_the_margin():
    pairs = make_preference_pairs(PROBLEM, ["a", "b", "c"], [1.0, 0.6, 0.0], margin=0.5)
    assert names(pairs) == [("a", "c"), ("b", "c")]
    assert pairs[0] == PreferencePair("task/1", "2 + 2 =", "a", "c", 1.0, 0.0)
    assert names(make_preference_pairs(PROBLEM, ["a", "b"], [1.0, 0.0], margin=1.0)) == [("a", "b")]
    assert make_preference_pairs(PROBLEM, ["a", "b", "c"], [0.3, 0.3, 0.3], margin=1e-9) == []
    without_verdicts = make_preference_pairs(PROBLEM, ["a", "b", "c", "d"], [1.0, None, nan, 0.0], margin=0.1)
    same_text = make_preference_pairs(PROBLEM, ["a", "a", "d", "d"], [1.0, 1.0, 0.0, 0.0], margin=0.5)
    assert names(without_verdicts) == names(same_text) == [("a", "d")]


def test_a_cap_spreads_over_the_completions():
    """Two right and two wrong: two pairs show all four, not one right answer twice."""
    pairs = make_preference_pairs(PROBLEM, ["r1", "r2", "w1", "w2"], [1.0, 1.0, 0.0, 0.0], margin=0.5, max_pairs=2)
    assert names(pairs) == [("r1", "w1"), ("r2", "w2")]
    assert make_preference_pairs(PROBLEM, ["r1", "w1"], [1.0, 0.0], margin=0.5, max_pairs=0) == []


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, None]), max_size=8), st.sampled_from([0.25, 0.5, 1.0]))
def test_without_a_cap_every_pair_is_there_once(rewards, margin):
    texts = [str(place) for place in range(len(rewards))]
    pairs = names(make_preference_pairs(PROBLEM, texts, rewards, margin=margin))
    wanted = {
        (a, b)
        for a in texts
        for b in texts
        if None not in (rewards[int(a)], rewards[int(b)]) and rewards[int(a)] - rewards[int(b)] >= margin
    }
    assert set(pairs) == wanted and len(pairs) == len(wanted)


def test_what_is_written_is_read_back(tmp_path):
    chat = ({"role": "user", "content": "ä\n"},)
    pairs = [
        PreferencePair("task/1", "text\u2028", "a\r\n", "", 1.0, -0.1),
        PreferencePair("task/1", chat, "c", "d", 0.5, 0.25),
    ]
    path = tmp_path / "new" / "pairs.jsonl"
    assert write_preference_pairs(path, pairs) == 2
    problems = PreferencePairs(str(path)).problems("train")
    assert [pair_from_problem(problem) for problem in problems] == pairs
    assert [problem.task_id for problem in problems] == ["task/1/0", "task/1/1"]
    assert problems[1].prompt == chat
    assert [file.name for file in path.parent.iterdir()] == ["pairs.jsonl"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "pairs.jsonl"
    write_preference_pairs(path, [PreferencePair("old", "p", "a", "b", 1.0, 0.0)])

    def broken():
        yield PreferencePair("new", "p", "a", "b", 1.0, 0.0)
        raise OSError("the disk is full")

    with pytest.raises(OSError):
        write_preference_pairs(path, broken())
    assert json.loads(path.read_text())["task_id"] == "old"


GOOD = {
    "task_id": "t",
    "prompt": "p",
    "chosen": "a",
    "rejected": "b",
    "chosen_reward": 1,
    "rejected_reward": 0,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rejected_reward": 1}, "'chosen_reward': needs to be above rejected_reward 1.0, got 1.0"),
        ({"rejected": "a"}, "'rejected': is the same text as chosen"),
        ({"prompt": [{"role": 1}]}, "'prompt': [0]['role']: expected str, got 1"),
    ],
)
def test_a_bad_row_is_named(tmp_path, change, message):
    with pytest.raises(RowError) as error:
        PreferencePairs(write_rows(tmp_path, GOOD, GOOD | change)).problems("train")
    assert f"row 2, field {message}" in str(error.value)
