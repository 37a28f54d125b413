"""How a robot problem is put to a policy: the interface, the instruction, and the two forms of a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from lit_rl.arguments import ArgumentError
from lit_rl.data.robots.robot_checks import InventedWorlds, RobotWorlds
from lit_rl.types import Problem

PromptForm = Literal["instruct", "completion"]

INTERFACE = '''\
"""Programs for a service robot. A program is one function, task_program(), with no arguments."""


def get_current_location() -> str:
    """The room the robot is in."""


def get_all_rooms() -> list[str]:
    """The names of all rooms."""


def is_in_room(entity: str) -> bool:
    """Whether a thing or a person of that name is in the robot's room."""


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

DEFINITION = "def task_program():\n"
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
    form: PromptForm,
    reference: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Problem:
    """A problem in which the policy writes ``task_program()`` for an instruction.

    Args:
        task_id: unique name.
        instruction: what the robot should do.
        check: the worlds a program is tested in.
        form: ``instruct`` gives chat messages with one worked example; ``completion`` gives the beginning of
            a source file, for models not tuned to chat, and stops where the next program would begin.
        reference: source of a correct program.
        fields: further plain data.
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
    if form == "completion":
        shown = f"{INTERFACE}\n\n# {EXAMPLE_INSTRUCTION}\n{EXAMPLE_PROGRAM}\n\n# {instruction}\n{DEFINITION}"
        return Problem(prompt=shown, program_prefix=DEFINITION, stop_strings=STOP_STRINGS, **shared)
    raise ArgumentError("form", "'instruct' or 'completion'", f"{form!r}")
