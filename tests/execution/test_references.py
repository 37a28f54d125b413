"""Reference programs of real data sets pass; each made wrong for one tested input does not."""

import importlib.util
from pathlib import Path

import pytest

from lit_rl.execution import Sandbox

spec = importlib.util.spec_from_file_location("reference_programs", Path(__file__).parent / "reference_programs.py")
references = importlib.util.module_from_spec(spec)
spec.loader.exec_module(references)

# Its tests compare lists of millions of tuples: gigabytes when they cross between processes.
TOO_LARGE = {"MBPP+/255"}
# Their tests compute a comparison and assert nothing: refused, for no program could fail them.
ASSERT_NOTHING = {"MBPP+/737", "MBPP+/787", "MBPP+/794"}
# Their tests ask for the truth of a result alone: whatever is true, is right.
TRUTH_ALONE = {"HumanEval/52", "HumanEval/56"}
SAMPLE = 40


def need(package):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    return package


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2, memory_bytes=2 << 30) as sandbox:
        yield sandbox


def failures(sandbox, problems):
    outcomes = sandbox.judge_many([(program, check) for _, program, check, _ in problems])
    pairs = zip(problems, outcomes, strict=True)
    return {name: outcome for (name, *_), outcome in pairs if not outcome.passed}


def passes_when_wrong(sandbox, problems):
    wrong = [
        (name, references.sabotaged(program, entry, references.SABOTAGED_INPUT.get(name, 0)), check, entry)
        for name, program, check, entry in problems
    ]
    return {name for name, *_ in wrong} - failures(sandbox, wrong).keys()


def spread(problems, number=SAMPLE):
    """Some of the problems, evenly over the file."""
    return problems[:: max(1, len(problems) // number)]


@pytest.mark.parametrize("name", ["humaneval", "mbpp"])
def test_sampled_references_pass_and_wrong_ones_do_not(sandbox, real_data, name):
    """Item 59: under the time limits that training and evaluation use."""
    problems = spread(list(getattr(references, name)(real_data)))
    assert len(problems) >= SAMPLE
    assert failures(sandbox, problems) == {}
    assert passes_when_wrong(sandbox, problems) == set()


def test_sampled_leetcode_references_pass(sandbox, real_data):
    problems = [item for item in references.leetcode(real_data) if "sortedcontainers" not in item[1]]
    assert failures(sandbox, spread(problems)) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), [("humaneval", 164), ("mbpp", 974)])
def test_all_references_pass_and_wrong_ones_do_not(sandbox, real_data, name, number):
    problems = list(getattr(references, name)(real_data))
    assert len(problems) == number
    assert failures(sandbox, problems) == {}
    assert passes_when_wrong(sandbox, problems) == set()


@pytest.mark.slow
def test_more_than_a_thousand_lies_do_not_pass(real_data):
    """Infinity, no number, a type, objects that equal everything: for every fourth problem of three sets."""
    left_out = {*TOO_LARGE, *ASSERT_NOTHING, *TRUTH_ALONE, *references.SABOTAGED_INPUT}
    sources = (references.humaneval, references.mbpp, references.mbpp_plus)
    problems = [item for source in sources for item in source(real_data)][::4]
    lies = [
        (f"{name}: {lie}", references.lying(program, entry, lie), check, entry)
        for name, program, check, entry in problems
        for lie in references.LIES
        if name not in left_out
    ]
    with Sandbox(num_workers=2, memory_bytes=2 << 30, packages=[need("numpy")]) as sandbox:
        outcomes = failures(sandbox, lies)
    assert len(lies) > 1000
    assert [name for name, *_ in lies if name not in outcomes] == []
    assert [name for name, outcome in outcomes.items() if outcome.verdict == "infrastructure_failure"] == []


@pytest.mark.slow
def test_all_mbpp_plus_references_pass_and_wrong_ones_do_not(real_data):
    problems = [item for item in references.mbpp_plus(real_data) if item[0] not in TOO_LARGE]
    assert len(problems) == 378 - len(TOO_LARGE)
    with Sandbox(num_workers=2, memory_bytes=2 << 30, packages=[need("numpy")]) as sandbox:
        refused = failures(sandbox, problems)
        assert refused.keys() == ASSERT_NOTHING
        assert {outcome.verdict for outcome in refused.values()} == {"infrastructure_failure"}
        assert all("assert nothing" in outcome.stderr for outcome in refused.values())
        assert passes_when_wrong(sandbox, problems) == set()


@pytest.mark.slow
def test_all_leetcode_references_pass(real_data):
    problems = list(references.leetcode(real_data))
    assert len(problems) == 1768
    packages = [need("sortedcontainers"), need("numpy")]
    with Sandbox(num_workers=2, packages=packages) as sandbox:
        assert failures(sandbox, problems) == {}
