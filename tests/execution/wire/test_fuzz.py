"""A short run of the fuzzing benchmark, which checks that a program's garbage hurts no other program."""

import sys
from pathlib import Path

FOLDER = str(Path(__file__).parents[3] / "benchmarks")
sys.path.insert(0, FOLDER)
import sandbox_stress as stress  # noqa: E402

sys.path.remove(FOLDER)


def test_a_few_rounds_find_no_fault():
    found = stress.run("garbage", 0, 10.0, num_workers=1, max_rounds=2)
    assert (found.rounds, found.faults) == (2, [])
    assert 0 < found.peak < stress.MAX_MEGABYTES
    assert found.verdicts.total() == 2 * 40 and found.verdicts["passed: passed"] > 0
    assert not found.verdicts["wrong: passed"] and any(name.startswith("wrong: ") for name in found.verdicts)
