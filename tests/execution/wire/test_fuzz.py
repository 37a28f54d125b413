"""A short run of the fuzzing benchmark, which checks that a program's garbage hurts no other program."""

import sys
from pathlib import Path

from lit_rl.execution import Sandbox, Verdict

FOLDER = str(Path(__file__).parents[3] / "benchmarks")
sys.path.insert(0, FOLDER)
import sandbox_garbage as garbage  # noqa: E402
import sandbox_stress as stress  # noqa: E402

sys.path.remove(FOLDER)


def test_a_few_rounds_find_no_fault():
    found = stress.run("garbage", 0, 10.0, num_workers=1, max_rounds=2)
    assert (found.rounds, found.faults) == (2, [])
    assert 0 < found.peak < stress.MAX_MEGABYTES
    assert found.verdicts.total() == 2 * 40 and found.verdicts["passed: passed"] > 0
    assert not found.verdicts["wrong: passed"] and any(name.startswith("wrong: ") for name in found.verdicts)


LARGE = {
    "newlines": "b'\\n' * (15 << 20)",
    "nested lists": "b'[' * (15 << 20) + b'\\n'",
    "empty lists": "b'{}\\n[\"l\"' + b',[\"l\"]' * 2_600_000 + b']\\n'",
    "a fraction": "b'{}\\n[\"Fraction\",\"0x' + b'f' * (7 << 20) + b'\",\"0x' + b'7' * (7 << 20) + b'\"]\\n'",
    "no end": "b'{}\\n' + b'1' * (15 << 20)",
}


def test_a_supervisor_stays_small_whatever_a_program_writes_where_its_values_go():
    program = "import os\ndata = {}\nwhile data: data = data[os.write(4, data):]\nos._exit(0)\n"
    batch = [(program.format(data), check) for data in LARGE.values() for check in (garbage.CALLS, garbage.LITERAL)]
    with Sandbox(1) as sandbox:
        batch = [
            item for pair in zip(batch, [(garbage.RIGHT, garbage.CALLS)] * len(batch), strict=True) for item in pair
        ]
        outcomes = sandbox.judge_many(batch)
        peak = stress.peak_megabytes()
    assert all(outcome.passed for outcome in outcomes[1::2])
    assert not {outcome.verdict for outcome in outcomes[::2]} & {Verdict.PASSED, Verdict.INFRASTRUCTURE_FAILURE}
    assert peak < stress.MAX_MEGABYTES
