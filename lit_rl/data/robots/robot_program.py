"""Preparation of a completion as a robot program: pure functions on text.

Source:
    post-processing of RoboEval and Robo-Instruct: Hu et al. 2024, https://arxiv.org/abs/2311.11183, and
    Hu et al. 2024, https://arxiv.org/abs/2405.20179
"""

from __future__ import annotations

import ast
import random
import re
import warnings
from dataclasses import dataclass

DEFINITION = "def task_program():\n"
FENCE = "```"
_MAX_EXPLORED_LENGTH = 20_000  # characters; a tree takes hundreds of times the memory of its source

_DOUBLE_QUOTED = re.compile(r'".*?"')
_PYTHON_FENCE = re.compile(r"```(?:python|py)[ \t]*\r?\n")
_BARE_FENCE = re.compile(r"```[ \t]*\r?\n")
_DEFINED = re.compile(r"def task_program\(\):\r?\n")
_COLUMN_ZERO = re.compile(r"\n(?=\S)")


@dataclass(frozen=True)
class RobotProgram:
    """A program as it is run.

    Args:
        source: defines ``task_program``.
        line_offset: line k of ``source`` is line ``k + line_offset`` of the text it was made from.
    """

    source: str
    line_offset: int = 0


def extract_runnable_program(text: str) -> RobotProgram:
    r"""Return the runnable program in a completion. Preparing twice changes nothing more.

    It is the inside of the first Python fence, if there is a fence, with ``def task_program():`` put in front if that
    line is missing. It is cut at the first later line in column 0, and double-quoted strings become lower case.

    Example:
        >>> extract_runnable_program('    go_to("Kitchen")\nthat is all')
        RobotProgram(source='def task_program():\n    go_to("kitchen")', line_offset=-1)
    """
    start, end = code_span(text)
    offset = text[:start].count("\n")
    code = text[start:end].replace("\r\n", "\n")
    if DEFINITION not in code:
        code, offset = DEFINITION + code, offset - 1
    body = code.index(DEFINITION) + len(DEFINITION)
    left = _COLUMN_ZERO.search(code, body - 1)
    code = code if left is None else code[: left.start()]
    return RobotProgram(lower_double_quoted(code), offset)


def code_span(text: str) -> tuple[int, int]:
    r"""Return start and end of the inside of the first Python fence, or of the whole text if there is no fence.

    A bare fence opens a block only before the program; after the program it closes one.

    Example:
        >>> code_span("So:\n```python\nsay('hi')\n```\n")
        (14, 24)
    """
    head = _DEFINED.split(text, maxsplit=1)[0]
    fence = _PYTHON_FENCE.search(text) or _BARE_FENCE.search(head)
    if fence is None:
        return 0, len(text)
    end = text.find(FENCE, fence.end())
    return fence.end(), len(text) if end < 0 else end


def lower_double_quoted(source: str) -> str:
    """Return the source with double-quoted strings on one line in lower case, also in f-strings and comments.

    Example:
        >>> print(lower_double_quoted('''say("Hi", 'There')'''))
        say("hi", 'There')
    """
    return _DOUBLE_QUOTED.sub(lambda found: found.group(0).lower(), source)


def randomise_membership_tests(source: str, rng: random.Random, probability: float = 0.8) -> str:
    """Return the program with tests such as ``"x" in rooms`` replaced by True or False, or kept, at random.

    An invented world has no rooms with the names that a program looks for, so the branches behind such tests would
    never run. A program that is too long or too deep to be rewritten stays unchanged, and so does any program with
    probability ``1 - probability``.
    """
    if rng.random() >= probability or len(source) > _MAX_EXPLORED_LENGTH:
        return source
    explorer = _MembershipRandomiser(rng)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the program's style, which is not judged
            changed = explorer.visit(ast.parse(source))
        return ast.unparse(ast.fix_missing_locations(changed)) if explorer.num_replaced else source
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Not Python, or Python that cannot be rewritten here: an expression of very many terms, a number of very
        # many digits. The program runs unchanged.
        return source


class _MembershipRandomiser(ast.NodeTransformer):
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.num_replaced = 0

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Replace a search for a string literal in a variable, or in what the robot says about rooms."""
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
            return node
        if not isinstance(node.left, ast.Constant) or not isinstance(node.left.value, str):
            return node
        container = node.comparators[0]
        if isinstance(container, ast.Call):
            name = getattr(container.func, "id", None)
            is_looked_for = name in ("get_all_rooms", "get_current_location") and not container.args
        else:
            is_looked_for = isinstance(container, ast.Name) and "ask" not in f"{node.left.value} {container.id}"
        chosen = self.rng.choice((True, False, None)) if is_looked_for else None
        self.num_replaced += chosen is not None
        return node if chosen is None else ast.Constant(chosen)
