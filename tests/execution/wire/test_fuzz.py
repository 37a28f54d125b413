"""A short run of the fuzzing benchmark, which says whether garbage of a program hurts anybody else."""

import importlib.util
from pathlib import Path

from lit_rl.execution import Outcome, Verdict

PATH = Path(__file__).parents[3] / "benchmarks" / "sandbox_fuzz.py"
SPEC = importlib.util.spec_from_file_location("sandbox_fuzz", PATH)
fuzz = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fuzz)


def test_a_few_rounds_find_no_fault():
    faults = []
    rounds, peak, seen = fuzz.run(0, 10.0, 1, faults.append, most_rounds=3)
    assert (rounds, faults) == (3, [])
    assert 0 < peak < fuzz.MOST_MEGABYTES
    assert sum(seen.values()) == 3 * 40 and seen["honest: passed"] > 0
    assert not any(name.startswith("garbage: passed") for name in seen)


def test_a_round_is_made_of_its_seed_alone():
    one, other = fuzz.random.Random("0/1"), fuzz.random.Random("0/1")
    programs = [fuzz.garbage_program(rng, fuzz.CALLS) for rng in (one, other) for _ in range(20)]
    assert programs[:20] == programs[20:] and len(set(programs)) == 20


def test_what_must_not_happen_is_called_a_fault():
    assert fuzz._fault(Outcome(Verdict.PASSED), None) == "garbage passed"
    assert fuzz._fault(Outcome(Verdict.INFRASTRUCTURE_FAILURE), None) == "infrastructure failure"
    assert fuzz._fault(Outcome(Verdict.TIMED_OUT), "passed") == "timed_out instead of passed"
    assert fuzz._fault(Outcome(Verdict.WRONG_ANSWER), None) is None
