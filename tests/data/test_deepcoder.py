import ast
import base64
import json
import pickle
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from support.json_rows import write_rows

from lit_rl.data.contests.deepcoder import CONFIGURATIONS, CONTEST_IMPORTS, LIVE_CODE_BENCH_IMPORTS, DeepCoder
from lit_rl.data.rows import RowError
from lit_rl.execution.checks import CallTests, StdioTests

STDIN_FILE = "codeforces_stdin.jsonl.gz"
STDIO_TESTS = json.dumps([{"input": "1\n", "output": "2\n"}])
STARTER = "class Solution:\n    def double(self, x: int) -> int:\n"
CALL_TESTS = [{"input": "1", "output": "2", "testtype": "functional"}]

# One row in the columns of each configuration, and of two other trainers' files.
ROWS = {
    "primeintellect": {
        "problem": "Double it.",
        "solutions": ["Here:\n```python\ndef double(x):\n    return 2 * x\n```\n"],
        "tests": json.dumps([{"input": "1", "output": "2", "type": "function_call", "fn_name": "double"}]),
    },
    "taco": {
        "problem": "Double it.",
        "solutions": ["print(2 * int(input()))\n", "other"],
        "tests": json.dumps({"inputs": ["1\n"], "outputs": ["2\n"]}),
    },
    "lcbv5": {
        "problem": "Double it.",
        "starter_code": STARTER,
        "tests": json.dumps(CALL_TESTS),
        "metadata": {"func_name": "double"},
    },
    "codeforces": {"problem": "Double it.", "tests": STDIO_TESTS},
    "livecodebench": {
        "question_content": "Double it.",
        "starter_code": STARTER,
        "public_test_cases": json.dumps(CALL_TESTS),
        "private_test_cases": base64.b64encode(
            zlib.compress(pickle.dumps(json.dumps([{**CALL_TESTS[0], "input": "4", "output": "8"}])))
        ).decode(),
        "metadata": json.dumps({"func_name": "double"}),
    },
    "apps on stdin": {
        "question": "Double it.",
        "solutions": json.dumps(["print(2 * int(input()))\n", "other"]),
        "input_output": json.dumps({"inputs": ["1\n"], "outputs": ["2\n"]}),
        "starter_code": "",
        "difficulty": "introductory",
    },
    "apps with a function": {
        "question": "Double it.",
        "solutions": json.dumps(["def double(x):\n    return 2 * x\n"]),
        "input_output": json.dumps({"fn_name": "double", "inputs": [[1]], "outputs": [[2]]}),
        "starter_code": "def double(x):\n\t",
    },
    "verl": {
        "prompt": [{"role": "user", "content": "Double it."}],
        "reward_model": {"style": "rule", "ground_truth": STDIO_TESTS},
        "metadata": "",
    },
}


def load(folder: Path, *rows: dict, **options):
    return DeepCoder(train=[write_rows(folder, *rows)], **options).problems("train")


@pytest.mark.parametrize("shape", ROWS)
def test_every_row_shape_becomes_a_problem(tmp_path, shape):
    (problem,) = load(tmp_path, ROWS[shape])
    assert "Double it." in problem.prompt[-1]["content"]
    is_chat = problem.prompt == ({"role": "user", "content": "Double it."},)
    assert is_chat is (shape == "verl"), "a chat stays as it is"
    assert problem.fields["statement"] == "Double it."
    if shape in ("taco", "codeforces", "verl", "apps on stdin"):
        assert problem.check == StdioTests((("1\n", "2\n"),), timeout_seconds=6.0, compare="decimals")
        assert problem.program_prefix == ""
    else:
        assert isinstance(problem.check, CallTests) and problem.check.cases[0] == ((1,), 2)
        assert problem.program_prefix == (LIVE_CODE_BENCH_IMPORTS if shape == "livecodebench" else CONTEST_IMPORTS)
        method = "Solution.double" if ROWS[shape].get("starter_code") == STARTER else "double"
        assert problem.check.entry_point == method
    if shape == "livecodebench":
        assert problem.check.cases == (((1,), 2), ((4,), 8)), "public and hidden tests"
        assert problem.public_check == replace(problem.check, cases=(((1,), 2),))
    else:
        assert problem.public_check is None, "nothing separates the tests or shows them"


def test_references_lose_their_fence_begin_with_the_imports_and_are_the_first_solution(tmp_path):
    shapes = ("primeintellect", "taco", "apps on stdin")
    function, *programs = (problem.reference for problem in load(tmp_path, *(ROWS[shape] for shape in shapes)))
    assert function == CONTEST_IMPORTS + "def double(x):\n    return 2 * x\n"
    assert set(programs) == {"print(2 * int(input()))\n"}
    with pytest.raises(RowError, match="field 'solutions': expected a list of str, got 3"):
        load(tmp_path, ROWS["apps on stdin"] | {"solutions": "3"})


def test_tests_that_the_statement_shows_are_the_public_check(tmp_path):
    tests = {"inputs": ["1\n", "3 4\n5\n", "9\n"], "outputs": ["2\n", "6 8\n10\n", "18\n"]}
    shown = "Double them.\n\n-----Input-----\n\nNumbers.\n\n"
    shown += "-----Sample Input 1-----\n\n3 4\n5\n\nSample Output 1:\n6 8\n10\n"
    stdio = {"problem": shown, "tests": json.dumps(tests)}
    cases = [{"input": "1\n[2]", "output": "[1, 2]"}, {"input": "4\n[]", "output": "[]"}]
    starter = "class Solution:\n    def join(self, x: int, ys: List[int]) -> List[int]:\n"
    calls = {
        "problem": "Join.\n\nExample 1:\n\nInput: x = 1, ys = [2]\nOutput: [1,2]\nExplanation: joined.",
        "starter_code": starter,
        "tests": json.dumps([{**case, "testtype": "functional"} for case in cases]),
        "metadata": {"func_name": "join"},
    }
    on_stdin, method = load(tmp_path, stdio, calls)
    assert on_stdin.public_check == replace(on_stdin.check, cases=(("3 4\n5\n", "6 8\n10\n"),))
    assert len(on_stdin.check.cases) == 3
    assert method.public_check == replace(method.check, cases=(((1, [2]), [1, 2]),))


NOT_SHOWN = {
    "no label": ("1\nOutput\n2", "1\n"),
    "another input": ("Input\n1 1\nOutput\n2", "1\n"),
    "a word before the label": ("The Input\n1\nOutput\n2", "1\n"),
    "a line between": ("Input\n1\nIt is doubled.\nOutput\n2", "1\n"),
    "no input": ("Input\n\nOutput\n2", ""),
}


def test_an_example_that_leaves_a_doubt_is_not_shown(tmp_path):
    def row(shown, given):
        tests = json.dumps({"inputs": [given], "outputs": ["2\n"]})
        return {"problem": f"Double it.\n{shown}", "tests": tests}

    *problems, control = load(tmp_path, *(row(*case) for case in NOT_SHOWN.values()), row("Input\n1\nOutput\n2", "1\n"))
    assert {name for name, problem in zip(NOT_SHOWN, problems, strict=True) if problem.public_check} == set()
    assert control.public_check == control.check


def test_every_real_row_is_read_and_one_statement_shows_a_test(real_data, sandbox):
    """These two files were published without their examples, but for one call in a statement's text."""
    files = [str(real_data / "competitive" / name) for name in ("leetcode_functional_train.jsonl.gz", STDIN_FILE)]
    functional, on_stdin = (DeepCoder(train=[file]).problems("train") for file in files)
    assert len({problem.task_id for problem in functional}) == len(functional) == 1768
    for problem in functional:
        assert isinstance(problem.check, CallTests)
        assert problem.check.entry_point.startswith("Solution.") and problem.check.cases
        assert problem.check.entry_point.removeprefix("Solution.") in problem.starter_code
        ast.parse(problem.reference)
    assert (len(on_stdin), sum(len(problem.check.cases) for problem in on_stdin)) == (392, 452), "without 16 dialogues"
    assert all(isinstance(problem.check, StdioTests) and problem.reference is None for problem in on_stdin)
    (shown,) = [problem for problem in functional + on_stdin if problem.public_check is not None]
    assert (shown.public_check.cases, shown.check.entry_point) == ((((1,), "1"),), "Solution.countAndSay")
    assert sandbox.judge_many([(shown.reference, shown.public_check)])[0].passed


@pytest.mark.filterwarnings("ignore:left out")
def test_contests_are_taken_by_date_with_both_ends(tmp_path):
    """Numbers in task ids stay those of the rows, whatever is left out."""
    days = ["2024-07-31T22:30:00", "2024-08-01T00:00:00", "2024-09-30T00:00:00", "2024-09-30T00:00:01"]
    rows = [ROWS["livecodebench"] | {"contest_date": day} for day in days]
    first, last = {"start_date": "2024-08-01"}, {"end_date": "2024-09-30"}
    for window, held in ((first, [1, 2, 3]), (last, [0, 1, 2]), (first | last, [1, 2])):
        assert [problem.task_id for problem in load(tmp_path, *rows, **window)] == [f"rows/{n}" for n in held]


def test_a_program_of_livecodebench_may_leave_out_imports_and_call_itself_deeply(tmp_path, sandbox):
    row = {"question_content": "Count.", "private_test_cases": "[]"}
    tests = [[{"input": "20000\n", "output": output, "testtype": "stdin"}] for output in ("20000\n", "200000\n")]
    problems = load(tmp_path, *(row | {"public_test_cases": json.dumps(one)} for one in tests))
    count = "def f(n):\n    return n and 1 + f(n - 1)\n"
    program = f"{count}print(f(int(stdin.readline())), pow(3, 2, 4) - gcd(3, 1), sep='')\n"
    jobs = [(problem.program_prefix + program, problem.check) for problem in problems]
    assert [outcome.passed for outcome in sandbox.judge_many(jobs)] == [False, True]


def test_a_row_or_else_the_task_says_how_output_is_compared(tmp_path):
    row = ROWS["codeforces"]
    for said, compare, tolerance in (
        ({}, "decimals", 1e-6),
        ({"compare": "tokens", "tolerance": 1e-4}, "tokens", 1e-4),
        ({"metadata": {"compare": "tokens"}}, "tokens", 1e-6),
        ({"metadata": json.dumps({"compare": "lines"}), "tolerance": "1e-3"}, "lines", 1e-3),
    ):
        (problem,) = load(tmp_path, row | said)
        assert (problem.check.compare, problem.check.tolerance) == (compare, tolerance)
    own = DeepCoder(train=[write_rows(tmp_path, row)], compare="tokens", tolerance=0.5).problems("train")
    assert (own[0].check.compare, own[0].check.tolerance) == ("tokens", 0.5)


def test_a_row_brings_its_checker_and_groups_of_tests(tmp_path, sandbox):
    """A checker in C++ with its header, one in Python, and one that prints 1; none judges calls."""
    (tmp_path / "testlib.h").write_text("inline int same(int a, int b) { return a == b ? 0 : 1; }\n")
    cpp = '#include <cstdio>\n#include "testlib.h"\nint main(){return same(1, 1);}'
    printing = "import sys\n_, right, printed = (open(n).read().split() for n in sys.argv[1:])\n"
    printing += "print(int(sorted(right) == sorted(printed) and right[0] == '1'))\nsys.exit(2)"
    tests = [("1\n", "1 2", "easy"), ("22\n", "1 3", "hard"), ("3\n", "1 4", "easy")]
    rows = (
        {"checker": cpp},
        {"metadata": {"checker": "import sys; sys.exit(open(sys.argv[2]).read() != '2 1\\n')"}},
        {"generated_checker": printing, "checker": "", "description": "Sort it.", "input_format": "Numbers."},
        {"checker": "", "generated_checker": None},
        {"checker": cpp.replace("testlib.h", "other.h")},
    )
    stored = [{"input": given, "output": output, "grade": grade} for given, output, grade in tests]
    whole = [{"problem": "Sort it.", "test_cases": stored} | row for row in rows]
    del whole[2]["problem"]
    with pytest.warns(UserWarning, match=r"left out 1 of 5 train rows of .* include a file .* checker_files"):
        problems = load(tmp_path, *whole, checker_files=[str(tmp_path / "testlib.h")])
    checks = [problem.check for problem in problems]
    assert [check.checker and check.checker.language for check in checks] == ["cpp", "python", "python", None]
    assert checks[0].checker.files == (("testlib.h", (tmp_path / "testlib.h").read_text()),)
    assert [given for given, _ in checks[0].cases] == ["1\n", "3\n", "22\n"]
    assert checks[0].grades == (("easy", 2), ("hard", 1))
    assert "Sort it.\n\nInput\n\nNumbers." in problems[2].prompt[-1]["content"]
    program = "print({'1': '2 1', '22': '1 3', '3': '1 1 4'}[input()])"
    (end,) = sandbox.judge_many([(program, checks[2])])
    assert (end.scores, end.exception_type) == ({"easy": 0.0, "hard": 1.0}, None)
    with pytest.raises(RowError, match=r"row 1: .*or none \(as under a checker\)"):
        load(tmp_path, ROWS["primeintellect"] | {"checker": "1"})


def test_statements_that_ask_for_a_dialogue_are_left_out_and_those_for_any_answer_counted(tmp_path):
    row = ROWS["codeforces"]
    any_of = row | {"problem": "Double it. If there are several answers, print any of them."}
    dialogues = row | {"problem": "This is an interactive problem. Guess."}, row | {"interaction_format": "Print ?"}
    with pytest.warns(UserWarning) as answer:
        problems = load(tmp_path, row, any_of, any_of | {"checker": "1"}, *dialogues)
    assert [problem.fields["needs_checker"] for problem in problems] == [False, True, False]
    said = "\n".join(str(one.message) for one in answer)
    assert "left out 2 of 5 train rows of" in said and "talk with another program" in said
    assert "1 of 3 problems in the train rows of" in said and "the one output listed" in said
    call = ROWS["primeintellect"] | {"problem": "Not an interactive problem: double it."}
    assert len(load(tmp_path, call)) == 1, "calls need no dialogue"


def test_a_local_folder_has_a_folder_per_configuration_and_files_per_split(tmp_path):
    for configuration, splits in CONFIGURATIONS.items():
        for split in splits:
            path = tmp_path / configuration / f"{split}-00000-of-00001.jsonl"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(ROWS[configuration] | {"problem": f"{configuration} {split}"}))
    data = DeepCoder(str(tmp_path))
    statements = {s: [p.fields["statement"] for p in data.problems(s)] for s in ("train", "validation", "test")}
    assert statements == {
        "train": ["primeintellect train", "taco train", "lcbv5 train"],
        "validation": ["codeforces test", "lcbv5 test"],
        "test": ["codeforces test", "lcbv5 test"],
    }
