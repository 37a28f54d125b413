"""OpenCodeInstruct: millions of instructions with solutions and asserts, filtered and sampled."""

from __future__ import annotations

import ast
import hashlib
import heapq
import json
from typing import Unpack

from lit_rl.data.prompts import called_function_name, chat_messages, fenced_block
from lit_rl.data.rows import BadRows, Row, parse_rows, read_rows
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.execution.checks import AssertTests
from lit_rl.execution.program import extract_program
from lit_rl.signature_check import check_and_convert
from lit_rl.types import Problem


class OpenCodeInstruct(TaskDataModule):
    """A fixed random subset of the problems of OpenCodeInstruct that pass the filters.

    Rows are drawn by a hash of the seed and the row's ``id``, so that the subset depends neither on the order of
    the rows nor on the number of files. The rows are read once, one by one; memory holds the subset only.

    Rows without tests or with a lower ``average_test_score`` are left out. The prompt has the task and up to
    ``shown_tests`` of its asserts, since tasks rarely name the function. ``reference`` is the fenced block of the
    stored solution; ``public_check`` holds the shown asserts. ``fields`` carry ``statement``, ``entry_point`` (the
    function of the reference that the asserts call) and ``domain``.

    Args:
        path: a file, a folder of files, or the hub id; 6.9 GB in Parquet.
        num_problems: problems to train on.
        num_validation_problems: problems to validate and test on, disjoint from the training problems.
        subset_seed: seed of the draw.
        min_test_score: lowest share of its own tests that the stored solution passed, in [0, 1].
        shown_tests: largest number of asserts in the prompt.
        timeout_seconds: CPU seconds for a program and its tests.
        bad_rows: ``error`` stops at the first row that cannot be read, ``skip`` warns and continues.
        name: the task's name in metrics if there are several validation tasks.
        **options: arguments of :class:`TaskDataModule`.

    Source:
        https://huggingface.co/datasets/nvidia/OpenCodeInstruct; Ahmad et al. 2025,
        https://arxiv.org/abs/2504.04030
    """

    def __init__(
        self,
        path: str = "nvidia/OpenCodeInstruct",
        *,
        num_problems: int = 5000,
        num_validation_problems: int = 0,
        subset_seed: int = 0,
        min_test_score: float = 1.0,
        shown_tests: int = 1,
        timeout_seconds: float = 10.0,
        bad_rows: BadRows = "error",
        name: str = "open_code_instruct",
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.path = path
        self.num_problems = num_problems
        self.num_validation_problems = num_validation_problems
        self.subset_seed = subset_seed
        self.min_test_score = min_test_score
        self.shown_tests = shown_tests
        self.timeout_seconds = timeout_seconds
        self.bad_rows: BadRows = bad_rows
        self.name = name
        self._drawn: list[Problem] = []

    def load_problems(self, split: Split) -> list[Problem]:
        """Return the first ``num_problems`` of the draw to train on, or the rest to validate and test on."""
        if not self._drawn:
            kept = parse_rows(read_rows(self.path), self._row_if_wanted, self.bad_rows)
            count = self.num_problems + self.num_validation_problems
            # A random subset that depends on the seed and the rows' ``id`` only, in a random but fixed order.
            rows = heapq.nsmallest(
                count,
                (row for row in kept if row is not None),
                key=lambda row: hashlib.sha256(f"{self.subset_seed}/{row.text('id')}".encode()).digest(),
            )
            self._drawn = list(parse_rows(rows, self._build_problem, self.bad_rows))
        if split == "train":
            return self._drawn[: self.num_problems]
        return self._drawn[self.num_problems :]

    def _row_if_wanted(self, row: Row) -> Row | None:
        if row.float_number("average_test_score") < self.min_test_score:
            return None
        return row if _parse_asserts(row) else None

    def _build_problem(self, row: Row) -> Problem:
        task, asserts, solution = row.text("input"), _parse_asserts(row), extract_program(row.text("output"))
        reference = solution.source if solution else None
        shown = "\n".join(asserts[: self.shown_tests])
        asked = f"{task.strip()}\n\nAnswer with one fenced block of Python."
        return Problem(
            task_id=row.text("id"),
            prompt=chat_messages(asked + (f" It has to pass tests such as:\n\n{fenced_block(shown)}" if shown else "")),
            check=AssertTests("\n".join(asserts) + "\n", timeout_seconds=self.timeout_seconds),
            public_check=AssertTests(f"{shown}\n", timeout_seconds=self.timeout_seconds) if shown else None,
            reference=reference,
            fields={
                "statement": task,
                "entry_point": called_function_name(reference or "", "\n".join(asserts)),
                "domain": row.text("domain", default=""),
            },
        )


def _parse_asserts(row: Row) -> list[str]:
    stored = row.text("unit_tests", default="[]")
    try:
        tests = json.loads(stored)
    except ValueError:
        # Some rows hold the list as Python writes it.
        tests = ast.literal_eval(stored)
    return [test.strip() for test in check_and_convert(tests, list[str], "unit_tests") if test.strip()]
