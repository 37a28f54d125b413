"""The loader: every problem once, dealt to ranks without duplicates, resumed where it stopped."""

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from lit_rl.data import Mixture
from lit_rl.data.problem_loader import ProblemLoader
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution import AssertTests, TokenTarget
from lit_rl.rollout import find_program, reference_answer
from lit_rl.types import Problem


def problems(count: int) -> list[Problem]:
    return [Problem(str(i), "p" * (i + 1), TokenTarget()) for i in range(count)]


def ids(batch: tuple[Problem, ...]) -> list[str]:
    return [problem.task_id for problem in batch]


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_evaluation_sees_each_problem_once_on_any_number_of_ranks(world_size: int) -> None:
    """Item 67: five problems, ranks with unequal shares, as many batches on each."""
    loaders = [ProblemLoader(problems(5), 2, rank=r, world_size=world_size) for r in range(world_size)]
    batches = [list(loader) for loader in loaders]
    assert len({len(of_rank) for of_rank in batches}) == 1
    seen = [i for of_rank in batches for batch in of_rank for i in ids(batch)]
    assert sorted(seen) == ["0", "1", "2", "3", "4"]


def test_ranks_together_read_what_one_rank_reads() -> None:
    """Item 54. The global batch is the same set of problems for one rank of four and two ranks of two."""
    one = ProblemLoader(problems(16), 4, shuffle=True, drop_last=True, seed=7)
    two = [ProblemLoader(problems(16), 2, shuffle=True, drop_last=True, seed=7, rank=r, world_size=2) for r in (0, 1)]
    for whole, *parts in zip(one, *two, strict=True):
        assert sorted(ids(whole)) == sorted(ids(parts[0]) + ids(parts[1]))


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_a_restored_loader_goes_on_with_the_next_batch(stop: int) -> None:
    """Item 55; four batches an epoch, the border included."""

    def make() -> ProblemLoader:
        return ProblemLoader(problems(12), 3, shuffle=True, drop_last=True, seed=1)

    def stream(loader: ProblemLoader, epoch: int, count: int) -> list[list[str]]:
        batches: list[list[str]] = []
        while len(batches) < count:
            loader.set_epoch(epoch)
            batches += [ids(batch) for batch in islice(loader, count - len(batches))]
            epoch += 1
        return batches

    whole = stream(make(), 0, 9)
    first = make()
    assert stream(first, 0, stop) == whole[:stop]
    second = make()
    second.load_state_dict(first.state_dict())
    # A finished epoch goes on with the next one, as Lightning's loop does.
    assert stream(second, 0 if stop < 4 else 1, 9 - stop) == whole[stop:]


class Given(TaskDataModule):
    """Five problems in every split, or what it is given."""

    def __init__(self, given: Any = None, name: str = "given", **options: Any) -> None:
        super().__init__(**options)
        self.given, self.name = problems(5) if given is None else given, name

    def load_problems(self, split: Split) -> list[Problem]:
        return self.given  # type: ignore[no-any-return]


def test_problems_that_do_not_fit_are_counted_and_left_out_before_the_limit() -> None:
    task = Given(max_train_problems=2, max_validation_problems=4, validation_tasks=[Given()])
    assert [len(task.problems(split)) for split in ("train", "validation", "test")] == [2, 4, 4]
    task.set_problem_filter(lambda given, name, split: [problem for problem in given if len(problem.prompt) > 2])
    assert ids(tuple(task.problems("train"))) == ["2", "3"]
    assert task.left_out["train"] == 2
    assert task.validation_tasks is not None
    assert len(task.validation_tasks[0].problems("validation")) == 3
    for empty in (task, Mixture([Given()])):
        empty.set_problem_filter(lambda given, name, split: [])
        with pytest.raises(ValueError, match=r"needs 8 problems .* got 0: .* all prompts are too long"):
            empty.train_dataloader()


def test_problems_of_one_name_are_refused() -> None:
    """The name is that of a random stream, of a verdict that is looked up, and of a row in pass@k."""
    twins = [Problem(task_id, "p", TokenTarget()) for task_id in ("a", "b", "a", "a")]
    with pytest.raises(ValueError, match="given: 'a' is the task_id of 3 train problems"):
        Given(twins).problems("train")


def test_validation_tasks_find_programs_as_the_task_they_belong_to_unless_they_say_otherwise() -> None:
    tasks: list[TaskDataModule] = [Given(), Given(extraction="answer")]
    task = Given(extraction="last_block", validation_tasks=tasks)
    assert {p.extraction for p in task.problems("train")} == {"last_block"}
    assert [{p.extraction for p in t.problems("validation")} for t in tasks] == [{"last_block"}, {"answer"}]
    assert {p.extraction for p in Given().problems("train")} == {"answer"}


BEGUN = [{"role": "user", "content": "Finish it:\n{prompt}\n{x}"}, {"role": "assistant", "content": "So:\n```python\n"}]


class Begins(TaskDataModule):
    """One function to finish, with blanks around its prompt."""

    def load_problems(self, split: Split) -> list[Problem]:
        text = "\ndef f(x):\n"
        right, check = text + "    return {x}\n", AssertTests("assert f(1) == {1}")
        return [Problem("p", text, check, program_prefix=text, stop_strings=("\ndef",), reference=right)]


@pytest.mark.parametrize("stops", [None, ["\n```\n"]])
def test_a_chat_is_put_around_the_prompt_and_its_answer_is_the_whole_program(stops: list[str] | None) -> None:
    """A task in completion form; what the chat has begun the answer does not repeat."""
    (plain,) = Begins(stop_strings=stops).problems("train")
    assert plain.stop_strings == ("\ndef",) if stops is None else ("\n```\n",)
    (asked,) = Begins(chat=BEGUN, stop_strings=stops).problems("train")
    assert [message["content"] for message in asked.prompt] == ["Finish it:\ndef f(x):\n{x}", "So:\n```python\n"]
    assert (asked.program_prefix, asked.stop_strings) == ("", tuple(stops or ()))
    answer = reference_answer(asked)
    assert answer == "def f(x):\n    return {x}\n```"
    found = find_program(asked, answer)
    assert found is not None and found.source == "def f(x):\n    return {x}\n"
    (unbegun,) = Begins(chat=BEGUN[:1]).problems("train")
    assert reference_answer(unbegun) == f"```python\n{answer}"


@pytest.mark.parametrize(("taken", "twice"), [(2, True), (4, False)])
def test_other_problems_of_the_same_number_are_told(taken: int, twice: bool, recwarn: pytest.WarningsRecorder) -> None:
    """In another order, or with another prompt under the same name; at the end of an epoch no problem comes twice."""
    given = problems(12)
    first = ProblemLoader(given, 3, shuffle=True, drop_last=True)
    list(islice(first, taken))
    state = first.state_dict() | ({} if twice else {"epoch": 1, "position": 0})
    ProblemLoader(problems(12), 3, shuffle=True, drop_last=True).load_state_dict(state)
    for others in (given[::-1], [*given[:-1], replace(given[-1], prompt="another")]):
        with pytest.warns(UserWarning, match="differ from the checkpoint's, or are in another order") as answer:
            ProblemLoader(others, 3, shuffle=True, drop_last=True).load_state_dict(state)
        assert ("come twice" in str(answer[0].message)) is twice
    assert not recwarn.list
