"""A short run of the benchmark that judges random wrong programs: none passes, and none is masked."""

import random
import sys
from pathlib import Path

import pytest
from support.slow_cases import slow_but

FOLDER = str(Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, FOLDER)
import sandbox_masks  # noqa: E402
from random_tests.problems import defined, random_problem  # noqa: E402

sys.path.remove(FOLDER)


@pytest.mark.parametrize(("tier", "number"), slow_but(((None, 2),), [(None, 2), (None, 10), (0, 10)]))
def test_no_wrong_program_passes_or_is_masked(tier, number):
    faults = []
    rounds, seen = sandbox_masks.run(0, 10.0, faults.append, tier=tier, most_rounds=number)
    assert [(fault["round"], fault["fault"], fault["form"]) for fault in faults] == []
    assert rounds == number and sum(seen.values()) == number * 32
    assert seen["right: passed"] == number * 4 and len(seen) >= min(number, 4)


def test_references_give_what_the_tests_expect():
    problems = [random_problem(random.Random(seed)) for seed in range(150)]
    assert {problem.kind for problem in problems} == {"function", "class", "in_place", "file"}
    assert len({problem.form for problem in problems}) > 40
    for problem in problems:
        compile(problem.test, "test", "exec")
        if problem.kind == "function":
            f = defined(problem.right)["f"]
            assert all(f(*args) == want for args, want in problem.cases)
