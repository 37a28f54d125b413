import ast
import gzip
import json

import pytest
from support.json_rows import write_rows
from support.named_jobs import judge_named, not_among
from support.slow_cases import slow_but

from lit_rl.data.mbpp import MBPP, MBPPPlus
from lit_rl.data.mbpp_plus import TRUTH_OF_MATCH, UNORDERED
from lit_rl.execution.checks import AssertTests

FULL = "mbpp/mbpp.jsonl.gz"
SANITIZED = "mbpp/sanitized-mbpp.json.gz"
ORIGIN = "evalplus/MbppPlus-OriginFmt.jsonl.gz"


def full(number: int) -> dict:
    return {
        "task_id": number,
        "text": f"Add {number}.",
        "code": f"def add(x):\r\n  return x + {number}\r\n",
        "test_setup_code": "",
        "test_list": [f"assert add({x}) == {x + number}" for x in range(3)],
        "challenge_test_list": [],
    }


@pytest.fixture
def path(tmp_path):
    return write_rows(tmp_path, *(full(number) for number in (1, 2, 3, 4, 10, 11, 510, 511, 600, 601, 974)))


def numbers(problems: list) -> list[int]:
    return [int(problem.task_id.split("/")[1]) for problem in problems]


def test_parts_go_by_task_id(path):
    data = MBPP(path)
    assert numbers(data.problems("train")) == [601, 974]
    assert numbers(data.problems("validation")) == [511, 600]
    assert numbers(data.problems("test")) == [11, 510]
    assert numbers(MBPP(path, test_split="prompt").problems("test")) == [1, 2, 3, 4, 10]
    assert len(MBPP(path, test_split="all").problems("test")) == 11
    assert MBPP(path, train_split="none").problems("train") == []


def test_a_full_row_keeps_setup_and_tests_with_unix_line_ends(tmp_path):
    row = full(11) | {"test_setup_code": "one = 1\r\ntwo = 2"}
    problem = MBPP(write_rows(tmp_path, row)).problems("test")[0]
    assert problem.check == AssertTests(
        "one = 1\ntwo = 2\nassert add(0) == 11\nassert add(1) == 12\nassert add(2) == 13\n", None, 10.0
    )
    assert problem.reference == "def add(x):\n  return x + 11\n"
    assert problem.fields == {"entry_point": "add", "statement": "Add 11."}


def test_a_row_whose_further_inputs_are_not_in_its_test_is_refused(tmp_path):
    file = write_rows(tmp_path, {"task_id": "Mbpp/2", "prompt": "p", "base_input": [[1]], "plus_input": [[2]]})
    with pytest.raises(ValueError, match=r"row 1, field 'plus_input': .* give MbppPlus-OriginFmt"):
        MBPPPlus(file).problems("test")


def test_the_public_check_holds_the_shown_asserts_and_what_they_need(tmp_path):
    row = full(11) | {"test_setup_code": "one = 1"}
    sanitized = {k: v for k, v in full(12).items() if k not in ("text", "test_setup_code", "challenge_test_list")}
    sanitized |= {"prompt": "Add.", "test_imports": ["import math"], "source_file": "x"}
    origin = sanitized | {"task_id": 13, "test": "def check(candidate):\n    assert add(5) == 18\n\ncheck(add)\n"}
    path = write_rows(tmp_path, row, sanitized, origin)
    for count in (1, 2):
        problems = MBPP(path, shown_tests=count).problems("test")
        asserts = [[f"assert add({x}) == {x + number}\n" for x in range(count)] for number in (11, 12, 12)]
        assert [problem.public_check.test for problem in problems] == [
            "".join([before, *shown])
            for before, shown in zip(("one = 1\n", "import math\n", "import math\n"), asserts, strict=True)
        ]
        for problem, shown in zip(problems, asserts, strict=True):
            assert all(line.strip() in problem.prompt[0]["content"] for line in shown)
            assert problem.public_check.num_tests == count
    assert {problem.public_check for problem in MBPP(path, shown_tests=0).problems("test")} == {None}


def test_completion_form_is_a_docstring_that_quotes_cannot_end(tmp_path):
    row = full(11) | {"text": 'Say """hi""" "'}
    problem = MBPP(write_rows(tmp_path, row), form="completion", shown_tests=1).problems("test")[0]
    assert problem.prompt == '"""\nSay \'\'\'hi\'\'\' "\nassert add(0) == 11\n"""\n'
    assert isinstance(ast.parse(problem.prompt).body[0].value, ast.Constant)
    assert problem.stop_strings == ("\nassert", "\nprint", "\nif", '\n"""')


def test_examples_are_tasks_2_3_4_between_marks(path):
    problem = MBPP(path, form="completion", few_shot=3).problems("test")[0]
    tasks = ["Add 2.", "Add 3.", "Add 4.", "Add 11."]
    assert [problem.prompt.index(task) for task in tasks] == sorted(problem.prompt.index(t) for t in tasks)
    assert problem.prompt.count("[BEGIN]") == 4 and problem.prompt.count("[DONE]") == 3
    assert problem.prompt.endswith("[BEGIN]\n") and problem.stop_strings == ("[DONE]",)
    assert "def add(x):\n  return x + 2\n[DONE]" in problem.prompt


REAL_ROWS = [(FULL, 974), (SANITIZED, 427), (ORIGIN, 378)]


@pytest.mark.parametrize(("file", "rows"), slow_but(REAL_ROWS[:2], REAL_ROWS))
def test_every_real_row_is_read_and_its_reference_passes_its_public_check(real_data, sandbox, file, rows):
    """Of the full file 974 of 974, seen with 1 and with 3 asserts; running them takes too long for each run."""
    problems = MBPP(str(real_data / file), test_split="all").problems("test")
    assert len(problems) == len({problem.task_id for problem in problems}) == rows
    for problem in problems:
        tree = ast.parse(problem.reference)
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert problem.fields["entry_point"] in defined, problem.task_id
        assert "\r" not in problem.reference
        if isinstance(problem.check, AssertTests):
            assert "\r" not in problem.check.test
            ast.parse(problem.check.test)
    if file != FULL:
        jobs = {problem.task_id: (problem.reference, problem.public_check) for problem in problems}
        assert not_among(judge_named(sandbox, jobs), "passed") == {}


@pytest.mark.slow
def test_nearly_all_of_mbpp_plus_needs_no_grader(real_data):
    """Seven answers are sets, three are yes or no, three tests compute what is expected."""
    problems = MBPPPlus(str(real_data / ORIGIN)).problems("validation")
    graded = {problem.task_id for problem in problems if isinstance(problem.check, AssertTests)}
    with gzip.open(real_data / ORIGIN, "rt") as file:
        computed = {row["task_id"] for row in map(json.loads, file) if "def ref_func" in row["test"]}
    assert graded == {f"mbpp/{number}" for number in {*UNORDERED, *TRUTH_OF_MATCH, *map(int, computed)}}
    assert len(problems) - len(graded) == 365
