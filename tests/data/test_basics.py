"""The embedded task as a DataModule: distinct, disjoint, balanced, the same each time."""

from __future__ import annotations

import doctest
import hashlib
import logging
import pickle
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from lit_rl.data.basics.basics_task import HELD_OUT, SOLVED, TRAINED, Basics
from lit_rl.data.basics.problems import END_OF_TURN, REPAIR_TEMPLATE, Rendering, normalised, problems_of
from lit_rl.data.prompts import Form
from lit_rl.data.task import Split
from lit_rl.execution.interface import Verdict
from lit_rl.execution.sandbox import Sandbox
from lit_rl.rollout import Attempt, Repair, find_program
from lit_rl.rollout.records import reference_answer
from lit_rl.types import Problem, StopReason


@pytest.fixture(scope="module")
def train() -> list[Problem]:
    return Basics().problems("train")


@pytest.fixture(scope="module")
def validation() -> list[Problem]:
    return Basics().problems("validation")


def programs(problems: list[Problem]) -> set[str]:
    return {normalised(str(problem.reference)) for problem in problems}


def test_there_are_thousands_of_distinct_problems(train: list[Problem], validation: list[Problem]) -> None:
    assert len(train) == 8192
    assert len(validation) == 520
    assert len({problem.task_id for problem in train + validation}) == len(train) + len(validation)
    assert Basics().problems("test") == []
    assert len(programs(train)) > 5000


def test_no_validation_program_is_trained_on_under_any_seed_or_wording(validation: list[Problem]) -> None:
    measured = programs(validation)
    for seed in (0, 1):
        trained = programs(Basics(draw_seed=seed, num_train_problems=2600).problems("train"))
        assert not trained & measured
    assert not trained & programs(Basics(draw_seed=7).problems("validation"))


def test_held_out_families_are_never_trained_on_and_train_has_no_part_of_them(train: list[Problem]) -> None:
    held_out = Basics(families="held_out", num_validation_problems=60)
    problems = held_out.problems("validation")
    names = {family.name for family in HELD_OUT}
    assert Counter(problem.fields["family"] for problem in problems) == dict.fromkeys(names, 30)
    assert held_out.problems("train") == []
    assert not names & {problem.fields["family"] for problem in train}
    assert not programs(train) & programs(problems)


def test_held_out_families_are_a_second_validation_task_with_its_own_name() -> None:
    task = Basics(
        validation_tasks=[
            Basics(num_validation_problems=26),
            Basics(families="held_out", num_validation_problems=4),
        ]
    )
    assert task.validation_task_names == ("basics", "basics_held_out")
    assert [len(loader.problems) for loader in task.val_dataloader()] == [26, 4]


def test_families_take_turns_so_that_any_first_part_is_balanced(validation: list[Problem]) -> None:
    assert set(Counter(problem.fields["family"] for problem in validation).values()) == {520 // len(TRAINED)}
    first = Basics(max_validation_problems=2 * len(TRAINED)).problems("validation")
    assert set(Counter(problem.fields["family"] for problem in first).values()) == {2}
    uneven = Counter(problem.fields["family"] for problem in Basics(num_train_problems=100).problems("train"))
    assert sum(uneven.values()) == 100
    assert set(uneven.values()) == {100 // len(TRAINED), 100 // len(TRAINED) + 1}


def test_another_process_with_another_hash_seed_draws_the_same_problems() -> None:
    code = (
        "import hashlib; from lit_rl.data.basics.basics_task import Basics; "
        "d = Basics(num_train_problems=52, num_validation_problems=52, draw_seed=3); "
        "print(hashlib.sha256(repr(d.problems('train') + d.problems('validation')).encode()).hexdigest())"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    task = Basics(num_train_problems=52, num_validation_problems=52, draw_seed=3)
    here = repr(task.problems("train") + task.problems("validation"))
    assert other.strip() == hashlib.sha256(here.encode()).hexdigest()
    assert Basics(num_train_problems=52, draw_seed=3).problems("train") != Basics(num_train_problems=52).problems(
        "train"
    )


def test_six_demonstrations_in_ten_carry_their_familys_bug_in_every_family(train: list[Problem]) -> None:
    for problem in train:
        body = str(problem.reference)[len(str(problem.prompt)) : -1]
        expected = problem.fields["bug"] if problem.fields["demonstration_has_bug"] else body
        assert problem.fields["demonstration"] == expected
        assert problem.fields["bug"] != body
    bugs = Counter(problem.fields["family"] for problem in train if problem.fields["demonstration_has_bug"])
    # About 315 problems a family: the standard deviation of a share of 0.6 is 0.028.
    for family, count in Counter(problem.fields["family"] for problem in train).items():
        assert 0.5 < bugs[family] / count < 0.7, family
    assert sum(bugs.values()) / len(train) == pytest.approx(0.6, abs=0.02)


def test_the_share_of_bugs_is_said_and_can_be_none_or_all(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        none = Basics(num_train_problems=52, bug_share=0.0).problems("train")
        every = Basics(num_train_problems=52, bug_share=1.0).problems("train")
    assert [problem.fields["demonstration_has_bug"] for problem in none + every] == [False] * 52 + [True] * 52
    assert [problem.task_id for problem in none] == [problem.task_id for problem in every]
    assert "0 demonstrations (0.0%) carry their family's bug (bug_share 0.0)" in caplog.text


def test_problems_cross_process_borders(validation: list[Problem]) -> None:
    assert pickle.loads(pickle.dumps(validation[:26])) == validation[:26]


def test_more_problems_than_a_family_has_programs_is_an_error_that_says_so() -> None:
    family = next(family for family in TRAINED if family.name == "replace_sign")
    # 10 signs, 9 others, 6 names: 540 programs, and about a fifth of them for validation.
    with pytest.raises(ValueError, match=r"replace_sign has only \d\d+ distinct validation programs, got a request"):
        list(problems_of(family, 540, seed=0, split="validation", rendering=Rendering(bug_share=0.6)))


def test_default_problems_are_those_of_before_public_cases() -> None:
    problems = Basics(num_train_problems=520).problems("train")
    parts = [(p.task_id, p.prompt, p.check, p.program_prefix, p.reference, p.fields) for p in problems]
    written = repr(parts).replace(", language='python'", "")  # a later field of checks
    assert hashlib.sha256(written.encode()).hexdigest() == (
        "a8e6043fd75e3462112900d32f8c5a6aaafb80e8ea5e4240e75902771a61cd8f"
    )
    assert {problem.public_check for problem in problems} == {None}


@pytest.mark.parametrize("count", [1, 4])
def test_public_and_hidden_cases_are_the_problems_cases_divided(count: int) -> None:
    """No call stands on both sides, the programs stay, and hidden cases still tell the bug from the reference."""
    for families, split in (("trained", "train"), ("held_out", "validation")):
        sizes = {"num_train_problems": 520, "num_validation_problems": 60}
        whole = Basics(families=families, **sizes).problems(split)
        divided = Basics(families=families, num_public_cases=count, **sizes).problems(split)
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


def test_public_cases_can_stand_in_the_prompt_as_examples() -> None:
    sizes = {"num_train_problems": 260, "num_public_cases": 2}
    plain, shown = (Basics(show_public_cases=show, **sizes).problems("train") for show in (False, True))
    for before, after in zip(plain, shown, strict=True):
        assert (before.task_id, before.check, before.public_check, before.fields) == (
            after.task_id, after.check, after.public_check, after.fields,
        )  # fmt: skip
        space: dict = {}
        exec(str(after.reference), space)  # our own source
        function = space[after.check.entry_point]
        (found,) = doctest.DocTestFinder(recurse=False).find(function, "f", globs=space, module=False)
        assert [eval(f"({e.source.split('(', 1)[1].rstrip()[:-1]},)") for e in found.examples] == [
            arguments for arguments, _ in after.public_check.cases
        ]
        assert [eval(e.want) for e in found.examples] == [expected for _, expected in after.public_check.cases]
        assert str(after.prompt) in str(after.reference) and after.prompt.startswith(before.prompt.split('"""')[0])


def test_the_seed_of_a_run_changes_the_order_and_not_the_problems() -> None:
    """Runs of several seeds are compared on the same validation problems."""
    first, second = (Basics(num_train_problems=52, num_validation_problems=52, seed=seed) for seed in (0, 1))
    assert first.problems("validation") == second.problems("validation")
    assert first.problems("train") == second.problems("train")
    assert list(first.train_dataloader()) != list(second.train_dataloader())


def untold() -> Basics:
    return Basics(num_public_cases=1, untold_constants=True, num_train_problems=520, num_validation_problems=260)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_an_untold_constant_stands_in_the_public_case_alone(split: Split) -> None:
    told = Basics(num_public_cases=1, num_train_problems=520, num_validation_problems=260).problems(split)
    problems = untold().problems(split)
    assert [p.reference.rpartition('"""')[2] for p in problems] == [p.reference.rpartition('"""')[2] for p in told]
    left_out = [problem for problem in problems if "untold" in problem.fields]
    assert len({problem.fields["family"] for problem in left_out}) == 10
    assert len(left_out) == len(problems) * 10 // 26
    for problem in left_out:
        constant = problem.fields["untold"]
        (public,), hidden = problem.public_check.cases, problem.check.cases
        assert repr(public[1]) == repr(constant)
        assert public[0] not in [arguments for arguments, _ in hidden]
        docstring = problem.prompt.split('"""')[1]
        assert "?" in docstring and str(constant) not in re.findall(r"\w+", docstring.replace("?", "", 1))
    for problem, same in zip(problems, told, strict=True):
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
        right = find_program(problem, str(problem.reference).removeprefix(problem.program_prefix))
        assert sandbox.submit(right.source, problem.check).result(60).passed
        body = str(problem.reference)[len(problem.program_prefix) : -1]
        repeats = problem.fields["demonstration_has_bug"]
        assert problem.fields["demonstration"] == (attempt if repeats else body) != (body if repeats else attempt)
    assert verdicts == {Verdict.WRONG_ANSWER, Verdict.EXCEPTION}
    first_turns = Basics(num_public_cases=1, untold_constants=True, num_train_problems=104).problems("train")
    assert {p.task_id.removesuffix("/turn_2") for p in problems} == {p.task_id for p in first_turns}
    assert all("turn_2" not in problem.task_id for problem in task.problems("validation"))


def test_in_the_tellable_families_every_docstring_lacks_a_constant() -> None:
    """The two splits have the ten families of the whole task whose constants a public case can tell."""
    task = Basics(families="tellable", num_public_cases=1, untold_constants=True, num_train_problems=100)
    of_all = {p.fields["family"] for p in untold().problems("train") if "untold" in p.fields}
    for split in ("train", "validation"):
        problems = task.problems(split)
        assert all("untold" in problem.fields for problem in problems)
        assert {problem.fields["family"] for problem in problems} == of_all
    assert len(of_all) == 10


def test_instruct_form_asks_for_the_same_programs(validation: list[Problem]) -> None:
    asked = Basics(form="instruct", few_shot=2).problems("validation")
    assert [problem.task_id for problem in asked] == [problem.task_id for problem in validation]
    assert [problem.check for problem in asked] == [problem.check for problem in validation]
    for problem, plain in zip(asked, validation, strict=True):
        assert [message["role"] for message in problem.prompt] == ["user", "assistant"] * 2 + ["user"]
        assert plain.prompt in problem.prompt[-1]["content"]
        assert all(plain.prompt not in message["content"] for message in problem.prompt[:-1])
        assert problem.program_prefix == ""


@pytest.mark.parametrize("form", ["completion", "instruct"])
def test_javascript_has_the_same_problems_and_its_programs_are_found(form: Form) -> None:
    """The same functions, cases, splits and bugs in both languages, so that what is held out is held out in both."""
    sizes = {"num_validation_problems": 52, "num_public_cases": 1, "untold_constants": True}
    ours, theirs = (Basics(language=one, form=form, **sizes) for one in ("javascript", "python"))
    assert (ours.name, theirs.name) == ("basics_javascript", "basics")
    for problem, python in zip(ours.problems("validation"), theirs.problems("validation"), strict=True):
        assert problem.task_id == python.task_id
        assert problem.check == replace(python.check, language="javascript")
        assert problem.public_check == replace(python.public_check, language="javascript")
        assert problem.fields["demonstration_has_bug"] == python.fields["demonstration_has_bug"]
        program = find_program(problem, problem.fields["bug" if form == "instruct" else "demonstration"])
        assert program is not None and program.source.startswith(f"function {problem.check.entry_point}(")
        assert program.source.rstrip().endswith("\n}")
        answer = reference_answer(problem)
        found = find_program(problem, answer)
        assert found is not None and found.source.strip() == problem.reference.strip()


def test_a_fenced_answer_passes_in_instruct_form_and_its_bug_does_not(sandbox: Sandbox) -> None:
    problems = Basics(form="instruct", num_validation_problems=26, bug_share=0.0).problems("validation")
    solved = [problem.fields["demonstration"] for problem in problems]
    wrong = [f"Here it is:\n{problem.fields['bug']}\n\nThis is it." for problem in problems]
    for answers, passes in ((solved, True), (wrong, False)):
        programs = [find_program(problem, answer) for problem, answer in zip(problems, answers, strict=True)]
        assert all(program is not None for program in programs)
        jobs = [(p.source, problem.check) for p, problem in zip(programs, problems, strict=True) if p is not None]
        assert {outcome.passed for outcome in sandbox.judge_many(jobs)} == {passes}


def test_examples_of_instruct_form_work_and_are_of_no_family(train: list[Problem], validation: list[Problem]) -> None:
    shown = {normalised(head + body + "\n") for head, body in SOLVED}
    assert not shown & (programs(train) | programs(validation))
    spaces: list[dict[str, Any]] = [{} for _ in SOLVED]
    for space, (head, body) in zip(spaces, SOLVED, strict=True):
        exec(head + body, space)
    assert [spaces[0]["mean"]([]), spaces[0]["mean"]([1, 2])] == [5, 1.5]
    assert spaces[1]["shout"]("hey") == "HEY???"
    assert [spaces[2]["odd"](n) for n in (7, 8, 9)] == [False, False, True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bug_share": 60}, r"bug_share is a share in \[0, 1\], got 60"),
        ({"families": "heldout"}, "families: expected one of .*'tellable', got 'heldout'"),
        ({"num_public_cases": 5}, "num_public_cases: expected 0 to 4, got 5; at least half of the 8 cases stay hidden"),
        ({"show_public_cases": True}, "show_public_cases: expected cases to show, got num_public_cases=0"),
        ({"untold_constants": True}, "need a public case, got num_public_cases=0: set it to 1 or more"),
        ({"second_turn_share": 0.5}, "need a public case, got num_public_cases=0: set it to 1 or more"),
        ({"num_public_cases": 1, "second_turn_share": 50}, r"second_turn_share is a share in \[0, 1\], got 50"),
        ({"few_shot": 1}, "0 in completion form, got 1"),
        ({"few_shot": 4, "form": "instruct"}, "0 to 3 in instruct form"),
        ({"second_turn_share": 0.5, "num_public_cases": 1, "form": "instruct"}, "second_turn_share is for completion"),
        ({"language": "javascript", "few_shot": 1, "form": "instruct"}, "are for Python, got language='javascript'"),
        ({"language": "java"}, "language: expected one of 'python', 'javascript', got 'java'"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Basics(**options)
