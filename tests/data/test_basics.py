"""The embedded task as a DataModule: distinct, disjoint, balanced, the same each time."""

import hashlib
import re
from collections import Counter

import pytest

from lit_rl.data.basics.basics_task import HELD_OUT, Basics
from lit_rl.data.basics.problems import END_OF_TURN, REPAIR_TEMPLATE, dump_normalised_tree
from lit_rl.data.task import Split
from lit_rl.execution.interface import Verdict
from lit_rl.execution.sandbox import Sandbox
from lit_rl.rollout import Attempt, Repair, find_program
from lit_rl.rollout.records import reference_answer
from lit_rl.types import Problem, StopReason


@pytest.fixture(scope="module")
def train() -> list[Problem]:
    return Basics(num_train_problems=2080).problems("train")


@pytest.fixture(scope="module")
def validation() -> list[Problem]:
    return Basics().problems("validation")


def programs(problems: list[Problem]) -> set[str]:
    return {dump_normalised_tree(str(problem.reference)) for problem in problems}


def families(problems: list[Problem]) -> Counter[str]:
    return Counter(problem.fields["family"] for problem in problems)


def test_no_validation_program_is_trained_on_under_any_seed_or_wording(
    train: list[Problem], validation: list[Problem]
) -> None:
    assert len({problem.task_id for problem in train + validation}) == len(train) + len(validation) == 2600
    other = Basics(draw_seed=1, num_train_problems=1040)
    trained = programs(train) | programs(other.problems("train"))
    assert not trained & (programs(validation) | programs(other.problems("validation")))
    assert len(trained) > 2400 and Basics().problems("test") == []


def test_held_out_families_are_never_trained_on_and_train_has_no_part_of_them(train: list[Problem]) -> None:
    held_out = Basics(families="held_out", num_validation_problems=60)
    problems = held_out.problems("validation")
    names = {family.name for family in HELD_OUT}
    assert families(problems) == dict.fromkeys(names, 30)
    assert held_out.problems("train") == [] and held_out.name == "basics_held_out"
    assert not names & families(train).keys()
    assert not programs(train) & programs(problems)


def test_six_demonstrations_in_ten_carry_their_familys_bug_in_every_family(train: list[Problem]) -> None:
    for problem in train:
        body = str(problem.reference)[len(str(problem.prompt)) : -1]
        expected = problem.fields["bug"] if problem.fields["demonstration_has_bug"] else body
        assert problem.fields["demonstration"] == expected
        assert problem.fields["bug"] != body
    with_bug = [problem for problem in train if problem.fields["demonstration_has_bug"]]
    # 80 problems a family: the standard deviation of a share of 0.6 is 0.055.
    for family, count in families(with_bug).items():
        assert 0.4 < count / 80 < 0.8, family
    assert len(with_bug) / len(train) == pytest.approx(0.6, abs=0.03)
    none, every = (Basics(num_train_problems=52, bug_share=share).problems("train") for share in (0.0, 1.0))
    assert [problem.fields["demonstration_has_bug"] for problem in none + every] == [False] * 52 + [True] * 52
    assert [problem.task_id for problem in none] == [problem.task_id for problem in every]


def test_every_process_and_version_draws_the_same_problems() -> None:
    """Whatever the seed of hashes, which differs between runs of the tests."""
    problems = Basics(num_train_problems=520).problems("train")
    parts = [
        (p.task_id, p.prompt, p.check.cases, p.check.entry_point, p.program_prefix, p.reference, p.fields)
        for p in problems
    ]
    assert hashlib.sha256(repr(parts).encode()).hexdigest() == (
        "4ffd27b758233807644fe35afa4294e8920943b79c17094fed187b6894cd5498"
    )
    assert {problem.public_check for problem in problems} == {None}


@pytest.mark.parametrize("count", [1, 4])
def test_public_and_hidden_cases_are_the_problems_cases_divided(count: int) -> None:
    """No call stands on both sides, the programs stay, and hidden cases still tell the bug from the reference."""
    for chosen, split in (("trained", "train"), ("held_out", "validation")):
        sizes = {"num_train_problems": 260, "num_validation_problems": 60}
        whole = Basics(families=chosen, **sizes).problems(split)
        divided = Basics(families=chosen, num_public_cases=count, **sizes).problems(split)
        assert [(p.task_id, p.prompt, p.reference, p.fields) for p in whole] == [
            (p.task_id, p.prompt, p.reference, p.fields) for p in divided
        ]
        for problem in divided:
            public, hidden = problem.public_check, problem.check
            assert public is not None and public.num_tests == count
            assert public.entry_point == hidden.entry_point
            shown = {repr(arguments) for arguments, _ in public.cases}
            assert len(shown) == count and not shown & {repr(arguments) for arguments, _ in hidden.cases}
            assert len({repr(expected) for _, expected in hidden.cases}) > 1


def test_the_sandbox_passes_references_on_public_cases_and_catches_bugs_on_hidden_ones(sandbox: Sandbox) -> None:
    problems = Basics(num_train_problems=52, num_public_cases=2).problems("train")
    bugs = [f"{problem.prompt}{problem.fields['bug']}\n" for problem in problems]
    right = sandbox.judge_many([(str(p.reference), p.public_check) for p in problems])
    hidden = sandbox.judge_many([(bug, p.check) for bug, p in zip(bugs, problems, strict=True)])
    public = sandbox.judge_many([(bug, p.public_check) for bug, p in zip(bugs, problems, strict=True)])
    assert all(outcome.passed for outcome in right)
    assert not any(outcome.passed for outcome in hidden)
    # Three families of 26 have one case that shows the bug, which stays hidden.
    assert sum(not outcome.passed for outcome in public) >= 0.8 * len(public)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_an_untold_constant_stands_in_the_public_case_alone(split: Split) -> None:
    sizes = {"num_public_cases": 1, "num_train_problems": 260, "num_validation_problems": 260}
    answer, problems = (Basics(untold_constants=untold, **sizes).problems(split) for untold in (False, True))
    assert [p.reference.rpartition('"""')[2] for p in problems] == [p.reference.rpartition('"""')[2] for p in answer]
    left_out = [problem for problem in problems if "untold" in problem.fields]
    assert len(families(left_out)) == 10 and len(left_out) == len(problems) * 10 // 26
    for problem in left_out:
        constant = problem.fields["untold"]
        (public,), hidden = problem.public_check.cases, problem.check.cases
        assert repr(public[1]) == repr(constant)
        assert public[0] not in [arguments for arguments, _ in hidden]
        docstring = problem.prompt.split('"""')[1]
        assert "?" in docstring and str(constant) not in re.findall(r"\w+", docstring.replace("?", "", 1))
    for problem, same in zip(problems, answer, strict=True):
        assert "untold" in problem.fields or problem == same


def test_a_second_turn_is_what_repair_says_to_the_failed_program(sandbox: Sandbox) -> None:
    """The prompt that imitation sees is, character for character, the row that a policy would stand in."""
    task = Basics(num_public_cases=1, untold_constants=True, second_turn_share=0.5, num_train_problems=104)
    problems = task.problems("train")
    second = [problem for problem in problems if problem.task_id.endswith("/turn_2")]
    assert 30 < len(second) < 74
    repair = Repair(template=REPAIR_TEMPLATE, max_message_tokens=None)
    verdicts = set()
    for problem in second:
        attempt, _, message = problem.prompt.removeprefix(problem.program_prefix).partition(END_OF_TURN)
        program = find_program(problem, attempt)
        outcome = sandbox.submit(program.source, problem.public_check).result(60)
        assert message == repair.answer(problem, [Attempt(attempt, StopReason.EOS, program, outcome)])
        verdicts.add(outcome.verdict)
        body = str(problem.reference)[len(problem.program_prefix) : -1]
        repeats = problem.fields["demonstration_has_bug"]
        assert problem.fields["demonstration"] == (attempt if repeats else body) != (body if repeats else attempt)
    assert verdicts == {Verdict.WRONG_ANSWER, Verdict.EXCEPTION}
    first_turns = Basics(num_public_cases=1, untold_constants=True, num_train_problems=104).problems("train")
    assert {p.task_id.removesuffix("/turn_2") for p in problems} == {p.task_id for p in first_turns}
    assert all("turn_2" not in problem.task_id for problem in task.problems("validation"))


def test_instruct_form_asks_for_the_same_programs(validation: list[Problem], sandbox: Sandbox) -> None:
    asked = Basics(form="instruct").problems("validation")
    for problem, plain in zip(asked, validation, strict=True):
        assert (problem.task_id, problem.check, problem.program_prefix) == (plain.task_id, plain.check, "")
        (message,) = problem.prompt
        assert message["role"] == "user" and plain.prompt in message["content"]
    solved = [reference_answer(problem) for problem in asked[:26]]
    wrong = [f"Here it is:\n{problem.fields['bug']}\n\nThis is it." for problem in asked[:26]]
    for answers, passes in ((solved, True), (wrong, False)):
        jobs = [(find_program(p, answer).source, p.check) for p, answer in zip(asked, answers, strict=False)]
        assert {outcome.passed for outcome in sandbox.judge_many(jobs)} == {passes}
