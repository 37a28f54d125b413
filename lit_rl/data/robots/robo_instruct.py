"""Robo-Instruct: generated instructions with programs that a simulator has checked, from a user's file.

Columns: ``prompt`` (instruction), ``program`` (begins with ``def task_program():``), and where they exist
``revision`` (the instruction rewritten to fit the program), ``gen_count``, ``text``. It has no world to test
in, so a policy's program is run in worlds that are invented as it goes: it earns its reward by being sound,
not by doing what the instruction says.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Unpack

from lit_rl.arguments import UsageError
from lit_rl.data.cut_task import held_out, require_some_to_train_on
from lit_rl.data.local_files import local_path
from lit_rl.data.prompts import Form
from lit_rl.data.robots.robot_checks import InventedWorlds
from lit_rl.data.robots.robot_program import prepare
from lit_rl.data.robots.robot_tasks import robot_problem
from lit_rl.data.robots.service_robot import FUNCTIONS
from lit_rl.data.rows import Row, read_rows
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.types import Problem

_LONGEST_FIELD = 10_000_000


class RoboInstruct(TaskDataModule):
    """Rows of Robo-Instruct, with their programs as references.

    Left out: rows without instruction or program, programs that call no robot function or leave something
    out (``...``), and repetitions of an instruction or a program.

    Args:
        path: a ``.csv``, ``.jsonl``, ``.json`` or ``.parquet`` file, or a Hugging Face id.
        validation_share: share of the rows kept for validation.
        form: ``instruct`` (chat messages) or ``completion`` (beginning of a source file).
        num_worlds: invented worlds a program is run in.
        timeout_seconds: CPU seconds for a program in one world.
        **options: see :class:`lit_rl.data.task.TaskDataModule`.

    Source:
        Hu et al. 2024, "Robo-Instruct", https://arxiv.org/abs/2405.20179
    """

    name = "robo_instruct"

    def __init__(
        self,
        path: str,
        validation_share: float = 0.02,
        form: Form = "instruct",
        num_worlds: int = 20,
        timeout_seconds: float = 2.0,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        require_some_to_train_on(validation_share)
        self.path = path
        self.validation_share = validation_share
        self.form = form
        self.check = InventedWorlds(num_worlds=num_worlds, timeout_seconds=timeout_seconds)

    def load_problems(self, split: Split) -> list[Problem]:
        """The rows of a split, in the order of the file; validation and test are the same."""
        rows = usable_rows(read_robo_instruct(self.path))
        measured = held_out(range(len(rows)), self.validation_share)
        return [
            robot_problem(
                f"robo_instruct/{number}",
                instruction,
                self.check,
                form=self.form,
                reference=program,
            )
            for index, (number, instruction, program) in enumerate(rows)
            if (index in measured) is (split != "train")
        ]


def read_robo_instruct(path: str) -> Iterator[Row]:
    """All rows of the file, as they are."""
    if not path.endswith(".csv"):
        yield from read_rows(path)
        return
    file = local_path(path)
    if not file.is_file():
        raise FileNotFoundError(f"no data file at {file}: correct `path` or put the file there")
    csv.field_size_limit(_LONGEST_FIELD)
    with file.open(encoding="utf-8-sig", newline="") as lines:
        for number, values in enumerate(csv.DictReader(lines), 1):
            yield Row(path, number, {name: value or None for name, value in values.items()})


def usable_rows(rows: Iterator[Row]) -> list[tuple[int, str, str]]:
    """``(row number, instruction, program)`` of the rows that can be used; programs are made runnable.

    Raises:
        RowError: an instruction or program that is present but not text.
        ValueError: no row can be used.
    """
    used: list[tuple[int, str, str]] = []
    seen: set[str] = set()
    source = "the file"
    for row in rows:
        source = row.source
        instruction = (row.text("revision", "") or row.text("prompt", "")).strip()
        program = row.text("program", "").strip()
        if not instruction or not _is_whole(program) or {instruction, program} & seen:
            continue
        seen |= {instruction, program}
        used.append((row.number, instruction, prepare(program).source.rstrip() + "\n"))
    if not used:
        raise UsageError(f"{source} has no row with an instruction (prompt) and a robot program (program)")
    return used


def _is_whole(program: str) -> bool:
    return "..." not in program and any(f"{name}(" in program for name in FUNCTIONS)
