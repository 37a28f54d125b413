"""Problems of basics and how completions of them are judged, for both sides; needs neither torch nor Lightning."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lit_rl.execution.checks import CallTests
from lit_rl.execution.program import Wanted
from lit_rl.execution.sandbox import Sandbox


@dataclass(frozen=True)
class Task:
    """A problem in completion form: the prompt begins the program."""

    prompt: str
    check: CallTests

    def program(self, text: str) -> str:
        """The program that a completion stands for."""
        found = self.check.extract(text, Wanted("python", self.check.defines, self.prompt))
        return self.prompt + (found.source if found else "")


def write(path: Path, train: Sequence[Task], validation: Sequence[Task]) -> None:
    """Training problems in the order of the rollouts, and held-out ones."""
    path.write_bytes(pickle.dumps((list(train), list(validation))))


def read(path: str) -> tuple[list[Task], list[Task]]:
    """The file that :func:`write` wrote."""
    train, validation = pickle.loads(Path(path).read_bytes())
    return train, validation


def passes(sandbox: Sandbox, tasks: Sequence[Task], texts: Sequence[str]) -> list[float]:
    """1 for each completion whose program passes, else 0."""
    programs = [(task.program(text), task.check) for task, text in zip(tasks, texts, strict=True)]
    return [float(outcome.verdict == "passed") for outcome in sandbox.judge_many(programs)]


class Curve:
    """pass@1 over seconds of training: those of the steps alone, measuring left out.

    Args:
        clock: seconds.
        every: rollouts between measurements.
        goal: pass@1 that ends the run.
        measure: pass@1 as it is now.
    """

    def __init__(self, clock: Callable[[], float], every: int, goal: float, measure: Callable[[], float]) -> None:
        self._clock, self._every, self._goal, self._measure = clock, every, goal, measure
        self._rollouts, self._seconds, self._began = 0, 0.0, 0.0
        self.points: list[dict[str, float]] = []

    def begin(self) -> None:
        """A step begins."""
        self._began = self._clock()

    def end(self) -> bool:
        """A step ended; whether the goal is reached."""
        self._seconds += self._clock() - self._began
        self._rollouts += 1
        if self._rollouts % self._every:
            return False
        score = self._measure()
        self.points.append({"rollouts": self._rollouts, "seconds": self._seconds, "pass@1": score})
        return score >= self._goal
