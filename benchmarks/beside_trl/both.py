"""Parts that both sides of a comparison with TRL use: one clock, and programs that completions decide.

Imports nothing outside the standard library and ``lit_rl.execution``, so that it also runs in the peer's environment.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lit_rl.execution.checks import StdioTests
from lit_rl.execution.program import ExtractedProgram, Extraction, Wanted

_TICKS = os.sysconf("SC_CLK_TCK")

STDIN = "20\n"
SOURCE = """SEED = {seed}


def mix(x):
    total = SEED % 2
    for i in range(x):
        total = (total * 31 + i) % 1000003
    return total


print(mix(int(input())))
"""


def clock_of(kind: str) -> Callable[[], float]:
    """Seconds by the wall, or CPU seconds of this process and all below it."""
    return cpu_seconds if kind == "cpu" else time.perf_counter


def cpu_seconds() -> float:
    """CPU seconds of this process and of all below it, with those that have ended and were waited for.

    ``resource.RUSAGE_CHILDREN`` counts children that have ended only, and a sandbox's workers stay.
    """
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    total = 0
    for process in used:
        above = process
        while above not in (os.getpid(), 0, 1):
            above = parents.get(above, 0)
        total += used[process] if above == os.getpid() else 0
    return total / _TICKS


def written(text: str) -> str:
    """The program that a completion stands for: another for each text, harmless whatever was written."""
    return SOURCE.format(seed=zlib.crc32(text.encode()))


def expected() -> str:
    """Output of programs with an even seed: those that pass."""
    total = 0
    for i in range(int(STDIN)):
        total = (total * 31 + i) % 1000003
    return f"{total}\n"


@dataclass(frozen=True)
class Written(StdioTests):
    """Runs the program that a completion stands for."""

    def extract(
        self, text: str, wanted: Wanted | None = None, extraction: Extraction = "answer"
    ) -> ExtractedProgram | None:
        """See :func:`written`."""
        return ExtractedProgram(written(text), 0, len(text.encode()), False)


CHECK = Written(((STDIN, expected()),))
