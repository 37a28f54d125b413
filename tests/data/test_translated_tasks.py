"""HumanEval-X and MultiPL-E: rows of our own in their formats, judged; and the real rows of HumanEval-X."""

import os
from pathlib import Path

import pytest
from support.json_rows import write_rows
from support.named_jobs import judge_named, not_among
from support.slow_cases import slow_but
from support.toolchains import need
from support.translated_rows import BODIES, humanevalx, multiple

from lit_rl.data import HumanEvalX, MultiPLE
from lit_rl.data.rows import RowError
from lit_rl.execution.checks import UNIT_TESTS
from lit_rl.rollout.records import find_program, reference_answer

REAL = Path(os.environ.get("LIT_RL_DATA", "../shared/data")) / "humanevalx"
LEFT_OUT = {"cpp": 3, "rust": 4}  # rows that need boost, OpenSSL or rand, or whose tests are commented out
CUT = ("CPP/94", "Go/72", "Rust/137")  # a stop string stands behind the function of the reference
TASKS = [
    (task, make, language) for task, make in ((HumanEvalX, humanevalx), (MultiPLE, multiple)) for language in UNIT_TESTS
]


def real_file(language):
    return str(REAL / f"humaneval_{'js' if language == 'javascript' else language}.jsonl.gz")


def answer_of(problem, rest):
    """The answer that a program's rest makes, and the program that is found in it."""
    source = problem.starter_code + rest
    answer = rest if problem.continues_program else f"Here:\n```{problem.check.language}\n{source}```\n"
    found = find_program(problem, answer)
    assert found is not None and found.source.strip() == source.strip()
    return found.source


@pytest.mark.parametrize(
    ("task", "make", "language"), slow_but([TASKS[0], *(one for one in TASKS if one[2] == "javascript")], TASKS),
    ids=[f"{task.__name__}-{language}" for task, _, language in TASKS],
)  # fmt: skip
def test_a_right_answer_passes_in_both_forms_and_a_wrong_one_fails(task, make, language, sandbox, tmp_path):
    need(language)
    path = write_rows(tmp_path, make(language, 1))
    jobs = []
    for form in ("completion", "instruct"):
        (problem,) = task(path, language, form=form).problems("test")
        assert problem.check.entry_point == "addOne" and problem.fields["entry_point"] == "addOne"
        jobs += [
            (answer_of(problem, rest), problem.check)
            for rest in (BODIES[language], BODIES[language].replace("x + ", "x - "))
        ]
    verdicts = [outcome.verdict for outcome in sandbox.judge_many(jobs)]
    assert verdicts[::2] == ["passed", "passed"], sandbox.judge_many(jobs)
    assert verdicts[1::2] == ["exception", "exception"]


@pytest.mark.parametrize("language", UNIT_TESTS)
def test_the_reference_is_found_in_the_answer_that_sft_imitates(language, tmp_path):
    path = write_rows(tmp_path, humanevalx(language, 1))
    if REAL.exists():
        path = real_file(language)
    for form in ("completion", "instruct"):
        problems = HumanEvalX(path, language, form=form).problems("test")
        assert len(problems) in (1, 164 - LEFT_OUT.get(language, 0))
        for problem in problems:
            answer = reference_answer(problem)
            if problem.task_id in CUT:
                assert form == "instruct" or any(stop in answer for stop in problem.stop_strings)
                continue
            cut = min((answer.find(stop) for stop in problem.stop_strings if stop in answer), default=None)
            found = find_program(problem, answer[:cut])
            assert found is not None and found.source.strip() == problem.reference.strip(), problem.task_id


def test_other_languages_and_rows_that_test_nothing_are_refused(tmp_path):
    with pytest.raises(
        RowError, match="is a row in Cpp, and the task's language is go; give a file in the task's language"
    ):
        HumanEvalX(write_rows(tmp_path, humanevalx("cpp", 1)), "go").problems("test")
    rows = [multiple("java", 1), multiple("java", 2) | {"tests": "    }\n Pair<Integer, Integer> x;\n}\n"}]
    assert [one.task_id for one in MultiPLE(write_rows(tmp_path, *rows), "java").problems("test")] == ["M_1"]
    empty = humanevalx("rust", 2) | {"test": "/*\n#[test]\nfn adds() {}\n*/\n"}
    assert HumanEvalX(write_rows(tmp_path, empty), "rust").problems("test") == []


# Rows whose own solution fails with the language's own tools, too.
FAIL_PLAINLY = {
    **dict.fromkeys(("JavaScript/112", "JavaScript/155"), "the solution fails asserts of its own tests"),
    "JavaScript/162": "the package js-md5 is not installed",
    "Rust/91": "the solution uses the crate regex",
    "Rust/162": "the solution uses the crate md5",
}
SOMETIMES = {"Go/95": "the solution looks at two keys of a map, whose order is random"}


@pytest.mark.slow
@pytest.mark.parametrize("language", UNIT_TESTS)
def test_solutions_end_as_with_the_languages_own_tools(real_data, language, sandbox):
    need(language)
    problems = HumanEvalX(real_file(language), language).problems("test")
    outcomes = judge_named(sandbox, {one.task_id: (one.reference, one.check) for one in problems})
    assert len(outcomes) > 150
    assert not_among(outcomes, "passed").keys() - SOMETIMES.keys() == FAIL_PLAINLY.keys() & outcomes.keys()
