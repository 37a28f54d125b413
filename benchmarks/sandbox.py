"""Programs judged per second, beside a plain subprocess in the same run.

    python benchmarks/sandbox.py [--rounds 6]

Rounds of all contestants alternate and the best round of each counts, so that a busy machine slows all alike.
``held`` is memory that the calling process has touched, as a trainer has; each round goes through all amounts.
"""

from __future__ import annotations

import argparse
import os
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tier", type=int)
    parser.add_argument("--held", type=int, nargs="*", default=[0, 1, 8], help="GiB that the caller holds")
    given = parser.parse_args()
    for num_workers in (1, 2):
        measure(num_workers, given.rounds, given.held, given.tier)


if __name__ == "__main__":
    main()
