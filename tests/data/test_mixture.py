"""Several tasks in one run: shares, order, resume, ranks, metrics by task."""

from collections import Counter
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.late_verdicts import Late, PassedAndEven, WholeText
from support.small_runs import build_module, fit, weights, whole_and_resumed

from lit_rl.callbacks import ExecutionEvaluation
from lit_rl.data import Mixture
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution import TokenTarget, Verdict
from lit_rl.rollout import FinishedRollout
from lit_rl.types import Problem


class Letters(TaskDataModule):
    def __init__(self, name: str, number: int, check: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.name, self.number, self.check = name, number, check or TokenTarget()

    def load_problems(self, split: Split) -> list[Problem]:
        fields = {"demonstration": self.name * 3}
        prompts = [self.name[:1] * (1 + i % 3) for i in range(self.number)]
        return [Problem(f"{split}{i}", prompt, self.check, fields=fields) for i, prompt in enumerate(prompts)]


def mix(*numbers: int, **options: Any) -> Mixture:
    return Mixture([Letters(name, number) for name, number in zip("abc", numbers, strict=False)], **options)


def task_of_trainer(problem: Problem) -> str:
    return problem.task_id.partition("/")[0]


def ids(batch: Any) -> list[str]:
    return [problem.task_id for problem in batch]


def epochs(mixture: Mixture, number: int = 1, ranks: int = 1) -> list[list[Problem]]:
    """Global batches of some epochs, as ranks get them row by row."""
    loaders = []
    for rank in range(ranks):
        mixture.trainer = type("T", (), {"global_rank": rank, "world_size": ranks, "overfit_batches": 0})()
        loaders.append(mixture.train_dataloader())
    batches = []
    for epoch in range(number):
        for loader in loaders:
            loader.sampler.set_epoch(epoch)
        for parts in zip(*map(list, loaders), strict=True):
            batches.append([problem for row in zip(*parts, strict=True) for problem in row])
    return batches


@pytest.mark.parametrize(
    ("numbers", "given", "batch_size", "number"),
    [
        ((16, 12, 20), [1, 2, 5], 8, 40),  # whole numbers; 30 visits of 20 problems in an epoch
        ((9, 31, 20), [0.1, 0.7, 0.45], 7, 40),
        ((4, 4, 3), [1, 1, 1], 8, 300),  # one rollout an epoch, so that rounding alike each time would show
    ],
    ids=str,
)
def test_each_rollout_has_each_tasks_share_and_no_problem_twice(
    numbers: tuple[int, ...], given: list[float], batch_size: int, number: int
) -> None:
    """To within one in a rollout, and within five standard errors (at most half a problem an epoch) in the mean."""
    batches = epochs(mix(*numbers, weights=given, batch_size=batch_size, seed=3), number)
    num_batches = sum(numbers) // batch_size
    assert len(batches) == number * num_batches
    exact = {name: batch_size * weight / sum(given) for name, weight in zip("abc", given, strict=True)}
    for batch in batches:
        assert len(set(ids(batch))) == len(batch) == batch_size
        of_tasks = Counter(map(task_of_trainer, batch))
        assert all(abs(of_tasks[name] - wanted) < 1 for name, wanted in exact.items())
        assert all(problem.fields["mixture_task"] == task_of_trainer(problem) for problem in batch)
    total = Counter(task_of_trainer(problem) for batch in batches for problem in batch)
    for name, wanted in exact.items():
        error = 0.0 if wanted == int(wanted) else 5 * 0.5 / number**0.5 / num_batches
        assert total[name] / len(batches) == pytest.approx(wanted, abs=error)
    visited = Counter(task_id for batch in batches for task_id in ids(batch))
    assert len(visited) == sum(numbers), "each problem comes"


def test_two_ranks_deal_out_the_problems_of_one() -> None:
    one, two = (mix(9, 20, weights=[1, 2], batch_size=size, seed=5) for size in (6, 3))
    assert [ids(batch) for batch in epochs(two, 3, ranks=2)] == [ids(batch) for batch in epochs(one, 3)]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: mix(4, 4, weights=[1, 0]), r"weights\[1\]: expected a finite number above 0"),
        (lambda: mix(4, 4, weights=[1.0]), "weights: expected 2 numbers, one for each task"),
        (lambda: mix(2, 30, batch_size=8).train_dataloader(), "weights: a would need 4 problems .* has only 2 "),
    ],
)
def test_what_cannot_be_mixed_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        build()
    assert "\n" not in str(refused.value)


class Sums(pl.Callback):
    """Rewards and verdicts of the last rollout by task, and whether each group is of one."""

    def on_rollout_end(self, trainer: Any, module: Any, finished: FinishedRollout) -> None:
        judgements = finished.rollout.judgements
        self.rows: dict[str, list[tuple[float, Verdict]]] = {}
        for reward, judgement in zip(finished.rewards.rewards.tolist(), judgements, strict=True):
            self.rows.setdefault(task_of_trainer(judgement.problem), []).append((reward, judgement.outcome.verdict))
        groups = finished.rollout.completions.rows_by_group().values()
        assert all(len({task_of_trainer(judgements[row].problem) for row in rows}) == 1 for rows in groups)


def programs(**options: Any) -> Mixture:
    """Tasks whose programs pass now and then, always, and never; an epoch has five rollouts."""
    checks = {"some": None, "sure": True, "never": False}
    tasks: list[TaskDataModule] = [Letters(name, 7, WholeText(passes=passes)) for name, passes in checks.items()]
    return Mixture(tasks, **{"weights": [2, 1, 1], "batch_size": 4, "seed": 4, **options})


def test_a_run_logs_each_task_and_resumes(byte_tokenizer: str, tmp_path: Path) -> None:
    def build(max_rollouts: int = 9) -> Any:
        return build_module(byte_tokenizer, sandbox=Late, rewards=[PassedAndEven()], max_rollouts=max_rollouts)

    whole, resumed = whole_and_resumed(build, tmp_path, 7, data=programs())
    assert torch.equal(weights(whole), weights(resumed))
    sums = Sums()
    validation = {"limit_val_batches": 1.0, "val_check_interval": 2, "check_val_every_n_epoch": None}
    trainer = fit(build(2), tmp_path, data=programs(), callbacks=[sums, ExecutionEvaluation()], **validation)
    logged = trainer.callback_metrics
    assert {name: len(rows) for name, rows in sums.rows.items()} == {"some": 8, "sure": 4, "never": 4}
    for name, rows in sums.rows.items():
        passed = sum(verdict is Verdict.PASSED for _, verdict in rows) / len(rows)
        assert float(logged[f"task/{name}/reward/mean"]) == pytest.approx(sum(one for one, _ in rows) / len(rows))
        assert float(logged[f"task/{name}/verdict/passed_fraction"]) == pytest.approx(passed)
        assert float(logged[f"task/{name}/execution/pass_rate"]) == pytest.approx(passed)
    assert [float(logged[f"val/{name}/greedy/pass@1"]) for name in ("sure", "never")] == [1, 0]
    assert {"val/some/greedy/pass@1", "val/some/greedy/reward/mean"} <= logged.keys()
