from __future__ import annotations

import random
import re
from functools import cache

import pytest
from support.robot_programs import succeeds, trace_of

from lit_rl.data.robots.robot_families import PEOPLE, ROOMS, THINGS
from lit_rl.data.robots.robot_tasks import RobotTasks, generate, one_program
from lit_rl.data.robots.trace_checks import holds, validate

NUMBERS = (2, 3, 4)
LINES = {2: (10, 19), 3: (16, 26), 4: (23, 32)}


@cache
def tasks(number: int) -> list:
    return generate(60, num_errands=number)


def references(task) -> list[str]:
    return [errand.task.reference for errand in task.errands]


def done(program: str, task) -> list[bool]:
    """Of each errand, whether the program does it in every world."""
    traces = [(test, trace_of(program, test.state)) for test in task.tests]
    return [all(holds(test.check[1 + i], trace) for test, trace in traces) for i in range(len(task.errands))]


@pytest.mark.parametrize("number", NUMBERS)
def test_every_reference_succeeds_in_every_world(number):
    for task in tasks(number)[:30]:
        for test in task.tests:
            validate(test.check)
            assert test.check[0] == "and" and len(test.check) == 1 + number
        assert succeeds(task.reference, task.tests)


@pytest.mark.parametrize("number", NUMBERS)
def test_programs_are_as_long_as_promised(number):
    least, most = LINES[number]
    assert all(least <= len(task.reference.splitlines()) <= most for task in tasks(number))


@pytest.mark.parametrize("number", NUMBERS)
def test_errands_can_be_run_in_any_order(number):
    for task in tasks(number)[:10]:
        shuffled = random.Random(task.instruction).sample(references(task), number)
        assert succeeds(one_program(shuffled), task.tests)


@pytest.mark.parametrize("number", NUMBERS)
def test_an_errand_left_out_is_the_only_one_not_done(number):
    for task in tasks(number)[:10]:
        for missing in range(number):
            program = one_program([one for i, one in enumerate(references(task)) if i != missing])
            assert done(program, task) == [i != missing for i in range(number)]


@pytest.mark.parametrize("number", NUMBERS)
def test_no_two_errands_are_about_the_same_names(number):
    for task in tasks(number):
        for errand in task.errands:
            own = {*errand.names.rooms, *errand.names.things, *errand.names.people}
            said = {name for name in (*ROOMS, *THINGS, *PEOPLE) if re.search(rf"\b{name}\b", errand.task.instruction)}
            assert said and said <= own
        names = [name for e in task.errands for name in (*e.names.rooms, *e.names.things, *e.names.people)]
        assert len(names) == len(set(names))


def test_every_world_of_every_errand_is_met():
    for task in tasks(3):
        for i, errand in enumerate(task.errands):
            assert {str(test.check) for test in errand.task.tests} == {str(test.check[1 + i]) for test in task.tests}


def test_a_problem_lists_its_errands():
    problem = RobotTasks(num_train=1, num_validation=0, num_errands=3, form="completion").problems("train")[0]
    errands = problem.fields["errands"]
    assert len(errands) == 3
    assert all(errand["instruction"] in problem.fields["instruction"] for errand in errands)
    assert one_program([errand["reference"] for errand in errands]) == problem.reference
    assert "\n" not in problem.fields["instruction"]


@pytest.mark.parametrize("number", [0, 5, 2.0, True, "3"])
def test_another_number_of_errands_is_refused(number):
    with pytest.raises(ValueError, match=r"num_errands: expected (int|a whole number from 1 to 4), got"):
        RobotTasks(num_errands=number)
