"""Measurements of a rollout in training, on numbers that can be checked by eye, and in real small runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rollout.test_collector import Watcher
from support.completions import batch
from support.small_runs import EvenBytes, build_module, fit
from support.two_turns import rows_of

from lit_rl.callbacks import ExecutionEvaluation
from lit_rl.execution import AssertTests, Outcome, Verdict
from lit_rl.models import CorridorPolicy
from lit_rl.models.sampling import StreamKey
from lit_rl.modules import GRPO, RolloutModule
from lit_rl.modules.rollout_metrics import measure_entropy, metrics_of_rollout
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.training.progress import Progress
from lit_rl.training.ranks import Means
from lit_rl.types import Experience, Judgement, Problem, Program

P, W, LOST = Verdict.PASSED, Verdict.WRONG_ANSWER, Verdict.INFRASTRUCTURE_FAILURE


def measured(
    verdicts: list[Verdict],
    rewards: list[float],
    advantages: list[float],
    logprobs: Any = None,
    old: Any = None,
    group_size: int = 1,
) -> dict[str, float]:
    """Rows of two tokens, the second of the last row padding; the sampler gave each token -1 nat."""
    n = len(verdicts)
    completions = batch(["a"] * n)
    mask = torch.ones(n, 2, dtype=torch.bool)
    mask[-1, 1] = False
    completions = replace(
        completions,
        completion_mask=mask,
        token_mask=mask,
        sampler_logprobs=-torch.ones(n, 2),
        group_ids=torch.arange(n) // group_size,
    )
    problem = Problem("p", "p", AssertTests("assert True"))
    judgements = tuple(Judgement(problem, Program("", 0, 0), Outcome(v, wall_seconds=0.5)) for v in verdicts)
    valid = torch.tensor([verdict is not LOST for verdict in verdicts])
    values = torch.tensor(rewards)
    output = RewardOutput(values, valid, credit=values[:, None], decided=values[:, None], term_values={}, reasons={})
    experience = Experience(
        completions, values, valid, torch.tensor(advantages)[:, None] * mask, None if old is None else torch.tensor(old)
    )
    seen = {} if logprobs is None else {"logprobs": torch.tensor(logprobs)}
    rollout = Rollout(completions, judgements)
    return metrics_of_rollout(rollout, output, experience, seen, {}, Progress()).local()


def test_the_spread_of_rewards_is_that_of_judged_rows() -> None:
    rewards = [float(i) for i in range(11)] + [100.0]
    found = measured([P] * 11 + [LOST], rewards, [1.0] * 12)
    assert (found["reward/p10"], found["reward/p90"]) == (1.0, 9.0)
    assert found["reward/std"] == pytest.approx(10**0.5)  # of 0, 1, ... 10


def test_lengths_and_seconds_are_told_by_verdict() -> None:
    found = measured([P, P, W, W], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0])
    assert (found["length/passed"], found["length/wrong_answer"]) == (2.0, 1.5)
    assert found["sandbox/seconds_passed"] == found["sandbox/seconds"] == 0.5
    assert "length/exception" not in found and found["update/trained_fraction"] == 0.5


def test_ratios_are_read_where_the_update_looked() -> None:
    nan = float("nan")
    seen = [[-1.0, -3.0], [nan, nan], [-1.0, 50.0]]  # the last number stands on padding
    found = measured([P, W, W], [1.0, 0.0, 0.0], [1.0] * 3, seen, [[-2.0, -1.0], [0.0, 0.0], [-1.0, 0.0]])
    assert found["policy/ratio_max"] == pytest.approx(2.71828, abs=1e-4)
    assert found["policy/ratio_min"] == pytest.approx(0.13534, abs=1e-4)
    assert found["sampling/logprob_gap/mean"] == pytest.approx(1 / 3)  # 1, 0 and 0 nats
    assert found["sampling/logprob_gap/max"] == 1.0
    alone = measured([P], [1.0], [1.0], [[-1.5, nan]])
    assert (alone["policy/ratio_max"], alone["policy/ratio_min"], alone["sampling/logprob_gap/mean"]) == (1, 1, 0.5)


def test_extremes_add_up_over_parts() -> None:
    total, part = Means(), Means()
    total.add_largest("a", 1.0)
    part.add_largest("a", 3.0)
    part.add_smallest("b", -2.0)
    total.merge(part)
    total.add_smallest("b", 5.0)
    total.add_largest("a", 2.0)
    assert total.reduce(torch.device("cpu")) == total.local() == {"a": 3.0, "b": -2.0}


@pytest.mark.parametrize("bonus", [0.0, 0.1])
def test_the_entropy_of_a_few_rows_is_that_of_all(byte_tokenizer: str, tmp_path: Path, bonus: float) -> None:
    """The tiny policy is nearly uniform over its tokens, so that any row tells the entropy of all."""
    from lit_rl.modules import Objective

    watcher = Watcher()
    module = build_module(byte_tokenizer, max_rollouts=5, objective=Objective(entropy_coef=bonus))
    fit(module, tmp_path, callbacks=[watcher])
    told = [finished.metrics.get("policy/entropy") for _, finished in watcher.seen]
    assert (
        all(value is not None for value in told)
        if bonus
        else [v is not None for v in told] == [True] + 3 * [False] + [True]
    )
    with torch.no_grad():
        exact = module.policy.entropy(watcher.seen[0][1].rollout.completions)
    assert told[0] == pytest.approx(float(exact[exact > 0].mean()), rel=0.05)


def test_the_entropy_is_that_at_the_temperature_that_samples() -> None:
    """One row from cell 2 by cell 1: at temperature 1/2 the logits there are 1 and 0, and 3 and 0."""
    policy = CorridorPolicy(num_cells=2)
    policy.weights = torch.nn.Embedding.from_pretrained(torch.tensor([[0.0, 0.0], [1.5, 0.0], [0.5, 0.0]]))
    means = Means()
    measure_entropy(means, policy, rows_of([[2, 2]], [[[1, 1]]]), 0.5, StreamKey(0, "entropy", 0))
    shares = [1 / (1 + math.exp(-logit)) for logit in (1.0, 3.0)]
    expected = [-p * math.log(p) - (1 - p) * math.log(1 - p) for p in shares]
    assert means.local()["policy/entropy"] == pytest.approx(sum(expected) / 2)


def test_the_split_of_time_adds_up_to_the_step(byte_tokenizer: str, tmp_path: Path) -> None:
    watcher = Watcher()
    fit(build_module(byte_tokenizer, max_rollouts=2), tmp_path, callbacks=[watcher])
    metrics = watcher.seen[-1][1].metrics
    parts = ("sampling", "judging", "rewarding", "preparing", "updating")
    assert sum(metrics[f"time/{part}_seconds"] for part in parts) == pytest.approx(metrics["time/step_seconds"])
    assert metrics["time/step_seconds"] <= metrics["time/rollout_seconds"] + metrics["time/update_seconds"]
    assert metrics["policy/ratio_max"] == metrics["policy/ratio_min"] == 1.0
    assert metrics["sampling/logprob_gap/max"] < 1e-5


def test_a_group_whose_judged_rows_are_equal_has_no_advantage() -> None:
    """Item 58: the 0 that stands for a row without a reward makes no group unequal."""
    verdicts = [P, P, LOST, P, W, LOST, W, W, W, LOST, LOST, P]
    logged = measured(verdicts, [float(verdict is P) for verdict in verdicts], [0.0] * 12, group_size=3)
    assert logged["group/zero_advantage_fraction"] == 3 / 4
    assert logged["group/all_passed_fraction"] == 1 / 3, "of the groups with two judged rows"
    assert logged["group/none_passed_fraction"] == 1 / 3


def test_training_and_validation_call_the_same_facts_by_the_same_names(
    make_module: Callable[..., RolloutModule], tmp_path: Path
) -> None:
    """All that is known of a rollout before its update, but for what compares completions of one group."""
    module = make_module(GRPO, rewards=[EvenBytes()], max_rollouts=1)
    metrics = fit(module, tmp_path, callbacks=[ExecutionEvaluation()], limit_val_batches=1.0).callback_metrics
    validated = {name.removeprefix("val/greedy/") for name in metrics if name.startswith("val/greedy/")}
    trained = {name for name in metrics if name.startswith(("reward/", "execution/", "verdict/", "completion/"))}
    spread = {"reward/std", "reward/p10", "reward/p90"}
    assert trained - spread == validated - {"num_problems"}
    assert trained == {
        "completion/length",
        "completion/truncated_fraction",
        *spread,
        "reward/mean",
        "reward/even",
        "reward/invalid_fraction",
    }
