"""HumanEval and MBPP in C++, Go, Java, JavaScript and Rust: HumanEval-X and MultiPL-E."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Unpack

from lightning_utilities.core.rank_zero import rank_zero_info

from lit_rl.data.prompts import Form, chat_messages, fenced_block
from lit_rl.data.rows import Row, parse_rows, read_rows
from lit_rl.data.task import SingleFileTask, SplitName, TaskOptions
from lit_rl.execution.checks import Language, UnitTests
from lit_rl.execution.languages import LANGUAGES
from lit_rl.types import Problem

STOPS: dict[Language, tuple[str, ...]] = {
    "cpp": ("\nint main", "\n#include", "\n/*"),
    "go": ("\nfunc ", "\npackage ", "\nimport ", "\n/*"),
    "java": ("\nclass ", "\npublic class", "\nimport ", "\n/*"),
    "javascript": ("\nfunction ", "\nconst ", "\nconsole.log", "\n/*"),
    "rust": ("\nfn main", "\n#[", "\nmod "),
}
"""Strings that end a function's completion, since they begin something else. Closing braces belong to the function."""

_CRATES = re.compile(r"^use (?:rand|regex|md5)\b[^\n]*\n?", re.MULTILINE)
_FOREIGN = re.compile(r"\brand::|\bboost/|\bopenssl/")
_GO_HEAD = re.compile(r'^package[^\n]*\n|^import (?:\([^)]*\)|"[^"\n]*")\s*', re.MULTILINE)
_RUST_TEST = re.compile(r"^[ \t]*#\[test\]", re.MULTILINE)
_GO_SETUP = 'package main\n\nimport (\n\t"testing"\n)\n'


@dataclass(frozen=True)
class _TranslatedRow:
    task_id: str
    beginning: str  # source up to the function's opening brace, its description included
    test: str  # as ``UnitTests`` wants it; empty if the row tests nothing
    entry_point: str
    setup: str = ""
    solution: str | None = None  # the rest of a correct program


class TranslatedTask(SingleFileTask):
    """Base of tasks whose rows are functions to finish in one of several languages, with tests in that language.

    In completion form the row's prompt begins the program, and the completion ends with the function's closing brace
    (in Java also the class's). In instruct form a message asks for the whole source in one fenced block.

    Args:
        path: a file of rows in this language.
        language: language of the rows: ``cpp``, ``go``, ``java``, ``javascript`` or ``rust``.
        split: ``all`` only measures, on all rows; ``train`` trains on four fifths and measures on the other fifth;
            ``test`` only measures, on that fifth.
        form: ``completion`` for base models, ``instruct`` for chat models.
        timeout_seconds: CPU seconds for a program and its tests.
        name: the task's name in metrics if there are several validation tasks; by default class and language.
        **options: arguments of :class:`TaskDataModule`.
    """

    def __init__(
        self,
        path: str,
        language: Language,
        *,
        split: SplitName = "all",
        form: Form = "completion",
        timeout_seconds: float = 10.0,
        name: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.path = path
        self.language: Language = language
        self.split: SplitName = split
        self.form: Form = form
        self.timeout_seconds = timeout_seconds
        self.name = name or f"{type(self).__name__.lower()}_{language}"

    def read_problems(self) -> list[Problem]:
        """Return all problems, in the order of the file; rows that test nothing are left out and counted."""
        rows = list(parse_rows(read_rows(self.path, split="test"), self._parse_row))
        tested = [row for row in rows if row.test]
        if len(tested) < len(rows):
            names = ", ".join(row.task_id for row in rows if not row.test)
            rank_zero_info(
                f"{self.name}: {len(rows) - len(tested)} of {len(rows)} rows left out, since they test nothing: {names}"
            )
        return [self._build_problem(row) for row in tested]

    @abstractmethod
    def _parse_row(self, row: Row) -> _TranslatedRow: ...

    def _require_language(self, row: Row, field: str, named: str, language: str) -> None:
        if language != self.language:
            fault = f"is a row in {named}, and the task's language is {self.language}"
            raise row.error(field, fault, "give a file in the task's language, or set `language`")

    def _build_problem(self, row: _TranslatedRow) -> Problem:
        instruct, beginning = self.form == "instruct", row.beginning
        request = (
            f"Finish this {LANGUAGES[self.language].title} function. Answer with the whole source, with imports and "
            f"all that is given here, in one fenced block.\n\n{fenced_block(beginning, self.language)}"
        )
        return Problem(
            task_id=row.task_id,
            prompt=chat_messages(request) if instruct else beginning,
            check=UnitTests(row.test, self.language, row.setup, row.entry_point, self.timeout_seconds),
            program_prefix="" if instruct else beginning,
            starter_code=beginning,
            reference=None if row.solution is None else beginning + row.solution,
            stop_strings=() if instruct else STOPS[self.language],
            fields={"entry_point": row.entry_point, "statement": beginning},
        )


class HumanEvalX(TranslatedTask):
    """HumanEval-X: the 164 problems of HumanEval, translated and solved by hand.

    Rows have ``task_id``, ``prompt``, ``declaration``, ``canonical_solution`` and ``test``, those of Go also ``import``
    and ``test_setup``. Rows whose tests are commented out, or need a library that the compiler does not bring, are left
    out: 3 in C++, 4 in Rust. Go's imports are left out of the prompt, because the judge, like HumanEval-X's, imports
    what a program uses. Rust's crates are left out, too.

    Source:
        Zheng et al. 2023, https://arxiv.org/abs/2303.17568
    """

    def _parse_row(self, row: Row) -> _TranslatedRow:
        named = row.text("task_id").partition("/")[0]
        self._require_language(row, "task_id", named, named.lower())
        beginning, setup = row.text("prompt"), ""
        declaration, test = row.text("declaration"), row.text("test")
        if self.language == "cpp":
            setup = "\n".join(re.findall(r"^#include[^\n]*", declaration, re.MULTILINE))
        elif self.language == "go":
            beginning, setup = _GO_HEAD.sub("", beginning), row.text("test_setup")
        elif self.language == "rust":
            beginning += _CRATES.sub("", declaration)
            test = test if _RUST_TEST.search(re.sub(r"/\*.*?\*/", "", test, flags=re.DOTALL)) else ""
        if _FOREIGN.search(setup + beginning + test):
            test = ""
        name = _unfinished_function_name(declaration, row)
        return _TranslatedRow(row.text("task_id"), beginning, test, name, setup, row.text("canonical_solution"))


class MultiPLE(TranslatedTask):
    """MultiPL-E: HumanEval and MBPP, translated by a program.

    Rows are those of MultiPL-E's ``prompts/*.jsonl``: ``name``, ``language``, ``prompt`` and ``tests``; there are no
    solutions. The tests in these rows close the function themselves; in lit_rl the completion closes it. Rows of Java
    that use ``javatuples`` are left out.

    Source:
        Cassano et al. 2022, https://arxiv.org/abs/2208.08227
    """

    _NAMES: ClassVar[dict[str, Language]] = {"js": "javascript", "rs": "rust", "go_test.go": "go"}

    def _parse_row(self, row: Row) -> _TranslatedRow:
        named = row.text("language")
        self._require_language(row, "language", named, self._NAMES.get(named, named))
        beginning, test, setup = row.text("prompt"), row.text("tests"), ""
        if self.language == "go":
            beginning, setup = _GO_HEAD.sub("", beginning).lstrip("\n"), _GO_SETUP
        elif self.language != "javascript":
            test = re.sub(r"\A\s*\}[ \t]*\n", "", test)
        if self.language == "cpp":
            test = f"#undef NDEBUG\n#include <assert.h>\n{test}"
        if self.language == "java":
            beginning = re.sub(r"^import org\.javatuples[^\n]*\n", "", beginning, flags=re.MULTILINE)
            needs_tuples = re.search(r"\b(?:Pair|Triplet|Quartet|Quintet)\b", beginning + test)
            test = "" if needs_tuples else f"class Main extends Problem {{\n{test}"
        elif self.language == "rust":
            test = re.sub(r"^fn main\(", "#[test]\nfn tests_of_row(", test, count=1, flags=re.MULTILINE)
        return _TranslatedRow(row.text("name"), beginning, test, _unfinished_function_name(beginning, row), setup)


def _unfinished_function_name(beginning: str, row: Row) -> str:
    line = beginning.rstrip().removesuffix("{").rstrip().rpartition("\n")[2]
    found = re.search(r"\b(?:const|let|var)\s+(\w+)\s*=|(\w+)\s*(?:<[^<>()]*>)?\s*\(", line)
    if found is None:
        raise row.error("prompt", f"needs a function that begins on the last line, got {line!r:.60}")
    return found[1] or found[2]
