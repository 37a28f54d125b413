from __future__ import annotations

import csv
import json

import pytest

from lit_rl.data.robots.robo_instruct import RoboInstruct
from lit_rl.execution import InventedWorlds

GOOD = 'def task_program():\n    go_to("Attic")\n    say("hello")'
ROWS = [
    {"prompt": "Greet the attic.", "program": GOOD, "gen_count": "1", "revision": "Go to the attic and say hello."},
    {"prompt": "Say bye.", "program": 'def task_program():\n    say("bye")', "gen_count": "2", "revision": ""},
    {"prompt": "", "program": 'def task_program():\n    say("no prompt")', "gen_count": "1", "revision": ""},
    {"prompt": "No program.", "program": "", "gen_count": "1", "revision": ""},
    {"prompt": "No call.", "program": "def task_program():\n    pass", "gen_count": "1", "revision": ""},
    {"prompt": "Left out.", "program": "def task_program():\n    say('x')\n    ...", "gen_count": "1", "revision": ""},
    {"prompt": "Say bye.", "program": 'def task_program():\n    say("other")', "gen_count": "1", "revision": ""},
    {"prompt": "Bye again.", "program": 'def task_program():\n    say("bye")', "gen_count": "1", "revision": ""},
]


@pytest.fixture(params=["csv", "jsonl"])
def path(request, tmp_path):
    file = tmp_path / f"rows.{request.param}"
    with file.open("w", newline="", encoding="utf-8") as out:
        if request.param == "csv":
            writer = csv.DictWriter(out, ROWS[0].keys())
            writer.writeheader()
            writer.writerows(ROWS)
        else:
            out.writelines(json.dumps(row) + "\n" for row in ROWS)
    return str(file)


def test_usable_rows_become_problems_with_runnable_references(path):
    first, second = RoboInstruct(path, validation_share=0).problems("train")
    assert first.fields["instruction"] == "Go to the attic and say hello."
    assert first.reference == 'def task_program():\n    go_to("attic")\n    say("hello")\n'
    assert second.fields["instruction"] == "Say bye."
    assert first.check == InventedWorlds(num_worlds=20, timeout_seconds=2.0)
    assert first.prompt[-1]["content"] == first.fields["instruction"]


def test_the_first_instruction_can_be_read_instead_of_the_revision(path):
    first = RoboInstruct(path, use_revision=False, form="completion").problems("train")[0]
    assert first.prompt.endswith("# Greet the attic.\ndef task_program():\n")


def test_validation_is_a_part_of_its_own(path):
    data = RoboInstruct(path, validation_share=0.5)
    train, validation = data.problems("train"), data.problems("validation")
    assert len(train) == len(validation) == 1
    assert train[0].task_id != validation[0].task_id
    assert data.problems("test") == validation


def test_references_are_sound_in_invented_worlds(path, sandbox):
    problems = RoboInstruct(path, validation_share=0).problems("train")
    outcomes = sandbox.judge_many([(problem.reference, problem.check) for problem in problems])
    assert [outcome.robot_verdict for outcome in outcomes] == ["success", "success"]


def test_a_file_without_usable_rows_says_so(tmp_path):
    (tmp_path / "rows.csv").write_text("prompt,program\nhello,pass\n")
    with pytest.raises(ValueError, match=r"rows\.csv has no row"):
        RoboInstruct(str(tmp_path / "rows.csv")).problems("train")
    with pytest.raises(FileNotFoundError, match="no data file"):
        RoboInstruct(str(tmp_path / "none.csv")).problems("train")
    with pytest.raises(ValueError, match="validation_share"):
        RoboInstruct("rows.csv", validation_share=1.0)
