"""A short run of the benchmark that judges random wrong programs: none passes, and none is masked."""

import random
import sys
from pathlib import Path

import pytest

from lit_rl.execution import Outcome, Verdict

FOLDER = str(Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, FOLDER)
import sandbox_masks  # noqa: E402
from random_tests.problems import defined, random_problem  # noqa: E402

sys.path.remove(FOLDER)


@pytest.mark.parametrize("tier", [pytest.param(0, marks=pytest.mark.slow), None])
def test_no_wrong_program_passes_or_is_masked(tier):
    faults = []
    rounds, seen = sandbox_masks.run(0, 10.0, faults.append, tier=tier, most_rounds=10)
    assert [(fault["round"], fault["fault"], fault["form"]) for fault in faults] == []
    assert rounds == 10 and sum(seen.values()) == 10 * 32
    assert seen["right: passed"] == 10 * 4 and len(seen) >= 4


def test_references_give_what_the_tests_expect():
    problems = [random_problem(random.Random(seed)) for seed in range(300)]
    assert {problem.kind for problem in problems} == {"function", "class", "in_place", "file"}
    assert len({problem.form for problem in problems}) > 40
    for problem in problems:
        compile(problem.test, "test", "exec")
        if problem.kind == "function":
            f = defined(problem.right)["f"]
            assert all(f(*args) == want for args, want in problem.cases)


def test_what_must_not_happen_is_called_a_fault():
    assert sandbox_masks.fault_of(Outcome(Verdict.PASSED), True) is None
    assert sandbox_masks.fault_of(Outcome(Verdict.TIMED_OUT), True) == "a right program is timed_out"
    assert sandbox_masks.fault_of(Outcome(Verdict.PASSED), False) == "a wrong program passes"
    assert sandbox_masks.fault_of(Outcome(Verdict.INFRASTRUCTURE_FAILURE), False) == "a wrong program is masked"
    assert sandbox_masks.fault_of(Outcome(Verdict.OUT_OF_MEMORY), False) is None
