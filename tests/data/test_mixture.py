"""Several tasks in one run: shares, order, resume, ranks, metrics by task."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import Words, build_module, fit, weights, whole_and_resumed

from lit_rl.callbacks import ExecutionEvaluation
from lit_rl.data import Mixture, PreferMixed, ProblemLoader
from lit_rl.data.mixture import TaskShares
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution import TokenTarget
from lit_rl.types import Problem


class Letters(TaskDataModule):
    """A task of some problems."""

    def __init__(self, name: str, number: int, **options: Any) -> None:
        super().__init__(**options)
        self.name, self.number = name, number

    def load_problems(self, split: Split) -> list[Problem]:
        return [Problem(f"{i}", self.name * (1 + i % 3), TokenTarget()) for i in range(self.number)]


def task_of(problem: Problem) -> str:
    return problem.task_id.partition("/")[0]


def epoch(mixture: Mixture, ranks: int = 1) -> list[list[Problem]]:
    """Global batches of an epoch."""
    loaders = []
    for rank in range(ranks):
        mixture.trainer = type("T", (), {"global_rank": rank, "world_size": ranks, "overfit_batches": 0})()
        loaders.append(mixture.train_dataloader())
    return [[problem for part in parts for problem in part] for parts in zip(*loaders, strict=True)]


@pytest.mark.parametrize("ranks", [1, 2])
def test_each_rollout_has_each_tasks_share_and_no_problem_twice(ranks: int) -> None:
    """Weights 1, 2, 5 of 8 problems; the five of c come from 20, so an epoch of 6 rollouts takes each 1 or 2 times."""
    mixture = Mixture(
        [Letters("a", 16), Letters("b", 12), Letters("c", 20)], weights=[1, 2, 5], batch_size=8 // ranks, seed=3
    )
    batches = epoch(mixture, ranks)
    assert len(batches) == 6
    for batch in batches:
        assert Counter(map(task_of, batch)) == {"a": 1, "b": 2, "c": 5}
        assert len({problem.task_id for problem in batch}) == 8
        assert all(problem.fields["task"] == task_of(problem) for problem in batch)
    visits = Counter(problem.task_id for batch in batches for problem in batch)
    assert {count for task_id, count in visits.items() if task_id.startswith("c")} == {1, 2}


def test_shares_move_towards_what_is_solved_now_and_then() -> None:
    """Nothing of a is mixed, all of b: a keeps 0.25 of its weight, so 0.25 / 1.25 of 10 problems."""
    shares = TaskShares({"a": 1.0, "b": 1.0}, least=0.25)
    ids = [f"{task}/{i}" for task in "ab" for i in range(20)]
    order = list(range(40))

    def share_of_a() -> float:
        visits = shares.visits(ids, order, 10)
        return sum(ids[i].startswith("a") for i in visits) / len(visits)

    shares.begin()
    assert share_of_a() == 0.5
    shares.count_solved({task_id: (4 if task_id.startswith("a") else 1, 4) for task_id in ids})
    shares.count_solved({})
    shares.begin()
    assert share_of_a() == pytest.approx(0.25 / 1.25)
    again = TaskShares({"a": 1.0, "b": 1.0}, least=0.25)
    again.load_state_dict(shares.state_dict())
    assert again.visits(ids, order, 10) == shares.visits(ids, order, 10)


def test_a_mixture_in_a_mixture_is_its_tasks_with_its_weight() -> None:
    """Weights 1 and 3, the second divided 1 to 2: a 1/4, b 1/4, c 1/2; two tasks of one name are told apart."""
    inner = Mixture([Letters("b", 8), Letters("a", 8)], weights=[1, 2])
    mixture = Mixture([Letters("a", 8), inner], weights=[1, 3], batch_size=8)
    assert mixture.validation_task_names == ("a", "b", "a_2")
    for batch in epoch(mixture):
        assert Counter(map(task_of, batch)) == {"a": 2, "b": 2, "a_2": 4}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Mixture([]), "weights: expected 0 numbers"),
        (lambda: Mixture([Letters("a", 4)], weights=[1, 2]), "weights: expected 1 numbers above 0"),
        (lambda: Mixture([Letters("a", 4)], weights=[0.0]), "weights: expected 1 numbers above 0"),
        (lambda: Mixture([Letters("a", 4, prefer=PreferMixed())]), "the mixture's to decide"),
        (lambda: Mixture([Letters("a", 4), Letters("b", 0)]).problems("train"), "b has no training problems"),
        (lambda: list(epoch(Mixture([Letters("a", 2), Letters("b", 30)], batch_size=8))), "a has 2 training problems"),
        (lambda: epoch(Mixture([Letters("a", 9)], least=0.5, batch_size=3)), "goes by verdicts on programs"),
    ],
)
def test_what_cannot_be_mixed_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_a_resumed_run_ends_with_the_same_weights_and_logs_each_task(byte_tokenizer: str, tmp_path: Path) -> None:
    def data() -> Mixture:
        return Mixture([Words(), Letters("b", 6)], weights=[2, 1], batch_size=3)

    def build() -> Any:
        return build_module(byte_tokenizer, max_rollouts=9)  # an epoch has six

    whole, resumed = whole_and_resumed(build, tmp_path, 4, data=data())
    assert torch.equal(weights(whole), weights(resumed))
    module = build()
    trainer = fit(
        module,
        tmp_path,
        data=data(),
        limit_val_batches=1.0,
        val_check_interval=6,
        check_val_every_n_epoch=None,
        callbacks=[ExecutionEvaluation()],
    )
    logged = trainer.callback_metrics
    of_tasks = [float(logged[f"task/{name}/reward/mean"]) for name in ("words", "b")]
    assert float(logged["reward/mean"]) == pytest.approx((2 * of_tasks[0] + of_tasks[1]) / 3)
    assert {"val/words/greedy/reward/mean", "val/b/greedy/reward/mean"} <= logged.keys()


def test_a_position_in_the_middle_of_an_epoch_is_taken_up() -> None:
    def loader() -> ProblemLoader:
        return Mixture([Letters("a", 9), Letters("b", 9)], batch_size=3, seed=1).train_dataloader()

    whole = [[p.task_id for p in batch] for batch in loader()]
    first = loader()
    taken = iter(first)
    for _ in range(2):
        next(taken)
    second = loader()
    second.load_state_dict(first.state_dict())
    assert [[p.task_id for p in batch] for batch in second] == whole[2:]
