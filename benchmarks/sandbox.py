"""Measure programs judged per second, beside a plain subprocess in the same run.

    python benchmarks/sandbox.py [--rounds 6]

Rounds of all contestants alternate, and each one's best round counts, so that a busy machine slows all contestants
alike. The calling process holds memory that it has touched, as a trainer does; each round goes through all amounts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests

HELD = (0, 8)  # GiB
SOURCE = "print(int(input()) * 2)\n"
FUNCTION = "def f(x):\n    return x + 1\n"
LOOPED = "def check(candidate):\n    for i in range(2):\n        assert candidate(i) == i + 1\n"
OURS: dict[str, Any] = {
    "stdio": (SOURCE, StdioTests((("4\n", "8\n"),))),
    "literal asserts": (FUNCTION, AssertTests("assert f(1) == 2\nassert f(2) == 3\n")),
    "calls": (FUNCTION, CallTests((((1,), 2), ((2,), 3)), "f")),
    "graded": (FUNCTION, AssertTests(LOOPED, "f")),
}


def plain(path: Path, num_workers: int, number: int) -> None:
    """Run a file by ``subprocess.run`` in some threads, without limits and verdict."""
    command = [os.path.realpath(sys.executable), "-I", "-S", str(path)]
    run = partial(subprocess.run, input=b"4\n", capture_output=True, check=True)
    with ThreadPoolExecutor(num_workers) as pool:
        assert all(done.stdout == b"8\n" for done in pool.map(run, [command] * number))


def judged(sandbox: Sandbox, item: Any, number: int) -> None:
    """Judge a program many times."""
    assert all(outcome.passed for outcome in sandbox.judge_many([item] * number))


def rate(work: Callable[[int], None], number: int) -> float:
    """Return the number of programs per second."""
    begun = time.perf_counter()
    work(number)
    return number / (time.perf_counter() - begun)


def measure(num_workers: int, rounds: int) -> None:
    """Print the best rate of each contestant over alternating rounds."""
    best: dict[tuple[int, str], float] = {}
    with tempfile.TemporaryDirectory() as folder, Sandbox(num_workers) as sandbox:
        path = Path(folder) / "program.py"
        path.write_text(SOURCE)
        works = {"subprocess.run": partial(plain, path, num_workers)}
        works |= {name: partial(judged, sandbox, item) for name, item in OURS.items()}
        for turn in range(rounds + 1):  # the first warms up
            for gib in HELD:
                held = bytearray(gib << 30)
                held[::4096] = b"\1" * len(held[::4096])  # written to, as a trainer's memory is
                for name, work in works.items():
                    found = rate(work, (50 if name == "subprocess.run" else 150) * num_workers)
                    best[gib, name] = max(best.get((gib, name), 0.0), found if turn else 0.0)
                del held
        for gib in HELD:
            print(f"\n{num_workers} worker(s), caller holds {gib} GiB, tier {sandbox.tier}")
            for name in works:
                times = best[gib, name] / best[gib, "subprocess.run"]
                print(f"  {name:20s} {best[gib, name]:8.0f}/s  {times:5.2f} x subprocess.run")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    for workers in (1, 2):
        measure(workers, given.rounds)
