"""What is logged about a rollout, on hand-made rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.small_runs import EvenBytes, Words, fit

from lit_rl.callbacks import ExecutionEvaluation
from lit_rl.execution import AssertTests, Outcome, Verdict
from lit_rl.modules import GRPO, RolloutModule
from lit_rl.modules.rollout_metrics import degenerate_share
from lit_rl.reports.summary import summarise, summary_names
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.types import Completions, Judgement, Problem, StopReason

P, W, LOST = Verdict.PASSED, Verdict.WRONG_ANSWER, Verdict.INFRASTRUCTURE_FAILURE


def metrics_of(groups: list[list[Verdict]]) -> dict[str, float]:
    """Metrics of groups of one token each; the reward is 1 for a pass, else 0, and none where judging failed."""
    verdicts = [verdict for group in groups for verdict in group]
    n = len(verdicts)
    problem, ids, mask = (
        Problem("p", "p", AssertTests("")),
        torch.zeros(n, 1).long(),
        torch.ones(n, 1).bool(),
    )
    completions = Completions.single_turn(
        problems=(problem,) * n,
        prompt_ids=ids,
        prompt_mask=mask,
        completion_ids=ids,
        completion_mask=mask,
        sampler_logprobs=ids.float(),
        stop_reasons=(StopReason.EOS,) * n,
        texts=("",) * n,
        token_bytes=((),) * n,
        group_size=len(groups[0]),
    )
    judgements = tuple(Judgement(problem, None, Outcome(verdict)) for verdict in verdicts)
    rewards = torch.tensor([float(verdict is P) for verdict in verdicts])
    valid = torch.tensor([verdict is not LOST for verdict in verdicts])
    credit = rewards[:, None]
    output = RewardOutput(rewards, valid, credit=credit, decided=credit, term_values={}, reasons={})
    rollout = Rollout(completions, judgements)
    means = summarise(rollout, output)
    degenerate_share(means, rollout, output)
    return means.local()


def test_a_group_whose_judged_rows_are_equal_has_no_advantage() -> None:
    """Item 58: the 0 that stands for a row without a reward makes no group unequal."""
    logged = metrics_of([[P, P, LOST], [P, W, LOST], [W, W, W], [LOST, LOST, P]])
    assert logged["group/zero_advantage_fraction"] == 3 / 4
    assert logged["group/all_passed_fraction"] == 1 / 3, "of the groups with two judged rows"
    assert logged["group/none_passed_fraction"] == 1 / 3


def test_the_pass_rate_is_that_of_the_programs_that_were_judged() -> None:
    """Item 58: 2 of 3; the fractions by verdict are of all rows."""
    logged = metrics_of([[P, LOST], [W, P]])
    assert logged["execution/pass_rate"] == pytest.approx(2 / 3)
    assert logged["verdict/passed_fraction"] == 2 / 4
    assert logged["verdict/infrastructure_failure_fraction"] == 1 / 4


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
        *summary_names(Words().problems("train")),
        *spread,
        "reward/mean",
        "reward/even",
        "reward/invalid_fraction",
    }
