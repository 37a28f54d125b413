"""HumanEval: 164 Python functions to finish from signature and docstring."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Unpack

from lit_rl.data.examples_in_text import find_call_examples, parameter_names
from lit_rl.data.mbpp_plus import check_from_test_source
from lit_rl.data.prompts import FUNCTION_STOPS, Form, chat_messages, request_to_finish_function
from lit_rl.data.rows import Row, parse_rows, read_rows
from lit_rl.data.task import SingleFileTask, SplitName, TaskOptions
from lit_rl.errors import UsageError
from lit_rl.execution.checks import AssertTests, CallTests
from lit_rl.types import Problem

EXAMPLE_TOLERANCE = 1e-6
"""Tolerance within which floats count as equal to those of a docstring's example."""

WRONG_EXAMPLES = frozenset(f"HumanEval/{number}" for number in (47, 116, 130, 148))
"""Rows whose references and tests contradict the examples in their docstrings."""


class HumanEval(SingleFileTask):
    r"""HumanEval, for evaluation or split into a training and a validation part.

    ==========  ===============  ================================
    ``split``   trained on       validated, tested on
    ==========  ===============  ================================
    ``all``     nothing          all 164 problems
    ``train``   131 of them      the other 33
    ``test``    nothing          the same 33
    ==========  ===============  ================================

    Rows have ``task_id``, ``prompt``, ``entry_point``, ``canonical_solution`` and ``test``. HumanEval+ is read from its
    OriginFmt file, or ``evalplus/humanevalplus`` on the hub, whose ``test`` has all inputs. In completion
    form the program begins with the original prompt, and the stop strings are ``\nclass``, ``\ndef``, ``\n#``,
    ``\nif`` and ``\nprint``. In instruct form the prompt is a chat message, and the program is the fenced block of the
    answer, put after the prompt's imports and helper functions, which the tests use. ``reference`` is the whole
    program: prompt and canonical solution. ``public_check`` holds the docstring's examples that are calls with
    values (146 of the 164 rows have some, see :func:`~lit_rl.data.examples_in_text.find_call_examples`). Problems carry
    ``entry_point`` and ``statement`` in ``fields``.

    Args:
        path: ``HumanEval.jsonl.gz``, ``HumanEvalPlus-OriginFmt.jsonl.gz`` or a hub data set such as
            ``openai/openai_humaneval``.
        split: see the table.
        form: ``completion`` for base models, ``instruct`` for chat models.
        timeout_seconds: CPU seconds for a program and its tests.
        name: the task's name in metrics if there are several validation tasks.
        **options: arguments of :class:`TaskDataModule`.

    Source:
        Chen et al. 2021, https://arxiv.org/abs/2107.03374
    """

    def __init__(
        self,
        path: str = "openai/openai_humaneval",
        *,
        split: SplitName = "all",
        form: Form = "completion",
        timeout_seconds: float = 10.0,
        name: str = "humaneval",
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.path = path
        self.split: SplitName = split
        self.form: Form = form
        self.timeout_seconds = timeout_seconds
        self.name = name

    def read_problems(self) -> list[Problem]:
        return list(parse_rows(read_rows(self.path, split="test"), self._build_problem))

    def _build_problem(self, row: Row) -> Problem:
        prompt, entry_point = row.text("prompt"), row.text("entry_point")
        ast.parse(f"{prompt}\n    pass\n")  # raises if no completion can make a program of the prompt
        instruct = self.form == "instruct"
        return Problem(
            task_id=row.text("task_id"),
            prompt=chat_messages(request_to_finish_function(prompt)) if instruct else prompt,
            check=replace(_build_check(row), timeout_seconds=self.timeout_seconds),
            public_check=self._build_public_check(row),
            program_prefix=source_before_function(prompt, entry_point) if instruct else prompt,
            starter_code=prompt,
            reference=prompt + row.text("canonical_solution"),
            stop_strings=() if instruct else FUNCTION_STOPS,
            fields={"entry_point": entry_point, "statement": prompt},
        )

    def _build_public_check(self, row: Row) -> CallTests | None:
        prompt, entry_point = row.text("prompt"), row.text("entry_point")
        if row.text("task_id") in WRONG_EXAMPLES:
            return None
        shown = prompt.removeprefix(source_before_function(prompt, entry_point)).rstrip()
        shown = shown.removesuffix('"""').removesuffix("'''")
        examples = find_call_examples(shown, entry_point, parameter_names(prompt, entry_point))
        cases = tuple((example.arguments, example.expected) for example in examples)
        return CallTests(cases, entry_point, self.timeout_seconds, EXAMPLE_TOLERANCE) if cases else None


def _build_check(row: Row) -> AssertTests | CallTests:
    prompt, entry_point, test = row.text("prompt"), row.text("entry_point"), row.text("test")
    if "plus_input" in row:
        raise row.error("plus_input", "holds inputs that the field test lacks", "give HumanEvalPlus-OriginFmt.jsonl.gz")
    if "assertion(candidate(" in test:
        return check_from_test_source(test, prompt + row.text("canonical_solution"), entry_point)
    test = test.replace("import numpy as np\n", "", 1)  # EvalPlus imports it for helpers that this test does not use
    # Three tests judge an answer by a helper that the prompt defines. A program may redefine that
    # helper wrongly, and the verdict must not depend on that.
    helpers = source_before_function(prompt, entry_point)
    defined = {node.name for node in ast.parse(helpers).body if isinstance(node, ast.FunctionDef)}
    used = {node.id for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Name)}
    return AssertTests(helpers + test if defined & used else test, entry_point)


def source_before_function(source: str, name: str) -> str:
    """Return the imports and helpers before the definition of a function."""
    definition = re.search(rf"^(async +)?def +{re.escape(name)}\b", source, flags=re.MULTILINE)
    if definition is None:
        raise UsageError(f"the source defines no function {name}; fix or remove the row")
    return source[: definition.start()]
