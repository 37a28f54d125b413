"""What runs and judges programs: the local sandbox, or a client of a remote one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import Self

from lit_rl.execution.check_base import Check
from lit_rl.execution.outcome import Outcome


class ProgramRunner(ABC):
    """Judges programs. A module is given one, or a way to build one, and closes what it started when its run ends."""

    @abstractmethod
    def submit(self, program: str, check: Check) -> Future[Outcome]:
        """Start judging a program; the future never raises for what the program does."""

    @abstractmethod
    def close(self) -> None:
        """End every process and remove every file."""

    @property
    def is_running(self) -> bool:
        """Whether it holds processes now; whoever started them closes them."""
        return False

    def reopen(self) -> None:
        """Let it judge again after ``close``; a runner that was not closed stays as it is."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
