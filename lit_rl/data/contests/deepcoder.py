"""DeepCoder: contest problems with tests on stdin or on a function, from four sources."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Unpack, cast

from lit_rl.data.contests.contest_tests import (
    FLOAT_TOLERANCE,
    ContestTest,
    NullInputOutputError,
    build_contest_check,
    checker_from_row,
    decode_hidden_tests,
    is_interactive_problem,
    needs_checker,
    normalise_tests,
    tests_shown_in_statement,
    tolerance_missing_in_check,
)
from lit_rl.data.examples_in_text import parameter_names
from lit_rl.data.prompts import contest_prompt
from lit_rl.data.rows import BadRows, Row, expand_path, parse_rows, read_rows
from lit_rl.data.task import Split, TaskDataModule, TaskOptions
from lit_rl.errors import UsageError
from lit_rl.execution.checks import Compare
from lit_rl.execution.program import extract_program
from lit_rl.types import Message, Problem

CONFIGURATIONS: Mapping[str, tuple[str, ...]] = {
    "primeintellect": ("train",),
    "taco": ("train",),
    "lcbv5": ("train", "test"),
    "codeforces": ("test",),
}
"""Configurations of the data set, and the splits that each one has."""

QUESTION_FIELDS = ("problem", "question", "prompt", "question_content", "description")
_MORE_OF_DESCRIPTION = {"input_format": "Input", "output_format": "Output"}
_ALL_TESTS = ("tests", "input_output", "test_cases", "official_tests")
TEST_FIELDS = (*_ALL_TESTS, "reward_model", "public_test_cases")

CONTEST_IMPORTS = """\
import bisect, collections, datetime, functools, heapq, itertools, math, operator, random, re, string
from bisect import *
from collections import *
from functools import *
from heapq import *
from itertools import *
from math import *
from operator import *
from string import *
from typing import *
from builtins import *
"""
"""Imports that judges such as LeetCode's put before a program; the last line restores ``pow`` and ``abs``."""

_MODULES = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json"
)
LIVE_CODE_BENCH_IMPORTS = (
    "".join(f"from {module} import *\n" for module in (*_MODULES.split(), "builtins", "typing"))
    + f"import {_MODULES.replace(' ', ', ')}\nsys.setrecursionlimit(50000)\n"
)
"""Imports that LiveCodeBench's judge puts before every program, also before one that reads stdin."""


class _SkipReason(Enum):
    """Reasons why rows do not become problems."""

    EMPTY = f"without statement ({' or '.join(QUESTION_FIELDS)}) or tests ({' or '.join(TEST_FIELDS)})"
    OUTSIDE = "whose contest_date is not between start_date and end_date"
    DIALOGUE = "whose programs would have to talk with another program, which no listed input and output can judge"
    NULL = "with a test whose input or output is null"
    HEADER = "whose checkers include a file (testlib.h?) that checker_files does not name"


class DeepCoder(TaskDataModule):
    """DeepCoder-Preview, and rows of LiveCodeBench, APPS, TACO and CodeContests+, as published or in verl's shape.

    The statement is the field ``problem``, ``question``, ``prompt``, ``question_content`` or ``description``. The tests
    are ``tests``, in APPS and TACO ``input_output`` (JSON text, list or dictionary), in CodeContests+ ``test_cases``,
    in open-r1's Codeforces ``official_tests``; or ``public_test_cases`` with ``private_test_cases`` (not unpickled), or
    ``reward_model.ground_truth``. The prompt follows LiveCodeBench's layout, with starter code if a row has any; a
    prompt of chat messages is kept unchanged. Functions are called on an instance of ``class Solution`` if starter code
    or reference has that class. The usual imports (:data:`CONTEST_IMPORTS`) are put before these
    programs, and the imports of LiveCodeBench's judge (:data:`LIVE_CODE_BENCH_IMPORTS`) before all programs of
    LiveCodeBench's rows. Rows without statement or tests, with a null output, or for interactive programs are left out
    with a warning; if no row is left, loading raises.

    A program in a row's field ``checker`` or ``generated_checker`` judges the output, see
    :func:`~lit_rl.data.contests.contest_tests.checker_from_row`. Without a checker, problems on stdin whose statements
    accept several answers are kept, and their number is logged. Values of functions are compared as APPS and TACO do:
    a key of a dict may be a number or its text, and if all of a row's values are stored in lists of one item, both that
    list and its item are right.

    ``public_check`` holds the tests that a row marks as public, or without such marks the tests whose input and output
    the statement shows as an example; a row without either has no public check.

    The output of whole programs is compared as ``compare`` says, unless the row or its ``metadata`` has the fields
    ``compare`` and ``tolerance``; see :class:`~lit_rl.execution.StdioTests`.

    ``fields`` carry ``statement``, ``entry_point`` (or ``None``) and ``needs_checker`` (whether the statement accepts
    several answers and the row has no checker).

    Args:
        dataset: the hub id, or a folder with one subfolder per configuration, whose files are named like splits.
        train: configurations to train on, or paths of files or folders.
        validation: likewise, to validate on.
        test: likewise, to test on; by default those of ``validation``.
        test_timeout_seconds: CPU seconds for one test.
        compare: default comparison of outputs; ``decimals`` is LiveCodeBench's.
        tolerance: tolerance of returned floats, and of printed numbers where they are compared by ``tokens``.
        checker_files: paths of the files that checkers include by their names, such as your ``testlib.h``.
        start_date: first day of contests to take, such as ``2024-08-01``, by the row's ``contest_date``; default all.
        end_date: last day; of that day's contests only those dated midnight are taken, as in LiveCodeBench.
        bad_rows: ``error`` stops at the first row that cannot be read, ``skip`` warns and continues.
        name: the task's name in metrics if there are several validation tasks.
        **options: arguments of :class:`TaskDataModule`.

    Source:
        https://huggingface.co/datasets/agentica-org/DeepCoder-Preview-Dataset
        LiveCodeBench: Jain et al. 2024, https://arxiv.org/abs/2403.07974
    """

    def __init__(
        self,
        dataset: str = "agentica-org/DeepCoder-Preview-Dataset",
        *,
        train: Sequence[str] = ("primeintellect", "taco", "lcbv5"),
        validation: Sequence[str] = ("codeforces", "lcbv5"),
        test: Sequence[str] | None = None,
        test_timeout_seconds: float = 6.0,
        compare: Compare = "decimals",
        tolerance: float = FLOAT_TOLERANCE,
        checker_files: Sequence[str] = (),
        start_date: str | None = None,
        end_date: str | None = None,
        bad_rows: BadRows = "error",
        name: str = "deepcoder",
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.dataset = dataset
        self.sources: dict[Split, tuple[str, ...]] = {
            "train": tuple(train),
            "validation": tuple(validation),
            "test": tuple(validation if test is None else test),
        }
        self.test_timeout_seconds = test_timeout_seconds
        self.compare: Compare = compare
        self.tolerance = tolerance
        self.checker_files = tuple(checker_files)
        self.days = (
            datetime.min if start_date is None else _parse_day(start_date),
            datetime.max if end_date is None else _parse_day(end_date),
        )
        self.bad_rows: BadRows = bad_rows
        self.name = name
        for split, sources in self.sources.items():
            for source in sources:
                splits = CONFIGURATIONS.get(source, (_stored_split_name(split),))
                if _stored_split_name(split) not in splits:
                    raise UsageError(
                        f"DeepCoder's configuration {source!r} has {' and '.join(splits)} rows only, no "
                        f"{_stored_split_name(split)} rows"
                    )

    def load_problems(self, split: Split) -> list[Problem]:
        """Return the problems of a split's sources, one source after the other; rows that are left out are counted."""
        problems = []
        files = {path.name: path.read_text() for path in map(expand_path, self.checker_files)}
        for source in self.sources[split]:
            rows, label = f"{split} rows of {source}", Path(source).name.split(".")[0]
            parsed = parse_rows(
                self._read_source_rows(source, _stored_split_name(split)),
                partial(self._build_problem_or_skip, files),
                self.bad_rows,
            )
            found = list(parsed)
            kept = [replace(p, task_id=f"{label}/{n}") for n, p in enumerate(found) if isinstance(p, Problem)]
            left_out = Counter(reason for reason in found if isinstance(reason, _SkipReason))
            if not kept:
                reasons = "; or ".join(reason.value for reason in left_out)
                raise UsageError(f"{self.name}: all {len(found)} {rows} are left out, as rows {reasons}")
            for reason, count in left_out.items():
                warnings.warn(f"left out {count} of {len(found)} {rows} {reason.value}", stacklevel=2)
            if asking := sum(problem.fields["needs_checker"] for problem in kept):
                warnings.warn(
                    f"{asking} of {len(kept)} problems in the {rows} ask for any of several answers; without a checker "
                    "program an answer passes only if it is the one output listed",
                    stacklevel=2,
                )
            denied = [(one, tolerance_missing_in_check(one.fields["statement"], one.check)) for one in kept]
            strict = [f"{one.task_id} ({error:g})" for one, error in denied if error is not None]
            if strict:
                warnings.warn(
                    f"{len(strict)} of {len(kept)} problems in the {rows} allow an error that their check forbids, "
                    f"such as {', '.join(strict[:3])}: set tolerance to that, and for printed numbers compare: tokens",
                    stacklevel=2,
                )
            problems += kept
        return problems

    def _read_source_rows(self, source: str, split: str) -> Iterator[Row]:
        if source not in CONFIGURATIONS:
            yield from read_rows(source, split=split)
        elif (folder := expand_path(self.dataset) / source).is_dir():
            yield from read_rows(str(folder), split=split)
        else:
            yield from read_rows(self.dataset, subset=source, split=split)

    def _build_problem_or_skip(self, files: Mapping[str, str], row: Row) -> Problem | _SkipReason:
        first, last = self.days
        if (first, last) != (datetime.min, datetime.max) and not first <= _parse_day(row.text("contest_date")) <= last:
            return _SkipReason.OUTSIDE
        question, messages = _parse_statement_and_messages(row)
        metadata = row.json("metadata") if row.values.get("metadata") else {}
        own = replace(row, values={**metadata, **{k: v for k, v in row.values.items() if v is not None}})
        try:
            tests, public = _parse_all_and_public_tests(row, metadata.get("func_name"))
        except NullInputOutputError:
            return _SkipReason.NULL
        if not question or not tests:
            return _SkipReason.EMPTY
        if tests[0].function is None and (row.values.get("interaction_format") or is_interactive_problem(question)):
            return _SkipReason.DIALOGUE
        try:
            checker = checker_from_row(own.values, files)
        except KeyError:
            return _SkipReason.HEADER
        solutions = row.json("solutions", list[str]) if row.values.get("solutions") else []
        found = extract_program(solutions[0]) if solutions else None
        starter, solution = row.text("starter_code", default=""), found.source if found else None
        function = tests[0].function
        public = public or tests_shown_in_statement(question, tests, parameter_names(starter, function or ""))
        in_class = any("class Solution" in source for source in (starter, solution or ""))
        check_of = partial(
            build_contest_check,
            timeout_seconds=self.test_timeout_seconds,
            in_class=in_class,
            compare=cast(Compare, own.text("compare", default=self.compare)),
            tolerance=own.float_number("tolerance", default=self.tolerance),
            checker=checker,
        )
        prefix = CONTEST_IMPORTS if function else ""
        if "public_test_cases" in row:
            prefix = LIVE_CODE_BENCH_IMPORTS
        return Problem(
            task_id="",
            prompt=messages or contest_prompt(question, starter, function),
            check=check_of(tests),
            public_check=check_of(public) if public else None,
            program_prefix=prefix,
            starter_code=starter,
            reference=solution and prefix + solution,
            fields={
                "statement": question,
                "entry_point": function,
                "needs_checker": function is None and checker is None and needs_checker(question),
            },
        )


def _parse_day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


def _stored_split_name(split: Split) -> str:
    return "train" if split == "train" else "test"


def _parse_statement_and_messages(row: Row) -> tuple[str, tuple[Message, ...]]:
    """Return the statement, and the prompt's messages if the row has a whole chat."""
    name = next((field for field in QUESTION_FIELDS if field in row), None)
    if name is None:
        return "", ()
    if not isinstance(row.values[name], list):
        more = _MORE_OF_DESCRIPTION.items() if name == "description" else ()
        parts = (f"\n\n{title}\n\n{row.text(field).strip()}" for field, title in more if row.values.get(field))
        return row.text(name).strip() + "".join(parts), ()
    messages = tuple({"role": str(m["role"]), "content": str(m["content"])} for m in row.values[name])
    return "\n".join(m["content"] for m in messages if m["role"] == "user"), messages


def _parse_all_and_public_tests(row: Row, function: str | None) -> tuple[list[ContestTest], list[ContestTest]]:
    """Return all tests of a row, and the tests that the row itself calls public."""
    for name in _ALL_TESTS:
        if row.values.get(name):  # APPS has empty texts where a problem has no tests
            return normalise_tests(row.json(name), function), []
    if "reward_model" in row:
        truth = Row(row.source, row.number, row.json("reward_model")).json("ground_truth")
        return normalise_tests(truth, function), []
    public = normalise_tests(row.json("public_test_cases", default=[]), function)
    hidden = row.text("private_test_cases", default="")
    return public + (normalise_tests(decode_hidden_tests(hidden), function) if hidden else []), public
