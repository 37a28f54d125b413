"""Dynamic sampling: groups without a learning signal are replaced by others, up to a cap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.small_runs import fit, weights
from support.two_turns import rows_of

from lit_rl.execution import Outcome, TokenTarget, Verdict
from lit_rl.models.padding import pad_left
from lit_rl.models.sampling import RandomKey
from lit_rl.modules import GRPO, RolloutModule
from lit_rl.rollout import Rollout
from lit_rl.rollout.resampling import FreshProblems, one_sided_groups, replace_groups
from lit_rl.types import Experience, Judgement, Problem

Make = Callable[..., RolloutModule]

GROUP = 4


class Verdicts(GRPO):
    """Completions of most problems all fail; those of some pass by turns."""

    informative: tuple[int, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: list[list[str]] = []
        self.keys: list[RandomKey] = []
        self._sample = self.collector.collect
        self.collector.collect = self.sample  # type: ignore[method-assign]

    def sample(self, problems: Sequence[Problem], *args: Any) -> Rollout:
        rollout = self._sample(problems, *args)
        self.calls.append([problem.task_id for problem in problems])
        self.keys.append(args[1])
        judgements = []
        for row, judgement in enumerate(rollout.judgements):
            mixed = int(judgement.problem.task_id.removeprefix("train")) in self.informative
            verdict = Verdict.PASSED if mixed and row % 2 else Verdict.WRONG_ANSWER
            judgements.append(replace(judgement, outcome=Outcome(verdict)))
        return replace(rollout, judgements=tuple(judgements))

    def make_experience(self, rollout: Rollout, rewards: Any) -> Experience:
        self.rollout = rollout
        self.kept = [judgement.problem.task_id for judgement in rollout.judgements]
        assert [problem.task_id for problem in rollout.completions.problems] == self.kept
        return super().make_experience(rollout, rewards)


def test_one_sided_groups_are_sampled_again_up_to_a_cap(make_module: Make, tmp_path: Path) -> None:
    """Item 23: verdicts decide, though the shaped rewards of every group differ."""
    module: Any = make_module(Verdicts, max_resamples=2, max_rollouts=1)
    fit(module, tmp_path)
    assert [len(call) for call in module.calls] == [3, 3, 3]
    seen = [task_id for call in module.calls for task_id in call]
    assert len(set(seen)) == 9, "a problem came twice in one rollout"
    assert module.kept == [task_id for task_id in module.calls[2] for _ in range(GROUP)]
    assert module.trainer.callback_metrics["group/resampled_fraction"] == 1.0
    assert module.trainer.global_step == 1


class HalfOfThem(Verdicts):
    informative = (0, 2, 4, 6, 8, 10)


def test_only_one_sided_groups_are_replaced_and_in_their_places(make_module: Make, tmp_path: Path) -> None:
    """Item 19; widths of prompts and completions differ between the two samplings."""
    module: Any = make_module(HalfOfThem, max_resamples=9, max_rollouts=1)
    fit(module, tmp_path)
    first = module.calls[0]
    even = [int(task_id.removeprefix("train")) % 2 == 0 for task_id in first]
    assert 0 < sum(even) < 3
    kept = module.kept[::GROUP]
    assert [k == f for k, f in zip(kept, first, strict=True)] == even
    assert all(int(task_id.removeprefix("train")) % 2 == 0 for task_id in kept)
    assert module.trainer.callback_metrics["group/resampled_fraction"] == pytest.approx((3 - sum(even)) / 3)
    completions = module.rollout.completions
    codec = module.policy.codec
    ids, mask = pad_left([codec.encode_problem(j.problem) for j in module.rollout.judgements], codec.pad_id, "cpu")
    assert torch.equal(completions.prompt_mask, mask)
    assert torch.equal(completions.prompt_ids * mask, ids * mask)
    again: Any = make_module(HalfOfThem, max_resamples=9, max_rollouts=1)
    fit(again, tmp_path)
    assert again.calls == module.calls and torch.equal(weights(again), weights(module))


def test_resampling_ends_when_no_problem_is_left(make_module: Make, tmp_path: Path) -> None:
    """Twelve problems, three at a time: three times three fresh ones, then none."""
    module: Any = make_module(Verdicts, max_resamples=50, max_rollouts=1)
    fit(module, tmp_path)
    assert [len(call) for call in module.calls] == [3, 3, 3, 3]


def test_each_attempt_and_each_rollout_draws_numbers_of_its_own(
    make_module: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[RandomKey] = []

    class Fresh(FreshProblems):
        def __init__(self, problems: Any, batch: Any, key: RandomKey, rank: int) -> None:
            orders.append(key)
            super().__init__(problems, batch, key, rank)

    monkeypatch.setattr("lit_rl.rollout.rollout_collector.FreshProblems", Fresh)
    module: Any = make_module(Verdicts, max_resamples=2, max_rollouts=2)
    fit(module, tmp_path)
    assert len(module.keys) == len({key.seed_of_stream("train0", 0) for key in module.keys}) == 6
    assert len(orders) == len(set(orders)) == 2


def test_ranks_draw_different_fresh_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two and three problems are taken; of the other seven the ranks want two and three, then one each."""
    problems = [Problem(f"{i}", "", TokenTarget()) for i in range(12)]
    batches, drawn = [problems[:2], problems[2:5]], []
    for rank, wanted in ((0, (2, 1)), (1, (3, 1))):
        answers = iter([[[problem.task_id for problem in batch] for batch in batches], [[2], [3]], [[1], [1]]])
        monkeypatch.setattr("lit_rl.rollout.resampling.gather_over_ranks", lambda value, answers=answers: next(answers))
        fresh = FreshProblems(problems, batches[rank], RandomKey(0, "resample", 0), rank)
        drawn += [problem.task_id for count in wanted for problem in fresh.take(count)]
    assert sorted(drawn, key=int) == [f"{i}" for i in range(5, 12)]


def test_what_could_not_be_judged_is_no_failure_of_a_group() -> None:
    """Groups of three: all that were judged passed, all failed, some of each, and nothing was judged."""
    ours, passed, wrong = Verdict.INFRASTRUCTURE_FAILURE, Verdict.PASSED, Verdict.WRONG_ANSWER
    verdicts = [passed, ours, passed, wrong, wrong, ours, passed, wrong, ours, ours, ours, ours]
    judgements = [SimpleNamespace(outcome=Outcome(verdict)) for verdict in verdicts]
    groups = {number: list(range(number * 3, number * 3 + 3)) for number in range(4)}
    rollout: Any = SimpleNamespace(judgements=judgements, completions=SimpleNamespace(rows_by_group=lambda: groups))
    assert one_sided_groups(rollout) == [0, 1, 3]


def test_groups_of_other_sizes_take_over_places_and_numbers() -> None:
    """Groups 4, 2 and 7, the last one's rows apart; 4 and 7 are replaced by groups of one and three rows."""

    def of(numbers: list[int], first: int) -> Rollout:
        rows = rows_of([[119]] * len(numbers), [[[first + i] * (1 + i % 3)] for i in range(len(numbers))])
        judgements = tuple(Judgement(problem, None, Outcome(Verdict.NO_PROGRAM)) for problem in rows.problems)
        return Rollout(replace(rows, group_ids=torch.tensor(numbers)), judgements)

    both = replace_groups(of([7, 4, 4, 2, 7], 10), [4, 7], of([0, 1, 1, 1], 50))
    assert both.completions.group_ids.tolist() == [7, 7, 7, 4, 2]
    assert both.completions.completion_ids[:, 0].tolist() == [51, 52, 53, 50, 13]
    assert both.completions.rows_by_group() == {7: [0, 1, 2], 4: [3], 2: [4]}
    found = [len(turns[-1].text) for turns in both.completions.turns]
    assert found == both.completions.lengths.tolist() == [2, 3, 1, 1, 1]
