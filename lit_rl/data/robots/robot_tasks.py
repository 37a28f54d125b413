"""Tasks whose programs drive a service robot: RoboEval, to measure on, and Robo-Instruct, to train on."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from lit_rl.data.prompts import Form
from lit_rl.data.robots.robot_checks import InventedWorlds, RobotTest, RobotWorlds
from lit_rl.data.robots.robot_program import DEFINITION, extract_runnable_program
from lit_rl.data.robots.service_robot import FUNCTIONS
from lit_rl.data.rows import Row, expand_path, read_rows
from lit_rl.data.task import Split, TaskDataModule, TaskOptions, ValidationShare, choose_validation_items
from lit_rl.types import Problem

INTERFACE = '''\
"""Programs for a service robot. A program is one function, task_program(), with no arguments."""


def get_current_location() -> str:
    """The room the robot is in."""


def get_all_rooms() -> list[str]:
    """The names of all rooms."""


def is_in_room(entity: str) -> bool:
    """True if a thing or a person of that name is in the robot's room."""


def go_to(location: str) -> None:
    """Drive to a room."""


def ask(person: str, question: str, options: list[str]) -> str:
    """Ask a person in this room a question; returns the option they choose."""


def say(message: str) -> None:
    """Say something aloud."""


def pick(obj: str) -> None:
    """Pick up a thing in this room; the robot holds one thing at a time."""


def place(obj: str) -> None:
    """Put down the thing that the robot holds."""
'''

EXAMPLE_INSTRUCTION = "See whether the tent is in the attic, and come back and tell me."
EXAMPLE_PROGRAM = """def task_program():
    start = get_current_location()
    go_to("attic")
    found = is_in_room("tent")
    go_to(start)
    if found:
        say("The tent is in the attic")
    else:
        say("The tent is not in the attic")
"""

STOP_STRINGS = ("\n#", "\ndef", "```", "import")

_SYSTEM = (
    "You write Python programs for a service robot. These functions exist and need no import:\n\n"
    f"```python\n{INTERFACE}```\n"
    "Answer with one Python block that defines task_program() and nothing else; do not call it."
)


def robot_problem(
    task_id: str,
    instruction: str,
    check: RobotWorlds | InventedWorlds,
    *,
    form: Form,
    reference: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Problem:
    """Return a problem in which the policy writes ``task_program()`` for an instruction.

    ``instruct`` gives chat messages with one worked example; ``completion`` gives the beginning of a source file, for
    models not tuned to chat, and stops where the next program would begin.
    """
    shared: dict[str, Any] = {
        "task_id": task_id,
        "check": check,
        "reference": reference,
        "fields": {"instruction": instruction, **(fields or {})},
    }
    if form == "instruct":
        messages = (
            {"role": "system", "content": _SYSTEM},
            {"role": "user", "content": EXAMPLE_INSTRUCTION},
            {"role": "assistant", "content": f"```python\n{EXAMPLE_PROGRAM}```"},
            {"role": "user", "content": instruction},
        )
        return Problem(prompt=messages, **shared)
    shown = f"{INTERFACE}\n\n# {EXAMPLE_INSTRUCTION}\n{EXAMPLE_PROGRAM}\n\n# {instruction}\n{DEFINITION}"
    return Problem(prompt=shown, program_prefix=DEFINITION, stop_strings=STOP_STRINGS, **shared)


class RoboEval(TaskDataModule):
    """The RoboEval benchmark: 16 tasks in 5 wordings each, to measure on.

    A completion passes if its program succeeds in every world of its task. ``pass@1`` is the mean over the 80 prompts.
    The benchmark's licence forbids its use as training data, and it is not shipped here:
    ``python benchmarks/roboeval_rows.py CHECKOUT FILE`` converts a clone of https://github.com/ut-amrl/codebotler.

    Args:
        path: the converted file; each row has ``name``, ``prompts`` and ``tests``.
        form: ``instruct`` (chat messages) or ``completion`` (beginning of a source file).
        timeout_seconds: CPU seconds for a program in one world.
        **options: see :class:`lit_rl.data.task.TaskDataModule`.

    Source:
        Hu et al. 2024, https://arxiv.org/abs/2311.11183
    """

    name = "roboeval"

    def __init__(
        self,
        path: str,
        form: Form = "instruct",
        timeout_seconds: float = 1.0,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.path = path
        self.form = form
        self.timeout_seconds = timeout_seconds

    def load_problems(self, split: Split) -> list[Problem]:
        if split == "train":
            return []
        problems = []
        for row in read_rows(self.path):
            name = row.text("name")
            check = RobotWorlds(tuple(RobotTest(**test) for test in row["tests"]), self.timeout_seconds)
            problems += [
                robot_problem(f"roboeval/{name}/{index}", prompt, check, form=self.form, fields={"task": name})
                for index, prompt in enumerate(row.texts("prompts"))
            ]
        return problems


class RoboInstruct(TaskDataModule):
    """Rows of Robo-Instruct, with their programs as references.

    Columns: ``prompt`` (instruction), ``program`` (begins with ``def task_program():``), and where they exist
    ``revision`` (the instruction rewritten to fit the program), ``gen_count``, ``text``. The rows have no world to test
    in, so a policy's program is run in worlds that are invented during the run: the program is rewarded for being
    sound, not for doing what the instruction says.

    Left out: rows without instruction or program, programs that call no robot function or leave something
    out (``...``), and repetitions of an instruction or a program.

    Args:
        path: a ``.csv``, ``.jsonl``, ``.json`` or ``.parquet`` file, or a Hugging Face id.
        validation_share: share of the rows kept for validation.
        form: ``instruct`` (chat messages) or ``completion`` (beginning of a source file).
        num_worlds: number of invented worlds in which a program is run.
        timeout_seconds: CPU seconds for a program in one world.
        **options: see :class:`lit_rl.data.task.TaskDataModule`.

    Source:
        Hu et al. 2024, "Robo-Instruct", https://arxiv.org/abs/2405.20179
    """

    name = "robo_instruct"

    def __init__(
        self,
        path: str,
        validation_share: ValidationShare = 0.02,
        form: Form = "instruct",
        num_worlds: int = 20,
        timeout_seconds: float = 2.0,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.path = path
        self.validation_share = validation_share
        self.form = form
        self.check = InventedWorlds(num_worlds=num_worlds, timeout_seconds=timeout_seconds)

    def load_problems(self, split: Split) -> list[Problem]:
        rows = usable_robo_instruct_rows(read_robo_instruct(self.path))
        measured = choose_validation_items(range(len(rows)), self.validation_share)
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
    """Yield all rows of the file, unchanged."""
    if not path.endswith(".csv"):
        yield from read_rows(path)
        return
    csv.field_size_limit(10_000_000)
    with expand_path(path).open(encoding="utf-8-sig", newline="") as lines:
        for number, values in enumerate(csv.DictReader(lines), 1):
            yield Row(path, number, {name: value or None for name, value in values.items()})


def usable_robo_instruct_rows(rows: Iterator[Row]) -> list[tuple[int, str, str]]:
    """Return ``(row number, instruction, program)`` of the rows that can be used; programs are made runnable."""
    used: list[tuple[int, str, str]] = []
    seen: set[str] = set()
    for row in rows:
        instruction = (row.text("revision", "") or row.text("prompt", "")).strip()
        program = row.text("program", "").strip()
        is_whole = "..." not in program and any(f"{name}(" in program for name in FUNCTIONS)
        if not instruction or not is_whole or {instruction, program} & seen:
            continue
        seen |= {instruction, program}
        used.append((row.number, instruction, extract_runnable_program(program).source.rstrip() + "\n"))
    return used
