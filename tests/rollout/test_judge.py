"""From completions to judgements: the right program, run once, and never a zero for an infrastructure failure."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from answer_shapes import ANSWER, SHAPES, py
from support.ill_runs import Judged
from support.slow_cases import slow_but
from support.tiny_models import loaded

from lit_rl.engines.in_process import InProcess
from lit_rl.execution import (
    AssertTests,
    CallTests,
    Check,
    Outcome,
    ReferenceText,
    StdioTests,
    TokenTarget,
    Verdict,
    program,
)
from lit_rl.execution.checks import UNIT_TESTS, UnitTests
from lit_rl.execution.languages import LANGUAGES, Language
from lit_rl.execution.program import WantedProgram, extract_program
from lit_rl.models.sampling import RandomKey
from lit_rl.modules.sft import completion_to_imitate
from lit_rl.rollout import (
    InfrastructureError,
    Judge,
    Rollout,
    RolloutCollector,
    RolloutConfig,
    find_program,
    sample_rows,
)
from lit_rl.types import Judgement, Problem, Program, Sampling

CHECK = AssertTests("assert f() == 1")


class Recording(Judged):
    """Passes everything; remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.programs: list[str] = []
        self.checks: list[Check] = []

    def submit(self, program: str, check: Check) -> Future[Outcome]:
        self.programs.append(program)
        self.checks.append(check)
        return super().submit(program, check)


def test_a_fenced_block_is_the_program_and_its_place_is_in_bytes() -> None:
    found = find_program(Problem("t", "p", CHECK), "é: here\n```python\nx = 1\n```\n")
    assert (found.source, found.fenced, found.prefix_lines) == ("x = 1\n", True, 0)
    assert "é: here\n```python\nx = 1\n```\n".encode()[found.start : found.end] == b"x = 1\n"


def test_in_completion_form_the_text_goes_on_where_the_prompt_ended() -> None:
    prefix = 'def f():\n    """One."""\n'
    found = find_program(Problem("t", prefix, CHECK, program_prefix=prefix), "    return 1\n")
    assert found.source == prefix + "    return 1\n"
    assert found.prefix_lines == 2
    assert (found.start, found.end, found.fenced) == (0, 13, False)


FUTURE = '# -*- coding: utf-8 -*-\n"""É."""; from __future__ import annotations; a = 1\n'
SEVERAL = (
    "from __future__ import (annotations,\n    division)  # both\nfrom __future__ import \\\n    generators\na = 1\n"
)
PREFIXES = [
    "import math",
    "import math\n\n@print\ndef helper(x: math): ...\n",
    '"""Doc."""\nfrom __future__ import generators\n',
]


@pytest.mark.parametrize("answer", [FUTURE, SEVERAL.replace("\n", "\r\n"), f"'Doc.'\n{SEVERAL}"])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_future_imports_go_before_the_prefix_and_every_line_and_column_stays(prefix: str, answer: str) -> None:
    text = f"```python\n{answer}b: Unknown = 2\nraise ValueError\n```"
    found = find_program(Problem("t", "p", CHECK, program_prefix=prefix), text)
    with pytest.raises(ValueError) as error:
        exec(compile(found.source, "program", "exec", dont_inherit=True), {"print": lambda function: function})
    line = error.traceback[-1].lineno + 1 - found.prefix_lines
    written = text.encode()[found.start : found.end].decode()
    assert written.splitlines()[line - 1] == "raise ValueError"
    kept = found.source.encode()[-(found.end - found.start) :]
    assert kept.count(b"\n") == written.count("\n") and kept.index(b"a = 1") == written.encode().index(b"a = 1")


ANSWERED = "```python\ndef f():\n    return 1\n```\nUsage:\n```python\nprint(f())\n```\n"


@pytest.mark.parametrize(
    "problem",
    [
        Problem("t", "p", AssertTests("def check(f): assert f() == 1", "f")),
        Problem("t", "p", CallTests((((), 1),), "f")),
        Problem("t", "p", CHECK, fields={"entry_point": "f"}),
        Problem("t", "p", ReferenceText("def f(): return 1", "python"), fields={"entry_point": "f"}),
    ],
)
def test_the_block_that_defines_the_entry_point_is_the_program(problem: Problem) -> None:
    found = find_program(problem, ANSWERED)
    assert found.source == "def f():\n    return 1\n"
    strict = find_program(replace(problem, extraction="last_block"), ANSWERED)
    assert strict.source == "print(f())\n"


ITS_OWN_TESTS = """\
from typing import List
LIMIT = 3
other = [LIMIT]
@staticmethod
def helper(x):
    return x + LIMIT
def f(x):
    return helper(x)
# A comment.
def test_f():
    assert f(1) == 0
test_f()
"""


@pytest.mark.parametrize("rest", ["", "assert f(", "def unfinished(:\n    f()\n"])
def test_definitions_leave_out_what_the_entry_point_does_not_need(rest: str) -> None:
    """Lines keep their numbers, because credit goes to lines; of a program cut off in mid-statement the rest goes."""
    problem = Problem("t", "p", CallTests((((1,), 4),), "f"), extraction="definitions")
    found = find_program(problem, f"```python\n{ITS_OWN_TESTS}{rest}")
    lines = ITS_OWN_TESTS.split("\n")
    assert found.source.split("\n")[:8] == [*lines[:2], "", *lines[3:8]]
    assert not "".join(found.source.split("\n")[8:])
    without = replace(problem, check=CallTests((((1,), 4),), "g"))
    assert find_program(without, ITS_OWN_TESTS).source == ITS_OWN_TESTS  # type: ignore[union-attr]


def test_the_main_program_is_what_a_contest_in_c_asks_for() -> None:
    main = "int main() {\n  return 0;\n}\n"
    found = find_program(Problem("t", "p", StdioTests((("", ""),), "c")), f"```c\n{main}```\n```c\nreturn 0;\n```\n")
    assert found.source == main


def test_what_is_compared_with_a_text_is_found_and_not_run() -> None:
    runner = Recording()
    problems = [Problem("t", "p", ReferenceText("int x;", "cpp")), Problem("t", "p", TokenTarget())]
    judge = Judge(runner)
    found, toy = (find_program(problem, "Here:\n```cpp\nint x;\n```\n") for problem in problems)
    assert found.source == "int x;\n"
    assert judge.start_program(problems[0], found, problems[0].check).result() == Outcome(Verdict.NO_PROGRAM)
    assert toy is None
    assert runner.programs == []


def test_equal_programs_of_one_problem_run_once_and_text_tasks_never(byte_tokenizer: str) -> None:
    policy = loaded(byte_tokenizer)
    policy.codec.eos_ids = frozenset(range(258))  # every completion is one token, and that token is EOS
    runner = Recording()
    problems = [Problem("a", "a", CHECK, program_prefix="x = 1\n"), Problem("b", "b", TokenTarget())]
    sampled = partial(sample_rows, policy, InProcess(), runner, problems, key=RandomKey(0, "t", 0))
    rollout = sampled(sampling=Sampling(num_samples=3)).finish()
    assert runner.programs == []
    assert [j.outcome.verdict for j in rollout.judgements] == [Verdict.NO_PROGRAM] * 6
    policy.codec.eos_ids = frozenset()
    rollout = sampled(sampling=Sampling(num_samples=3, temperature=1e-6, max_tokens=4)).finish()
    assert len(set(rollout.completions.texts[:3])) == 1
    assert len(runner.programs) == 1
    assert [j.outcome.verdict for j in rollout.judgements[:3]] == [Verdict.PASSED] * 3
    assert [j.problem.task_id for j in rollout.judgements] == ["a"] * 3 + ["b"] * 3


def test_only_the_problems_own_check_stops_at_a_failure() -> None:
    """An environment counts the public cases that passed."""
    hidden, public = (StdioTests(((text, text),)) for text in "hp")
    problem, runner = Problem("a", "p", hidden), Recording()
    for every_case in (True, False):
        judge = Judge(runner, every_case)
        for check in (hidden, public):
            judge.start_program(problem, Program("print(input())", 0, 0, 0), check)
    assert runner.checks == [hidden, public, replace(hidden, stop_at_failure=True), public]


def test_a_program_without_a_sandbox_is_an_error_not_a_zero(byte_tokenizer: str) -> None:
    """Item 53: the policy is in train mode again after the exception."""
    policy = loaded(byte_tokenizer)
    with pytest.raises(InfrastructureError, match="problem a has a program to run, but there is no sandbox"):
        sample_rows(policy, InProcess(), None, [Problem("a", "a", CHECK)], Sampling(max_tokens=4), RandomKey(0, "t", 0))
    assert policy.training


@pytest.mark.parametrize(
    ("bad", "rows", "share", "stops"),
    [(1, 10, 0.1, False), (2, 10, 0.1, True), (1, 4, 0.1, False), (2, 4, 0.1, True), (1, 4, 0.0, True)],
)
def test_a_few_failures_of_ours_go_on_and_many_stop(bad: int, rows: int, share: float, stops: bool) -> None:
    """A single failure is tolerated even where it is more than the share, as in a rollout of four rows."""
    lost = Outcome(Verdict.INFRASTRUCTURE_FAILURE, stderr="worker lost")
    outcomes = [lost] * bad + [Outcome(Verdict.WRONG_ANSWER)] * (rows - bad)
    judgements = tuple(Judgement(Problem("a", "a", CHECK), None, outcome) for outcome in outcomes)
    rollout = Rollout(None, judgements)  # type: ignore[arg-type]
    collector = RolloutCollector(None, None, RolloutConfig(max_failures=share), 0)  # type: ignore[arg-type]
    if not stops:
        collector.refuse_too_many_unjudged(rollout)
        return
    with pytest.raises(InfrastructureError, match=rf"{bad} of {rows} .* \(at most .*worker lost"):
        collector.refuse_too_many_unjudged(rollout)


CASES = (("", "1\n"),)
CPP = '#include <cstdio>\n\nint main() {\n    std::puts("1");\n}\n'
PYTHON = 'def f(x):\n    """A fence inside:\n    ```\n    f(1)\n    ```\n    """\n    return x + 1\n'
CHAT: Any = ({"role": "user", "content": "Write it."},)
BODY = "    return x + 1\n"
HEAD = "def f(x):\n"
IMPORT = "import math\n"
PROBLEMS = {
    "Python with a fence in its docstring": Problem("1", CHAT, CallTests((((1,), 2),), "f"), reference=PYTHON),
    "Python behind imports": Problem(
        "1", CHAT, AssertTests("assert f(1) == 2"), program_prefix=IMPORT, reference=IMPORT + HEAD + BODY
    ),
    "a body": Problem("1", HEAD, CallTests((((1,), 2),), "f"), program_prefix=HEAD, reference=HEAD + BODY),
    "lines inside a fence that the prompt opened": Problem(
        "1", "```python\n", CallTests((((1,), 2),), "f"), reference=HEAD + BODY, stop_strings=("```",)
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_judge_finds_the_reference_in_the_answer_that_sft_imitates(name: str) -> None:
    problem = PROBLEMS[name]
    answer = completion_to_imitate(problem)
    found = find_program(problem, answer)
    assert found.source.strip("\n") == problem.reference.strip("\n")


# A program of each language that defines ``main`` and ``f``, as far as it has functions.
SOURCES: dict[Language, str] = {
    "python": "def f(x):\n    return x\n",
    "c": CPP,
    "cpp": f"int f(int x) {{ return x; }}\n{CPP}",
    "javascript": "const f = (x) => `${x}\n`;\n",
    "java": "class Main {\n    static int f(int x) { return x; }\n    public static void main(String[] words) { }\n}\n",
    "go": "package main\n\nfunc f(x int) int { return x }\n\nfunc main() { }\n",
    "rust": "fn f(x: i32) -> i32 { x }\n\nfn main() { }\n",
}
CHECKS = [
    *(StdioTests(CASES, language) for language in LANGUAGES),
    *(CallTests((((1,), 1),), "f", language=language) for language in LANGUAGES),
    *(UnitTests("f(1)", language, entry_point="f") for language in UNIT_TESTS),
    AssertTests("assert f(1) == 1", "f"),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{type(check).__name__}-{check.language}")
def test_every_check_finds_its_reference_in_every_language(check: Any) -> None:
    source = SOURCES[check.language]
    problem = Problem("1", CHAT, check, reference=source)
    example = "```\n1 2\n```\nIt prints:\n```text\n3\n```\n"  # blocks of other kinds around it
    for answer in (completion_to_imitate(problem), f"{example}{completion_to_imitate(problem)}\n{example}", source):
        found = find_program(problem, answer)
        assert found.source.strip() == source.strip()


def test_the_program_that_is_meant_is_taken_and_its_place_is_told():
    """The place is in bytes of the completion's UTF-8; indentation that a line lost is counted."""
    wrong = {}
    for shape in SHAPES:
        found = extract_program(shape.text, shape.wanted)
        if (None if found is None else found.source) != shape.expected:
            wrong[shape.name] = found
        elif found is not None:
            written = shape.text.encode()[found.start : found.end].decode().split("\n")
            removed = found.removed or [0] * len(written)
            kept = [line[count:] for line, count in zip(written, removed, strict=True)]
            if "\n".join(kept) != found.source:
                wrong[shape.name] = found
    assert wrong == {}
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 60


HOSTILE = {
    "a megabyte of backticks": "`" * 2**20,
    "backticks in runs": "```a" * 2**18,
    "blocks of the language": "```python\nx = 1\n```\n" * 5000,
    "blocks that define it": py(ANSWER) * 5000,
    "growing marks": "".join("`" * (3 + k % 500) + "\n" for k in range(4000)),
    "thoughts that never end": "x\n<think>\n" * 100000,
    "ends of thoughts in blocks": "```python\n'''\n</think>\n'''\n```\n" * 20000,
    "brackets": "```\n" + "(" * 2**20,
    "deep nesting": "```python\ndef add(): return " + "[" * 100000 + "\n```",
    "calls of main": "```c\n" + "main(" * 200000,
    "blank lines in a list": "1. ```python\n" + "   \n" * 2**18,
    "f-strings": "```\n" + "f'{" * 100000,
}


@pytest.mark.parametrize("language", slow_but(("python",), ["python", "c"]))
def test_hostile_texts_are_read_in_bounded_work(language, monkeypatch):
    parsed = []
    parse = program.parse_python
    monkeypatch.setattr(program, "parse_python", lambda source: (parsed.append(len(source)), parse(source))[1])
    too_much = {}
    for name, text in HOSTILE.items():
        parsed.clear()
        extract_program(text, WantedProgram(language, "add"))
        if sum(parsed) > program.MAX_CHARACTERS:
            too_much[name] = sum(parsed)
    assert too_much == {}
