"""Parts that both sides of a comparison with TRL use: a watch, and programs to judge.

Imports nothing outside the standard library and ``lit_rl.execution``, so that it also runs in the peer's environment.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from lit_rl.execution.checks import CallTests, StdioTests
from lit_rl.execution.program import ExtractedProgram, Extraction, WantedProgram
from lit_rl.execution.sandbox import Sandbox

STDIN = "20\n"
SOURCE = """SEED = {seed}


def mix(x):
    total = SEED % 2
    for i in range(x):
        total = (total * 31 + i) % 1000003
    return total


print(mix(int(input())))
"""


def cpu_seconds(process: str = "self") -> float:
    """CPU seconds of a process and of all below it, with those that have ended and were waited for.

    ``resource.RUSAGE_CHILDREN`` counts children that have ended only, and a sandbox's workers stay.
    """
    entry = Path("/proc", process)
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
        children = [child for file in entry.glob("task/*/children") for child in file.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):  # it has ended: its parent counts it
        return 0.0
    ticks = sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(cpu_seconds, children))


class Watch:
    """Seconds of each step and, every few steps until the goal, pass@1 over them, outside the seconds."""

    def __init__(self, spec: Mapping[str, Any], measure: Callable[[], float] | None = None) -> None:
        self._clock = cpu_seconds if spec["clock"] == "cpu" else time.perf_counter
        self._spec, self._measure = spec, measure
        self._began = 0.0
        self._seconds: list[float] = []
        self._points: list[dict[str, float]] = []

    def begin(self) -> None:
        """A step begins."""
        self._began = self._clock()

    def end(self) -> bool:
        """A step ended and the next one begins; returns True if the goal is reached."""
        self._seconds.append(self._clock() - self._began)
        reached = False
        if self._measure is not None and len(self._seconds) % self._spec["every"] == 0:
            score = self._measure()
            self._points.append({"steps": len(self._seconds), "seconds": sum(self._seconds), "pass@1": score})
            reached = score >= self._spec["goal"]
        self.begin()
        return reached

    def report(self, lengths: Sequence[float], settings: Mapping[str, object]) -> None:
        """Print results as a line of JSON: seconds are those of each step but the first."""
        gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        found = {"seconds": self._seconds[1:], "points": self._points, "length": mean(lengths), "gigabytes": gigabytes}
        print(json.dumps(found | {"settings": settings}, default=str))


# -- programs ----------------------------------------------------------------------------------------------------------


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
        self, text: str, wanted: WantedProgram | None = None, extraction: Extraction = "answer"
    ) -> ExtractedProgram | None:
        return ExtractedProgram(written(text), 0, len(text.encode()), False)


CHECK = Written(((STDIN, expected()),))


@dataclass(frozen=True)
class Task:
    """A problem of basics in completion form: the prompt begins the program."""

    prompt: str
    check: CallTests

    def program(self, text: str) -> str:
        """The program that a completion stands for."""
        found = self.check.extract(text, WantedProgram("python", self.check.defines, self.prompt))
        return self.prompt + (found.source if found else "")


def read(path: str | None) -> tuple[list[Task], list[Task]]:
    """Training problems in the order of the rollouts, and held-out ones."""
    if path is None:
        return [], []
    train, validation = pickle.loads(Path(path).read_bytes())
    return train, validation


def passes(sandbox: Sandbox, tasks: Sequence[Task], texts: Sequence[str]) -> list[float]:
    """1 for each completion whose program passes, else 0."""
    programs = [(task.program(text), task.check) for task, text in zip(tasks, texts, strict=True)]
    return [float(outcome.verdict == "passed") for outcome in sandbox.judge_many(programs)]
