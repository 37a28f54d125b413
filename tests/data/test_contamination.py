"""Held-out problems that occur among the training problems."""

import pytest

from lit_rl.data.contamination import ProblemOverlap, find_overlaps
from lit_rl.data.humaneval import HumanEval
from lit_rl.data.mbpp import MBPP
from lit_rl.errors import UsageError
from lit_rl.execution.checks import TokenTarget
from lit_rl.types import Problem

WORDS = [f"w{number}" for number in range(20)]


def problem(task_id: str, text: str, **fields: str) -> Problem:
    return Problem(task_id, ({"role": "user", "content": text},), TokenTarget(), fields=fields)


def test_the_share_is_that_of_the_held_out_ngrams():
    """Item 69: 20 words have 16 runs of five; the first twelve words have eight of them."""
    held_out = [problem("held", " ".join(WORDS))]
    train = [problem("half", "before " + " ".join(WORDS[:12])), problem("whole", " ".join(WORDS).upper())]
    assert find_overlaps(train, held_out, ngram_words=5, min_share=0.5) == [
        ProblemOverlap("whole", "held", 1.0),
        ProblemOverlap("half", "held", 8 / 16),
    ]
    assert len(find_overlaps(train, held_out, ngram_words=5, min_share=0.51)) == 1


def test_wording_that_all_prompts_share_is_no_overlap():
    wording = "Answer with one fenced block of Python and nothing else, please, as always."
    train = [problem("a", f"Sort a list. {wording}", statement="Sort a list.")]
    held_out = [problem("b", f"Add numbers. {wording}", statement="Add numbers.")]
    assert find_overlaps(train, held_out, ngram_words=3) == []
    assert find_overlaps([problem("a", wording)], [problem("b", wording)], ngram_words=3) != []


def test_real_benchmarks_are_found_in_themselves_and_not_in_each_other(real_data):
    humaneval = HumanEval(str(real_data / "humaneval" / "HumanEval.jsonl.gz"), form="instruct")
    mbpp = MBPP(str(real_data / "mbpp" / "mbpp.jsonl.gz"))
    problems = humaneval.problems("test")
    own = find_overlaps(problems, problems)
    assert {o.train_id for o in own if o.train_id == o.held_out_id and o.share == 1.0} == {p.task_id for p in problems}
    assert find_overlaps(mbpp.problems("train"), problems) == []


@pytest.mark.parametrize("wrong", [{"min_share": 50}, {"min_share": 0}, {"ngram_words": 0}])
def test_limits_that_would_find_nothing_or_everything_are_refused(wrong):
    """50 for one half: no pair has that share, and the answer would be that nothing overlaps."""
    problem = Problem("a", "Add two numbers and return their sum as a text of ten digits.", TokenTarget())
    assert find_overlaps([problem], [problem], ngram_words=3)
    with pytest.raises(UsageError, match=r"(min_share|ngram_words): expected"):
        find_overlaps([problem], [problem], **{"ngram_words": 3, **wrong})
