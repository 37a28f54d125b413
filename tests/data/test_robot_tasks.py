from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.robot_programs import succeeds

from lit_rl.arguments import ArgumentError
from lit_rl.data.robots.roboeval_files import read_tasks
from lit_rl.data.robots.robot_families import FAMILIES, PEOPLE, ROOMS, THINGS
from lit_rl.data.robots.robot_tasks import RobotTasks, generate, robot_problem
from lit_rl.data.robots.service_robot import FUNCTIONS
from lit_rl.data.robots.trace_checks import validate

TASKS = generate(10 * len(FAMILIES))


def test_every_reference_succeeds_in_every_world():
    for task in TASKS:
        for test in task.tests:
            validate(test.check)
        assert succeeds(task.reference, task.tests), task.instruction


def test_a_reference_without_one_of_its_calls_fails_and_so_does_doing_nothing_or_visiting_all_rooms():
    everywhere = "def task_program():\n    for room in get_all_rooms():\n        go_to(room)\n"
    for task in TASKS[: 2 * len(FAMILIES)]:
        lines = task.reference.splitlines()
        calls = [i for i, line in enumerate(lines) if any(f"{call}(" in line for call in ("say", "place", "pick"))]
        assert calls
        for i in calls:
            indent = lines[i][: len(lines[i]) - len(lines[i].lstrip())]
            broken = [*lines[:i], f"{indent}pass", *lines[i + 1 :]]
            assert not succeeds("\n".join(broken), task.tests), broken
        assert not succeeds("def task_program():\n    pass", task.tests), task.instruction
        assert not succeeds(everywhere, task.tests), task.instruction


@pytest.mark.parametrize("errands", [1, 3])
def test_a_longer_list_begins_with_a_shorter_one(errands):
    assert generate(30, num_errands=errands)[:20] == generate(20, num_errands=errands)
    assert generate(20, seed=1, num_errands=errands) != generate(20, num_errands=errands)


def test_asking_for_more_than_there_is_says_so(monkeypatch):
    monkeypatch.setattr("lit_rl.data.robots.robot_tasks.FAMILIES", (lambda rng: TASKS[rng.randrange(3)],))
    assert len(generate(3)) == 3
    with pytest.raises(ValueError, match="cannot make 4 different robot tasks, only 3"):
        generate(4)


@pytest.mark.parametrize("errands", [1, 3])
def test_validation_instructions_do_not_occur_in_training(errands):
    data = RobotTasks(num_train=40, num_validation=10, num_errands=errands)
    train = {problem.fields["instruction"] for problem in data.problems("train")}
    validation = {problem.fields["instruction"] for problem in data.problems("validation")}
    assert len(train) == 40 and len(validation) == 10 and not train & validation
    assert data.problems("test") == data.problems("validation")


def test_problems_hold_what_a_policy_and_a_judge_need():
    instruct, completion = (
        RobotTasks(num_train=3, num_validation=0, form=form).problems("train")[1] for form in ("instruct", "completion")
    )
    assert instruct.prompt[-1] == {"role": "user", "content": instruct.fields["instruction"]}
    assert instruct.program_prefix == "" and instruct.stop_strings == ()
    assert completion.prompt.endswith(f"# {completion.fields['instruction']}\ndef task_program():\n")
    assert completion.program_prefix == "def task_program():\n" and "```" in completion.stop_strings
    assert instruct.check == completion.check
    json.dumps([test.state for test in instruct.check.tests] + [test.check for test in instruct.check.tests])
    for name in FUNCTIONS:
        assert f"def {name}(" in instruct.prompt[0]["content"] and f"def {name}(" in completion.prompt


def test_names_do_not_occur_in_the_benchmark():
    checkout = os.environ.get("LIT_RL_CODEBOTLER")
    if not checkout:
        pytest.skip("no RoboEval checkout: set LIT_RL_CODEBOTLER to its root")
    tasks = read_tasks(Path(checkout))
    text = json.dumps([[task.prompts, [test.state for test in task.tests]] for task in tasks]).lower()
    assert not [name for name in (*ROOMS, *THINGS, *PEOPLE) if name.lower() in text]


@pytest.mark.parametrize(("number", "errands"), [(len(FAMILIES), 1), (6, 3)])
def test_references_succeed_in_the_sandbox_as_they_do_here(sandbox, number, errands):
    problems = RobotTasks(num_train=number, num_validation=0, num_errands=errands).problems("train")
    outcomes = sandbox.judge_many([(problem.reference, problem.check) for problem in problems])
    assert [outcome.robot_verdict for outcome in outcomes] == ["success"] * number
    assert [outcome.scores["conjuncts"] for outcome in outcomes] == [1.0] * number


def test_another_form_of_the_prompt_is_refused():
    check = RobotTasks(num_train=1).problems("train")[0].check
    with pytest.raises(ArgumentError, match="form"):
        robot_problem("a", "Go.", check, form="chat")
