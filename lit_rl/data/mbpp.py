"""MBPP: short tasks in words with asserts, in all its file formats."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Unpack

from lit_rl.data.mbpp_plus import check_from_test_source, evalplus_comparison
from lit_rl.data.prompts import BLOCK_STOPS, PROGRAM_STOPS, Form, called_function_name, mbpp_style_prompt
from lit_rl.data.rows import Row, parse_rows, read_rows
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.execution.checks import AssertTests, CallTests
from lit_rl.signature_check import ValueLimit
from lit_rl.types import Problem

Part = Literal["prompt", "train", "validation", "test", "all", "none"]

PARTS: Mapping[str, range] = {
    "prompt": range(1, 11),
    "test": range(11, 511),
    "validation": range(511, 601),
    "train": range(601, 975),
}
"""MBPP's own parts, by task id."""

EXAMPLES = (2, 3, 4)
"""Task ids of the solved examples of few-shot prompts, from the part ``prompt``, as in the paper."""

FewShot = Annotated[int, ValueLimit(f"0 to {len(EXAMPLES)} examples", lambda count: 0 <= count <= len(EXAMPLES))]


@dataclass(frozen=True)
class ParsedMBPPRow:
    """One row of any format; ``before_public`` is source that the shown asserts need: imports and set-up."""

    number: int
    text: str
    public_tests: tuple[str, ...]
    program: str
    check: AssertTests | CallTests
    before_public: tuple[str, ...] = ()


class MBPP(TaskDataModule):
    r"""MBPP or MBPP+, from any of its files; the format is recognised by the fields of each row.

    ==============================  ===================================================  =======
    format                          recognised by                                        rows
    ==============================  ===================================================  =======
    full                            ``text``, ``test_setup_code``                        974
    sanitized                       ``prompt``, ``test_imports``                         427
    MBPP+ (EvalPlus OriginFmt)      ``test``: source                                     378
    ==============================  ===================================================  =======

    The splits are MBPP's, by task id in every format: prompt 1-10, test 11-510, validation 511-600, train
    601-974. The instruct form is a chat message, answered in one fenced block. The completion form is a docstring with
    task and tests; ``\nassert``, ``\nprint``, ``\nif`` or ``\n\"\"\"`` stops the completion. With examples, programs
    stand between ``[BEGIN]`` and ``[DONE]``, and ``[DONE]`` stops it. Line ends of stored programs become ``\n``.
    ``public_check`` holds the asserts that the prompt shows. Problems carry ``entry_point`` (the function that the
    tests call) and ``statement`` in ``fields``.

    Args:
        path: a file in one of the formats, or a hub data set such as ``google-research-datasets/mbpp`` or
            ``evalplus/mbppplus``.
        train_split: the part to train on; ``none`` for evaluation only.
        validation_split: the part to validate on; ``all`` is every row of the file.
        test_split: the part to test on.
        form: ``completion`` for base models, ``instruct`` for chat models.
        few_shot: solved examples in the prompt, 0 to 3: tasks 2, 3, 4, which the file must then hold.
        shown_tests: largest number of asserts in the prompt; the paper shows all 3, EvalPlus 1.
        timeout_seconds: CPU seconds for a program and its tests.
        name: the task's name in metrics if there are several validation tasks.
        **options: arguments of :class:`TaskDataModule`.

    Source:
        Austin et al. 2021, https://arxiv.org/abs/2108.07732; MBPP+: Liu et al. 2023,
        https://arxiv.org/abs/2305.01210
    """

    _hub_split = "prompt+test+validation+train"

    def __init__(
        self,
        path: str = "google-research-datasets/mbpp",
        *,
        train_split: Part = "train",
        validation_split: Part = "validation",
        test_split: Part = "test",
        form: Form = "instruct",
        few_shot: FewShot = 0,
        shown_tests: int = 3,
        timeout_seconds: float = 10.0,
        name: str = "mbpp",
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.path = path
        self.parts: dict[Split, Part] = {
            "train": train_split,
            "validation": validation_split,
            "test": test_split,
        }
        self.form: Form = form
        self.few_shot = few_shot
        self.shown_tests = shown_tests
        self.timeout_seconds = timeout_seconds
        self.name = name
        self._tasks: list[ParsedMBPPRow] = []

    def load_problems(self, split: Split) -> list[Problem]:
        part = self.parts[split]
        if part == "none":
            return []
        if not self._tasks:
            rows = read_rows(self.path, split=self._hub_split)
            self._tasks = list(parse_rows(rows, parse_mbpp_row))
        by_number = {task.number: task for task in self._tasks}
        examples = [by_number[number] for number in EXAMPLES[: self.few_shot]]
        chosen = [task for task in self._tasks if part == "all" or task.number in PARTS[part]]
        return [self._build_problem(task, examples) for task in chosen]

    def _build_problem(self, task: ParsedMBPPRow, examples: Sequence[ParsedMBPPRow]) -> Problem:
        # A problem is no example in its own prompt.
        solved = [(e.text, e.public_tests[: self.shown_tests], e.program) for e in examples if e.number != task.number]
        shown = task.public_tests[: self.shown_tests]
        stops = () if self.form == "instruct" else BLOCK_STOPS if solved else PROGRAM_STOPS
        check = replace(task.check, timeout_seconds=self.timeout_seconds)
        public = _join_source_parts(*task.before_public, *shown)
        objects = isinstance(check, AssertTests) and check.allow_objects
        return Problem(
            task_id=f"mbpp/{task.number}",
            prompt=mbpp_style_prompt(task.text, shown, self.form, solved),
            check=check,
            public_check=AssertTests(public, check.entry_point, self.timeout_seconds, allow_objects=objects)
            if shown
            else None,
            reference=task.program,
            stop_strings=stops,
            fields={
                "entry_point": check.entry_point or called_function_name(task.program, "\n".join(task.public_tests)),
                "statement": task.text,
            },
        )


class MBPPOptions(TaskOptions, total=False):
    """Arguments that :class:`MBPPPlus` passes on to :class:`MBPP` unchanged."""

    form: Form
    few_shot: FewShot
    timeout_seconds: float


class MBPPPlus(MBPP):
    """MBPP+ for evaluation: all 378 tasks, one assert in the prompt, as in EvalPlus; see :class:`MBPP`.

    Args:
        path: ``MbppPlus-OriginFmt.jsonl.gz`` or ``evalplus/mbppplus`` on the hub.
        **options: arguments of :class:`MBPP`.
    """

    _hub_split = "test"

    def __init__(
        self,
        path: str = "evalplus/mbppplus",
        *,
        train_split: Part = "none",
        validation_split: Part = "all",
        test_split: Part = "all",
        shown_tests: int = 1,
        name: str = "mbpp_plus",
        **options: Unpack[MBPPOptions],
    ) -> None:
        super().__init__(
            path,
            train_split=train_split,
            validation_split=validation_split,
            test_split=test_split,
            shown_tests=shown_tests,
            name=name,
            **options,
        )


def parse_mbpp_row(row: Row) -> ParsedMBPPRow:
    """Parse a row in any of the three formats."""
    if "plus_input" in row:
        raise row.error("plus_input", "holds inputs that no test has", "give MbppPlus-OriginFmt.jsonl.gz")
    number, program = row.integer("task_id"), _unix_newlines(row.text("code"))
    shown = tuple(_unix_newlines(test) for test in row.texts("test_list"))
    if "text" in row:
        setup = _unix_newlines(row.text("test_setup_code", default=""))
        test = _join_source_parts(setup, *shown)
        check = AssertTests(test, allow_objects=_tests_use_classes(program, test))
        return ParsedMBPPRow(number, row.text("text"), shown, program, check, (setup,))
    imports, text = tuple(row.texts("test_imports")), row.text("prompt")
    if "test" not in row:
        return ParsedMBPPRow(number, text, shown, program, AssertTests(_join_source_parts(*imports, *shown)), imports)
    function = called_function_name(program, "\n".join(shown))
    if function is None:
        raise row.error("test_list", "calls no function of code")
    written = check_from_test_source(
        _join_source_parts(*imports, row.text("test")), program, function, evalplus_comparison(number)
    )
    return ParsedMBPPRow(number, text, shown, program, written, imports)


def _tests_use_classes(program: str, test: str) -> bool:
    """Return whether tests build objects of the program's classes (three rows)."""
    classes = {node.name for node in ast.walk(ast.parse(program)) if isinstance(node, ast.ClassDef)}
    return any(isinstance(n, ast.Name) and n.id in classes for n in ast.walk(ast.parse(test))) if classes else False


def _join_source_parts(*parts: str) -> str:
    return "".join(f"{part.rstrip()}\n" for part in parts if part.strip())


def _unix_newlines(source: str) -> str:
    return source.replace("\r\n", "\n").replace("\r", "\n")
