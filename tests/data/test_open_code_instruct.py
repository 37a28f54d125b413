import json
import random

from support.json_rows import write_rows

from lit_rl.data.open_code_instruct import OpenCodeInstruct


def row(number: int, score: str = "1.0") -> dict[str, str]:
    """All columns are text, as in the data set."""
    return {
        "id": f"{number:032x}",
        "input": f"Add {number} to a number.",
        "output": f"Like so:\n\n```python\ndef add(x):\n    return x + {number}\n```\n",
        "domain": "generic",
        "generation_algorithm": "self-instruct",
        "unit_tests": json.dumps([f"\nassert add({x}) == {x + number}\n" for x in range(3)]),
        "tests_execution_status": json.dumps(["pass"] * 3),
        "average_test_score": score,
    }


def ids(problems: list) -> list[int]:
    return [int(problem.task_id, 16) for problem in problems]


def test_a_row_becomes_a_problem_with_all_its_asserts_and_one_shown(tmp_path):
    (problem,) = OpenCodeInstruct(write_rows(tmp_path, row(4))).problems("train")
    assert problem.check.test == "assert add(0) == 4\nassert add(1) == 5\nassert add(2) == 6\n"
    assert problem.public_check.test == "assert add(0) == 4\n"
    assert problem.reference == "def add(x):\n    return x + 4\n"
    assert problem.prompt[0]["content"].count("assert") == 1
    assert problem.fields == {"statement": "Add 4 to a number.", "entry_point": "add", "domain": "generic"}


def test_a_prompt_may_show_no_assert_and_asserts_may_be_stored_as_python_writes_a_list(tmp_path):
    stored = row(4) | {"unit_tests": "['assert add(0) == 4', \"assert add(1) == 5\"]"}
    (problem,) = OpenCodeInstruct(write_rows(tmp_path, stored), shown_tests=0).problems("train")
    assert problem.check.test == "assert add(0) == 4\nassert add(1) == 5\n"
    assert problem.public_check is None


def test_rows_below_the_score_and_rows_without_tests_are_left_out(tmp_path):
    rows = [row(0), row(1, score="0.9"), row(2), row(3) | {"unit_tests": "[]"}]
    path = write_rows(tmp_path, *rows)
    assert sorted(ids(OpenCodeInstruct(path).problems("train"))) == [0, 2]
    assert sorted(ids(OpenCodeInstruct(path, min_test_score=0.5).problems("train"))) == [0, 1, 2]


def test_the_subset_depends_on_the_seed_and_not_on_order_or_files(tmp_path):
    rows = [row(number) for number in range(60)]
    drawn = ids(OpenCodeInstruct(write_rows(tmp_path, *rows), num_problems=10).problems("train"))
    assert len(set(drawn)) == 10 and drawn != sorted(drawn)
    shuffled = random.Random(1).sample(rows, 60)
    shards = tmp_path / "shards"
    shards.mkdir()
    write_rows(shards, *shuffled[:25], name="a.jsonl")
    write_rows(shards, *shuffled[25:], name="b.jsonl")
    assert ids(OpenCodeInstruct(str(shards), num_problems=10).problems("train")) == drawn
    path = str(tmp_path / "rows.jsonl")
    assert ids(OpenCodeInstruct(path, num_problems=10, subset_seed=1).problems("train")) != drawn
    more = OpenCodeInstruct(path, num_problems=12, num_validation_problems=5)
    train, validation = ids(more.problems("train")), ids(more.problems("validation"))
    assert train[:10] == drawn and (len(train), len(validation)) == (12, 5) and not {*train} & {*validation}
