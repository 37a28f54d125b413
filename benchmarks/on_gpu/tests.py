"""The tests that are marked gpu."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator

from on_gpu.measuring import Row


def measure(given: argparse.Namespace) -> Iterator[Row]:
    """The last line of pytest, and the names of the tests that failed."""
    environment = dict(os.environ, LIT_RL_TEST_DEVICE=str(given.device))
    some = ["-k", "samples"] if given.tiny else []
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests/test_gpu.py", *some]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode:
        print(done.stdout[-6000:], done.stderr[-2000:])
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()[-300:]])[-1].strip("= ")
    yield from ({"tests": line} for line in (last, *failed))
