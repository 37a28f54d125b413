"""Missing lines of a file in a source tree: the policy writes them, and the tree is built and run.

The task ships with a small finite-volume program (``finite_volume/``: a blast wave in a box, five plotfiles) that is
built in seconds and has six masked places. Any other tree works if commands build and run it, and if it writes
plotfiles as AMReX does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from lit_rl.data.numerical.build_check import BuildAndRun
from lit_rl.data.prompts import Form, chat_messages
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.types import Message, Problem

SHIPPED_TREE = Path(__file__).resolve().parent / "finite_volume"


@dataclass(frozen=True)
class CodeGap:
    """Lines that are masked.

    Args:
        file: path in the tree.
        first_line: first masked line, 1-based.
        last_line: last masked line.
        name: name in the task id; by default made of file and lines.
    """

    file: str
    first_line: int
    last_line: int
    name: str = ""


SHIPPED_GAPS = (
    CodeGap("euler.cpp", 9, 9, "velocity"),
    CodeGap("euler.cpp", 29, 30, "flux"),
    CodeGap("riemann.cpp", 9, 10, "wave_speeds"),
    CodeGap("reconstruct.cpp", 9, 11, "limiter"),
    CodeGap("step.cpp", 67, 68, "update"),
    CodeGap("step.cpp", 48, 53, "face_flux"),
)
"""From trivial (a line like the one before it) to hard (six lines that swap the axes and swap them back)."""

_LANGUAGES = {".py": "python", ".c": "c", ".h": "cpp", ".f90": "fortran", ".F90": "fortran", ".f": "fortran"}


class CodeCompletion(TaskDataModule):
    """Complete masked lines; scored by compilation, execution, output headers and a field of the output.

    For evaluation only: ``train`` is empty, and every other split has all places.

    Args:
        tree: folder of a source tree; by default the shipped program.
        places: lines to mask, one problem each; by default the shipped program's six.
        build: shell command that builds the tree; the last line of its output must hold ``SUCCESS``.
        run: shell command that runs what was built.
        outputs: plotfiles that a run leaves.
        variable: the field of the plotfiles that is compared.
        weights: weights of compilation, execution, header BLEU and the field in the total score.
        build_seconds: wall seconds for one build.
        run_seconds: wall seconds for one run.
        readable: folders besides the system's toolchain that build and run may read, such as a library's.
        environment: further variables for build and run.
        context_lines: lines shown before and after the masked ones; ``None`` shows the whole file.
        form: ``instruct`` (chat messages) or ``completion`` (text that ends where the lines begin).
        **options: see :class:`lit_rl.data.task.TaskDataModule`.

    Source:
        the staged scores: S. Xin, "Reinforcement Learning Exploration", section 4
    """

    name = "code_completion"

    def __init__(
        self,
        tree: str | None = None,
        places: list[CodeGap] | None = None,
        build: str = "make -j2",
        run: str = "./blast",
        outputs: list[str] | None = None,
        variable: str = "density",
        weights: tuple[float, float, float, float] = (0.25, 0.25, 0.25, 0.25),
        build_seconds: float = 120.0,
        run_seconds: float = 20.0,
        readable: list[str] | None = None,
        environment: dict[str, str] | None = None,
        context_lines: int | None = None,
        form: Form = "instruct",
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.tree = SHIPPED_TREE if tree is None else Path(os.path.expandvars(tree)).expanduser().resolve()
        self.places = list(SHIPPED_GAPS if places is None else places)
        self.context_lines = context_lines
        self.form = form
        # The check of an empty place; settings that make no sense are refused now.
        self.check = BuildAndRun(
            str(self.tree),
            "",
            1,
            0,
            build=build,
            run=run,
            outputs=tuple(outputs or BuildAndRun.outputs),
            variable=variable,
            weights=(*weights,),  # a subclass may pass a list, and a check must be hashable
            build_seconds=build_seconds,
            run_seconds=run_seconds,
            readable=tuple(readable or ()),
            environment=tuple(sorted((environment or {}).items())),
        )

    def load_problems(self, split: Split) -> list[Problem]:
        return [] if split == "train" else [self._build_problem(place) for place in self.places]

    def _build_problem(self, place: CodeGap) -> Problem:
        before, masked, after = split_file_at_code_gap(self.tree / place.file, place)
        if self.context_lines is not None:
            before, after = before[-self.context_lines :] if self.context_lines else [], after[: self.context_lines]
        lines: dict[str, Any] = {"file": place.file, "first_line": place.first_line, "last_line": place.last_line}
        name = place.name or f"{place.file}:{place.first_line}-{place.last_line}"
        return Problem(
            task_id=f"code_completion/{name}",
            prompt=missing_lines_prompt(place.file, before, len(masked), after, self.form),
            check=replace(self.check, **lines),
            reference="\n".join(masked) + "\n",
            stop_strings=("```",) if self.form == "completion" else (),
            fields=lines,
        )


def split_file_at_code_gap(path: Path, place: CodeGap) -> tuple[list[str], list[str], list[str]]:
    """Return the lines of a file before, in and after a place."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    first, last = place.first_line - 1, place.last_line
    return lines[:first], lines[first:last], lines[last:]


def missing_lines_prompt(
    file: str, before: Sequence[str], num_missing: int, after: Sequence[str], form: Form
) -> str | tuple[Message, ...]:
    """Return the request for missing lines, with the lines before and after them."""
    language = _LANGUAGES.get(Path(file).suffix, "cpp")
    lines = "1 line" if num_missing == 1 else f"{num_missing} lines"
    request = (
        f"{lines} of code are missing in the file '{file}'.\n\n"
        f"The code before them:\n{_fenced_block(before, language)}\n\n"
        f"The code after them:\n{_fenced_block(after, language)}\n\n"
        f"Write the missing {lines} and nothing else, in the style of the file, so that the program builds and "
        "computes the right result."
    )
    if form == "completion":
        return f"{request}\n\nThe missing {lines}:\n```{language}\n"
    system = "You are an expert in scientific computing who completes source code."
    return chat_messages(f"{request} Answer with one fenced block.", system=system)


def _fenced_block(lines: Sequence[str], language: str) -> str:
    return "\n".join([f"```{language}", *lines, "```"])
