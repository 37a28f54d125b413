"""Measurements of a rollout in training, on numbers that can be checked by eye; sampler and trainer are compared."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rollout.test_collector import Watcher
from support.completions import batch
from support.ill_runs import Copies
from support.late_verdicts import Late, PassedAndEven, Programs
from support.small_runs import EvenBytes, Scored, build_module, fit
from support.two_turns import rows_of

from lit_rl.data import CorridorPolicy
from lit_rl.engines import Engine, InProcess
from lit_rl.execution import AssertTests, Outcome, Verdict
from lit_rl.math.losses import TruncatedWeights
from lit_rl.models.sampling import RandomKey
from lit_rl.modules import Objective, RolloutConfig, RolloutModule
from lit_rl.reports.summary import add_entropy_estimate, metrics_of_rollout
from lit_rl.rewards.term import RewardOutput, RewardTerm
from lit_rl.rollout import Rollout
from lit_rl.rollout.rollout_collector import RolloutCollector
from lit_rl.rollout.sampler_check import (
    SamplerCheck,
    SamplerMismatchError,
    add_effective_sample_size,
    add_sampler_mismatch,
)
from lit_rl.training.progress import RolloutProgress
from lit_rl.training.ranks import Means
from lit_rl.types import Experience, Judgement, Problem, Program, Sampling

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
    mask = torch.ones(n, 2, dtype=torch.bool)
    mask[-1, 1] = False
    masks = {"completion_mask": mask, "token_mask": mask, "group_ids": torch.arange(n) // group_size}
    completions = replace(batch(["a"] * n), sampler_logprobs=-torch.ones(n, 2), **masks)
    problem = Problem("p", "p", AssertTests("assert True"))
    judgements = tuple(Judgement(problem, Program("", 0, 0), Outcome(v, wall_seconds=0.5)) for v in verdicts)
    valid = torch.tensor([verdict is not LOST for verdict in verdicts])
    values = torch.tensor(rewards)
    output = RewardOutput(values, valid, {}, {}, lambda: (values[:, None], values[:, None]))
    experience = Experience(
        completions, values, valid, torch.tensor(advantages)[:, None] * mask, None if old is None else torch.tensor(old)
    )
    seen = {} if logprobs is None else {"logprobs": torch.tensor(logprobs)}
    rollout = Rollout(completions, judgements)
    return metrics_of_rollout(rollout, output, experience, seen, {}, RolloutProgress()).reduce(torch.device("cpu"))


def test_the_spread_of_rewards_is_that_of_judged_rows() -> None:
    rewards = [float(i) for i in range(11)] + [100.0]
    found = measured([P] * 11 + [LOST], rewards, [1.0] * 12)
    assert (found["reward/p10"], found["reward/p90"]) == (1.0, 9.0)
    assert found["reward/std"] == pytest.approx(10**0.5)  # of 0, 1, ... 10


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


def test_the_entropy_is_that_at_the_temperature_that_samples() -> None:
    """One row from cell 2 by cell 1: at temperature 1/2 the logits there are 1 and 0, and 3 and 0."""
    policy = CorridorPolicy(num_cells=2)
    policy.weights = torch.nn.Embedding.from_pretrained(torch.tensor([[0.0, 0.0], [1.5, 0.0], [0.5, 0.0]]))
    means = Means()
    add_entropy_estimate(means, policy, rows_of([[2, 2]], [[[1, 1]]]), 0.5, RandomKey(0, "entropy", 0))
    shares = [1 / (1 + math.exp(-logit)) for logit in (1.0, 3.0)]
    expected = [-p * math.log(p) - (1 - p) * math.log(1 - p) for p in shares]
    assert means.reduce(torch.device("cpu"))["policy/entropy"] == pytest.approx(sum(expected) / 2)


def test_the_split_of_time_adds_up_to_the_step(byte_tokenizer: str, tmp_path: Path) -> None:
    """In micro-batches, which are sorted by length: a row's numbers in another's place would be a gap."""
    watcher = Watcher()
    fit(build_module(byte_tokenizer, max_rollouts=2, microbatch_size=5), tmp_path, callbacks=[watcher])
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


Make = Callable[..., RolloutModule]
NAMES = {
    *(f"sampling/{name}" for name in ("logprob_gap/mean", "logprob_gap/max", "effective_sample_size")),
    *(f"sampling/importance_ratio/{name}" for name in ("min", "mean", "max")),
}


def always(copied: int, now: int) -> bool:
    return True


def stuck_at(*versions: int) -> Copies:
    """An engine that these weights do not reach, and that hides it."""
    return Copies(lambda _, now: now not in versions, hides=True)


def run(make: Make, folder: Path, engine: Engine, **options: Any) -> tuple[list[dict[str, float]], list[str]]:
    """Metrics of each of three rollouts, and the warnings about the sampler."""
    sampling = options.pop("sampling", Sampling(num_samples=4, max_tokens=6))
    module: Any = make(engine=engine, sampling=sampling, max_rollouts=3, **options)
    logged: list[dict[str, float]] = []
    log = module.log_rollout
    module.log_rollout = lambda *given: logged.append(log(*given)) or logged[-1]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(module, folder)
    return logged, [str(one.message) for one in said if "sampler and trainer" in str(one.message)]


def test_gap_ratio_and_effective_size_by_hand() -> None:
    """Ratios 4, 1/2 and 1; the fourth token does not count. (5.5)^2 / (3 * 17.25)."""
    means, mask = Means(), torch.tensor([[True, True], [True, False]])
    trainer = torch.tensor([[0.8, 0.1], [0.3, 0.9]]).log()
    add_sampler_mismatch(means, trainer, torch.tensor([[0.2, 0.2], [0.3, 0.1]]).log(), mask)
    found = add_effective_sample_size(means.reduce(torch.device("cpu")))
    assert found.keys() == NAMES
    gaps = [math.log(2), 2 * math.log(2)]
    assert [found[f"sampling/logprob_gap/{name}"] for name in ("mean", "max")] == pytest.approx(gaps)
    ratios = [found[f"sampling/importance_ratio/{name}"] for name in ("mean", "min", "max")]
    assert ratios == pytest.approx([5.5 / 3, 0.5, 4.0])
    assert found["sampling/effective_sample_size"] == pytest.approx(5.5**2 / (3 * 17.25))


def test_a_few_rows_all_over_the_rollout_that_the_present_weights_sampled_are_compared() -> None:
    """Two actions are equally likely. Four rows are fresh, of which the first and the third are looked at."""
    policy = CorridorPolicy(num_cells=2)
    policy.load()
    policy.version = 3
    off = torch.tensor([[0.0625], [2.0], [0.125], [2.0], [0.25], [0.5]])
    rows = replace(rows_of([[2, 2]] * 6, [[[1]]] * 6), weights_versions=(3, 2, 3, 2, 3, 3))
    check = SamplerCheck(rows=2, largest_gap=0.2, stop=True)
    sampler = RolloutCollector(policy, None, RolloutConfig(sampler_check=check), seed=0)
    sampler.check_sampler_gap(replace(rows, sampler_logprobs=math.log(0.5) - off), Sampling())
    gaps = sampler.gap.reduce(torch.device("cpu"))
    assert gaps["sampling/logprob_gap/max"] == pytest.approx(0.25)
    assert gaps["sampling/logprob_gap/mean"] == pytest.approx((0.0625 + 0.25) / 2)


@pytest.mark.parametrize(
    ("engine", "rewards"), [(InProcess(), Scored(1.0)), (Copies(always), EvenBytes())], ids=["learns nothing", "learns"]
)
def test_every_rollout_logs_them(make_module: Make, tmp_path: Path, engine: Engine, rewards: RewardTerm) -> None:
    logged, said = run(make_module, tmp_path, engine, rewards=[rewards])
    assert len(logged) == 3 and said == []
    for metrics in logged:
        assert metrics.keys() >= NAMES and not any("square" in name for name in metrics)
        assert metrics["sampling/logprob_gap/max"] < 1e-5
        assert metrics["sampling/effective_sample_size"] == pytest.approx(1)


def test_a_skipped_arrival_is_told_once(make_module: Make, tmp_path: Path) -> None:
    check = SamplerCheck(rows=2, largest_gap=1e-3)
    _, said = run(make_module, tmp_path, stuck_at(1, 2), sampler_check=check)
    assert len(said) == 1, "once"
    assert "nats a token (at most 0.001 is rounding): likely other weights" in said[0]
    assert run(make_module, tmp_path, stuck_at(1, 2), sampler_check=None)[1] == []


AHEAD = {"staleness": 1, "objective": Objective(correction=TruncatedWeights())}


@pytest.mark.parametrize("options", [{}, AHEAD], ids=["as it comes", "sampled ahead"])
def test_a_skipped_arrival_stops_the_run_if_it_is_to(
    make_module: Make, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Rows that are sampled ahead are compared before those that were sampled earlier are learned from."""
    check = SamplerCheck(largest_gap=1e-3, stop=True)
    common = {"sandbox": Late, "rewards": [PassedAndEven()], "max_rollouts": 4}
    module: Any = make_module(engine=stuck_at(1), sampler_check=check, **common | options)
    with pytest.raises(SamplerMismatchError, match=r"sampler and trainer differ by .* other weights"):
        fit(module, tmp_path, data=Programs(batch_size=3))
    assert module.clock.count == module.policy.version == 1


def test_a_filter_of_the_engine_is_a_fault_and_one_that_was_asked_for_is_none(
    make_module: Make, tmp_path: Path
) -> None:
    check = SamplerCheck(rows=12, largest_gap=1e-3)
    _, said = run(make_module, tmp_path, Copies(always, top_k=20), sampler_check=check)
    assert "sampler and trainer differ by" in said[0]
    filtered = Sampling(num_samples=4, max_tokens=6, top_k=20)
    logged, said = run(make_module, tmp_path, Copies(always), sampling=filtered)
    assert said == [] and logged[0]["sampling/logprob_gap/mean"] > 0.1
