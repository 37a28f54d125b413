import ast

import pytest
from support.json_rows import write_rows

from lit_rl.data.examples_in_text import CallExample, find_call_examples
from lit_rl.data.humaneval import HumanEval
from lit_rl.execution.checks import AssertTests, CallTests


def row(number: int) -> dict:
    return {
        "task_id": f"Own/{number}",
        "prompt": f"import math\n\n\ndef half(x):\n    return x / 2\n\n\ndef add_{number}(x):\n    'Adds.'\n",
        "entry_point": f"add_{number}",
        "canonical_solution": f"    return x + {number}\n",
        "test": f"def check(candidate):\n    assert candidate(1) == {number + 1}\n",
    }


@pytest.fixture
def path(tmp_path):
    return write_rows(tmp_path, *(row(number) for number in range(10)))


def test_completion_form_begins_the_program_with_the_prompt(path):
    problem = HumanEval(path).problems("test")[3]
    assert problem.task_id == "Own/3"
    assert problem.prompt == problem.program_prefix == row(3)["prompt"]
    assert problem.check == AssertTests(row(3)["test"], "add_3", 10.0)
    assert problem.stop_strings == ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
    assert problem.reference == row(3)["prompt"] + "    return x + 3\n"


def test_instruct_form_keeps_imports_and_helper_functions_as_prefix(path):
    """A model may answer with the function alone; the tests may use the helpers."""
    problem = HumanEval(path, form="instruct").problems("test")[3]
    assert problem.program_prefix == "import math\n\n\ndef half(x):\n    return x / 2\n\n\n"
    assert [message["role"] for message in problem.prompt] == ["user"]
    assert "```python\nimport math" in problem.prompt[0]["content"]
    assert problem.stop_strings == ()


def test_a_test_that_uses_a_helper_of_the_prompt_brings_it_along(tmp_path):
    test = "def check(candidate):\n    assert half(candidate(1)) == 0.5\n"
    with_helper, without = HumanEval(write_rows(tmp_path, row(0) | {"test": test}, row(1))).problems("test")
    assert with_helper.check.test == "import math\n\n\ndef half(x):\n    return x / 2\n\n\n" + test
    assert without.check.test == row(1)["test"]


def test_a_prompt_that_no_completion_makes_a_program_is_refused(tmp_path):
    path = write_rows(tmp_path, row(0), row(1) | {"prompt": "def add_1(x:\n    'Adds.'\n"})
    with pytest.raises(ValueError, match="row 2: SyntaxError"):
        HumanEval(path).problems("test")


def test_train_and_test_part_are_disjoint_and_whole(path):
    data = HumanEval(path, split="train")
    train, test = data.problems("train"), data.problems("test")
    assert (len(train), len(test)) == (8, 2)
    assert sorted(p.task_id for p in train + test) == [f"Own/{number}" for number in range(10)]
    assert HumanEval(path, split="test").problems("validation") == test


def test_training_on_what_is_only_measured_on_is_refused(path):
    data = HumanEval(path)
    assert data.problems("train") == [] and len(data.problems("validation")) == 10
    with pytest.raises(ValueError, match="see its split"):
        data.train_dataloader()


def test_all_164_real_problems_are_read_and_cut_131_to_33(real_data):
    path = str(real_data / "humaneval" / "HumanEval.jsonl.gz")
    problems = HumanEval(path).problems("validation")
    assert len(problems) == len({problem.task_id for problem in problems}) == 164
    for problem in problems:
        ast.parse(problem.reference)
        assert "def check(candidate)" in problem.check.test
        assert f"def {problem.check.entry_point}(" in problem.program_prefix
    asked = HumanEval(path, form="instruct").problems("validation")
    with_helper = [problem.task_id for problem in asked if "def " in problem.program_prefix]
    assert with_helper == [f"HumanEval/{number}" for number in (10, 32, 38, 50)]
    for problem in asked:
        ast.parse(problem.program_prefix)
    cut = HumanEval(path, split="train")
    assert (len(cut.problems("train")), len(cut.problems("validation"))) == (131, 33)


def test_a_row_whose_further_inputs_are_not_in_its_test_is_refused(tmp_path):
    """The test of ``HumanEvalPlus.jsonl.gz`` has the base inputs only."""
    path = write_rows(tmp_path, row(0) | {"base_input": [[1]], "plus_input": [[2]]})
    with pytest.raises(ValueError, match=r"row 1, field 'plus_input': .* give HumanEvalPlus-OriginFmt"):
        HumanEval(path).problems("test")


def test_examples_of_the_docstring_are_the_public_check_in_both_forms(tmp_path):
    prompt = f"import math\n\n\ndef half(x):\n    return x / 2\n\n\n{EXAMPLES}"
    path = write_rows(tmp_path, row(0) | {"prompt": prompt}, row(1))
    for form in ("completion", "instruct"):
        shown, bare = HumanEval(path, form=form).problems("test")
        assert shown.public_check == CallTests((((0,), 0), ((1,), 1), ((-3,), -3)), "add_0", 10.0, 1e-6)
        assert shown.check == AssertTests(row(0)["test"], "add_0", 10.0)
        assert bare.public_check is None, "nothing is shown"


EXAMPLES = """\
def add_0(x):
    '''Adds; half(4) == 2.
    half(6) == 3
    >>> add_0(0)
    0
    add_0(1) ➞ 1
    For x = -3 the output should be -3'''
"""


def test_146_real_rows_have_examples_and_each_reference_passes_its_own(real_data, sandbox):
    """Of the 150 with examples, four contradict their references; 14 show none as calls with literals."""
    problems = HumanEval(str(real_data / "humaneval" / "HumanEval.jsonl.gz")).problems("validation")
    shown = [problem for problem in problems if problem.public_check is not None]
    assert (len(shown), sum(problem.public_check.num_tests for problem in shown)) == (146, 420)
    outcomes = sandbox.judge_many([(problem.reference, problem.public_check) for problem in shown])
    assert [p.task_id for p, outcome in zip(shown, outcomes, strict=True) if not outcome.passed] == []
    wrong = {f"HumanEval/{number}" for number in (47, 116, 130, 148)}
    assert not wrong & {problem.task_id for problem in shown}


READ = [
    (">>> twice(2)\n4", [((2,), 4)]),
    ("    >>> twice(2)  # a remark\n    4\n    >>> twice([1])\n    [1,\n     1]\n", [((2,), 4), (([1],), [1, 1])]),
    ("twice(2) == 4\n  twice(-1) ==> -2\n* twice(3) ➞ 6  # right", [((2,), 4), ((-1,), -2), ((3,), 6)]),
    ("twice('a') returns 'aa'\ntwice(2) should return 4.", [(("a",), "aa"), ((2,), 4)]),
    ("twice(')(') -> '()'", [((")(",), "()")]),
    ("Input: x = [1, 2], y = 3\nOutput: true", [(([1, 2], 3), True)]),
]  # fmt: skip

LEFT_OUT = [
    "twice(x) == 2 * x",
    "twice(2) == value",
    ">>> round(twice(2), 1)\n4",
    ">>> twice(2)\nIt prints 4",
    "twice_more(2) == 8\nnot_twice(2) == 5\nself.twice(2) == 6",
    "twice(2) == 4\ntwice(2) == 5",
    "Input: y = 1, x = 2\nOutput: 3",
    "twice(" + "(" * 300,
]


def test_an_example_is_read_as_a_call_with_its_value_and_what_leaves_a_doubt_is_left_out() -> None:
    for text, expected in [*READ, *((text, []) for text in LEFT_OUT)]:
        found = find_call_examples(text, "twice", ["x", "y"])
        assert repr(found) == repr([CallExample(*one) for one in expected]), text
