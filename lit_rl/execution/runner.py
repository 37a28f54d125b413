"""What runs and judges programs: the local sandbox, or a client of a remote one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import Self

from lit_rl.execution.check_base import Check
from lit_rl.execution.outcome import Outcome


class ProgramRunner(ABC):
    """Judges programs. Modules are given a way to build one and own it from the start of a run to its end."""

    @abstractmethod
    def submit(self, program: str, check: Check) -> Future[Outcome]:
        """Start judging a program; the future never raises for what the program does."""

    @abstractmethod
    def close(self) -> None:
        """End every process and give back every file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
