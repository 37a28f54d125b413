"""Programs judged per second, beside a plain subprocess in the same run, or CPU seconds beside another checkout.

    python benchmarks/sandbox.py [--rounds 6]
    python benchmarks/sandbox.py --against TREE --rounds 5

Rounds of all contestants alternate and the best round of each counts, so that a busy machine slows all alike.
``held`` is memory that the calling process has touched, as a trainer has; each round goes through all amounts. With
``--against`` both checkouts judge the same programs in turn; printed is the ratio of their CPU seconds, for each kind
the median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests

STDIO = ("print(int(input()) * 2)\n", StdioTests((("4\n", "8\n"),)))
FUNCTION = "def f(x):\n    return x + 1\n"
LOOPED = "def check(candidate):\n    for i in range(2):\n        assert candidate(i) == i + 1\n"
OURS: dict[str, Any] = {
    "stdio": STDIO,
    "literal asserts": (FUNCTION, AssertTests("assert f(1) == 2\nassert f(2) == 3\n")),
    "calls": (FUNCTION, CallTests((((1,), 2), ((2,), 3)), "f")),
    "graded": (FUNCTION, AssertTests(LOOPED, "f")),
}


def plain_subprocess(path: str) -> None:
    """Run a file by ``subprocess.run``; no limits, no verdict."""
    command = [os.path.realpath(sys.executable), "-I", "-S", path]
    assert subprocess.run(command, input=b"4\n", capture_output=True, check=True).stdout == b"8\n"


def rate_of_plain(path: str, number: int, num_workers: int) -> float:
    """Programs per second by ``subprocess.run`` in some threads."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(num_workers) as pool:
        list(pool.map(plain_subprocess, [path] * number))
    return number / (time.perf_counter() - begun)


def rate_of_sandbox(sandbox: Sandbox, item: Any, number: int) -> float:
    """Programs per second in a sandbox."""
    begun = time.perf_counter()
    assert all(outcome.passed for outcome in sandbox.judge_many([item] * number))
    return number / (time.perf_counter() - begun)


def measure(num_workers: int, rounds: int, levels: list[int], tier: int | None) -> None:
    """Print the best rate of each contestant over alternating rounds."""
    best: dict[tuple[int, str], float] = {}
    number = 150 * num_workers
    with tempfile.TemporaryDirectory() as folder, Sandbox(num_workers, tier=tier) as sandbox:
        path = Path(folder) / "program.py"
        path.write_text(STDIO[0])
        for item in OURS.values():
            rate_of_sandbox(sandbox, item, number)
        for _ in range(rounds):
            for gib in levels:
                held = bytearray(gib << 30)
                held[::4096] = b"\1" * len(held[::4096])  # written to, as a trainer's memory is
                rates = {"subprocess.run": rate_of_plain(str(path), number // 3, num_workers)}
                rates |= {name: rate_of_sandbox(sandbox, item, number) for name, item in OURS.items()}
                best |= {(gib, name): max(best.get((gib, name), 0.0), rate) for name, rate in rates.items()}
                del held
        for gib in levels:
            print(f"\n{num_workers} worker(s), caller holds {gib} GiB, tier {sandbox.tier}")
            for name in ("subprocess.run", *OURS):
                rate = best[gib, name]
                print(f"  {name:20s} {rate:8.0f}/s  {rate / best[gib, 'subprocess.run']:5.2f} x subprocess.run")


CPU_SCRIPT = """
import json, resource, sys
sys.path[:0] = [{tree!r}, {here!r}]
import lit_rl, sandbox
from lit_rl.execution import Sandbox
assert lit_rl.__file__.startswith({tree!r}), lit_rl.__file__
def seconds(number, item):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with Sandbox(1, tier={tier}) as made:
        assert all(one.passed for one in made.judge_many([item] * number))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
# What the start costs is taken off: only programs count.
print(json.dumps({{name: seconds({number} + 20, item) - seconds(20, item) for name, item in sandbox.OURS.items()}}))
"""


def compare(other: Path, rounds: int, tier: int | None, number: int) -> None:
    """Print this checkout's CPU seconds over another's."""
    ours, here = Path(__file__).resolve().parents[1], str(Path(__file__).parent)
    trees = [ours, other.resolve()]
    ratios: dict[str, list[float]] = {name: [] for name in OURS}
    for turn in range(rounds):
        found = {}
        for tree in trees if turn % 2 else trees[::-1]:
            script = CPU_SCRIPT.format(tree=str(tree), here=here, tier=tier, number=number)
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
            found[tree] = json.loads(done.stdout)
        for name in OURS:
            ratios[name].append(found[ours][name] / found[trees[1]][name])
    for name, values in ratios.items():
        print(f"  {name:20s} {statistics.median(values):5.3f} (from {min(values):.3f} to {max(values):.3f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, to compare CPU seconds with")
    parser.add_argument("--programs", type=int, default=1000, help="of each kind, beside another checkout")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tier", type=int)
    parser.add_argument("--held", type=int, nargs="*", default=[0, 1, 8], help="GiB that the caller holds")
    given = parser.parse_args()
    if given.against is not None:
        compare(given.against, given.rounds, given.tier, given.programs)
        return
    for num_workers in (1, 2):
        measure(num_workers, given.rounds, given.held, given.tier)


if __name__ == "__main__":
    main()
