"""The check of lines in a larger program: the program is built, run, and compared with its unchanged version."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Annotated, ClassVar

from lit_rl.errors import UsageError
from lit_rl.execution.confinement.visible_files import is_path_inside
from lit_rl.execution.interface import Check
from lit_rl.signature_check import PositiveInt, Seconds, ValueLimit, checked_dataclass

StageWeights = Annotated[
    tuple[float, float, float, float],
    ValueLimit(
        "numbers of at least 0 and not all 0", lambda weights: min(weights) >= 0 and 0 < sum(weights) < math.inf
    ),
]


@checked_dataclass
@dataclass(frozen=True)
class BuildAndRun(Check):
    """Masked lines of a file in a source tree, which a completion fills and which are judged by build, run and output.

    Each stage has a score in [0, 1] and a weight; if a stage fails, later stages score 0. The reference
    output is what the unchanged tree writes. The tree itself is never changed.

    Args:
        tree: folder of the source tree.
        file: path, within the tree, of the file whose lines are masked.
        first_line: first masked line, 1-based.
        last_line: last masked line.
        build: shell command, run in a copy of the tree; the last line of a good build's output has ``SUCCESS``.
        run: shell command, run after a good build.
        outputs: plotfiles (folders) that a good run leaves, each with a ``Header``.
        variable: the array of the plotfiles that is compared.
        weights: weights of the stages ``compilation``, ``execution``, ``header_bleu``, ``density``; any scale.
        build_seconds: wall seconds for one build.
        run_seconds: wall seconds for one run.
        memory_bytes: address space of one process of build or run.
        readable: folders besides the system's toolchain that build and run may read; the tree itself is hidden
            wherever it lies, and so is the history of its version control.
        environment: further variables for build and run.
    """

    tree: str
    file: str
    first_line: PositiveInt
    last_line: int
    build: str = "make -j2"
    run: str = "./blast"
    outputs: tuple[str, ...] = ("plt00001", "plt00002", "plt00003", "plt00004", "plt00005")
    variable: str = "density"
    weights: StageWeights = (0.25, 0.25, 0.25, 0.25)
    build_seconds: Seconds = 120.0
    run_seconds: Seconds = 60.0
    memory_bytes: PositiveInt = 4 << 30
    readable: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    judged_by: ClassVar[str] = "lit_rl.data.numerical.build_judge:judge_build_and_run"

    def __post_init__(self) -> None:
        tree = os.path.realpath(self.tree)
        for path in self.readable:
            if is_path_inside(os.path.realpath(path), tree):
                raise UsageError(f"BuildAndRun.readable must lie outside its tree, got {path}: copy it elsewhere")

    @property
    def language(self) -> str:
        """A label of the lines, which are no program by themselves, whatever language the file is in."""
        return f"lines of {self.file}"

    @property
    def wall_budget_seconds(self) -> float:
        """Wall seconds for build and run of completion and unchanged tree, and for a build without the masked lines."""
        return 3 * self.build_seconds + 2 * self.run_seconds

    @property
    def stages(self) -> tuple[str, ...]:
        return ("compilation", "execution", "header_bleu", "density", "total")
