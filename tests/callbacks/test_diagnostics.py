"""Each rule provoked by a real small run, and silent in a healthy one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.ill_runs import (
    Constant,
    Falling,
    Judged,
    NeverRenewed,
    Programs,
    Says,
    Shifted,
)
from support.small_runs import Scored, build_module, corridor, fit, sorting

from lit_rl.callbacks import Diagnostics
from lit_rl.data import Corridor, Sorting
from lit_rl.execution.interface import Verdict
from lit_rl.modules import Objective
from lit_rl.reports import diagnosis
from lit_rl.reports.diagnosis import RULES, Rule, RunHistory
from lit_rl.types import Sampling

FEW = 3
LET_PASS = ("truncated",)
"""Tiny rows always end at the limit."""


def found(
    module: Any, folder: Path, rules: Sequence[Rule] = (), leave_out: Sequence[str] = LET_PASS, **run: Any
) -> Any:
    """Diagnoses of a run by rule; each speaks once."""
    callback = Diagnostics(FEW, rules=rules, leave_out=leave_out)
    fit(module, folder, callbacks=[callback, *run.pop("callbacks", [])], **run)
    assert len({one.rule for one in callback.found}) == len(callback.found), "a rule speaks once"
    return {one.rule: one for one in callback.found}


LONGER = Sampling(num_samples=4, max_tokens=12)


def sgd(lr: float) -> Any:
    return partial(torch.optim.SGD, lr=lr)


def adam(lr: float) -> Any:
    return partial(torch.optim.Adam, lr=lr)


# Runs of the tiny model, by the rule that they provoke: arguments of module and callback, and a part of what is said.
SAID_ALIKE = ("flat_reward", "flat_groups", "repeated_rows")
PROVOKED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "flat_reward": ({"rewards": [Constant()]}, {}, "all rewards of the last 3 rollouts were 0"),
    "flat_groups": (
        {"rewards": [Scored(lambda rows: map(float, rows.group_ids.tolist()))]},
        {},
        "100% of the groups have equal rewards",
    ),
    "truncated": (
        {},
        {"leave_out": (), "rules": [diagnosis.Truncated(0.9)]},
        "of the completions are cut by the token limit",
    ),
    "sampler_gap": ({"engine": Shifted()}, {}, "sampler and trainer differ by 0.2 nats"),
    "still_weights": ({"optimizer": sgd(1e-30), "max_rollouts": FEW + 1}, {}, "the learning rate 1e-30 is too small"),
    "jumping_weights": (
        {
            "optimizer": adam(0.5),
            "max_rollouts": FEW + 1,
            "rewards": [Scored(lambda rows: torch.rand(len(rows)).tolist())],
        },
        {},
        "the learning rate (0.5) is far too high",
    ),
    "collapse": ({"rewards": [Falling(FEW)], "max_rollouts": 2 * FEW}, {}, "lower the learning rate (0.5)"),
    "stale_engine": (
        {"engine": NeverRenewed(), "max_rollouts": FEW + 2, "minibatches": 3, "optimizer": sgd(0.1)},
        {},
        "weights that are 2.0 rollouts old",
    ),
    "timed_out": (
        {"sandbox": Judged(Verdict.TIMED_OUT, 0.4)},
        {"data": Programs(batch_size=3)},
        "of the programs time out",
    ),
    "infrastructure": (
        {"sandbox": Judged(Verdict.INFRASTRUCTURE_FAILURE, 0.09)},
        {"data": Programs(batch_size=3)},
        "of the programs could not be judged for reasons that are ours",
    ),
    "format_falling": (
        {"engine": Says("```\nx\n```", FEW), "sandbox": Judged(), "max_rollouts": 2 * FEW, "sampling": LONGER},
        {"data": Programs(batch_size=3), "leave_out": [*SAID_ALIKE, "truncated", "sampler_gap"]},
        "with a program in a fenced block fell from 100% to 67%",
    ),
}


@pytest.mark.parametrize("rule", list(PROVOKED))
def test_each_rule_names_its_cause_and_no_other(byte_tokenizer: str, tmp_path: Path, rule: str) -> None:
    of_module, of_callback, said = PROVOKED[rule]
    messages = found(build_module(byte_tokenizer, **({"max_rollouts": FEW} | of_module)), tmp_path, **of_callback)
    assert list(messages) == [rule]
    message = messages[rule].message
    assert said in message and "\n" not in message and f"lit-rl docs monitoring#{rule}" in message


@pytest.mark.parametrize(
    ("critic_rate", "optimizer", "rule"),
    [(1e-12, adam(0.05), "useless_critic"), (30.0, sgd(0.01), "exploding_loss"), (0.3, adam(0.05), None)],
    ids=["a critic that stays", "a critic that diverges", "a critic that learns"],
)
def test_a_critic_that_does_not_learn_is_told(
    tmp_path: Path, critic_rate: float, optimizer: Any, rule: str | None
) -> None:
    module = corridor(optimizer, 8, Sampling(num_samples=4, max_tokens=6), learning_rate=critic_rate)
    messages = found(module, tmp_path, [diagnosis.UselessCritic(after=4)], data=Corridor(num_cells=5))
    spoken = {"useless_critic", "exploding_loss"} & messages.keys()
    assert (rule in spoken) if rule else not spoken


SORTED: dict[str, tuple[dict[str, Any], str]] = {
    "exploding_kl": ({"epochs": 6}, "the updates of one rollout move the policy by "),
    "entropy_collapse": ({}, "the entropy fell from 1"),
    "reference_drifted": ({"objective": Objective(kl_coef=1e-6)}, "nats a token from its reference"),
}


@pytest.mark.parametrize("rule", list(SORTED))
def test_a_policy_that_runs_away_is_told_by_what_it_leaves(tmp_path: Path, rule: str) -> None:
    arguments, said = SORTED[rule]
    assert said in found(sorting(adam(1.0), **arguments), tmp_path, data=Sorting())[rule].message


def test_a_policy_that_takes_small_steps_stays_near(tmp_path: Path) -> None:
    module = sorting(adam(0.001), epochs=6, objective=Objective(kl_coef=1e-6))
    assert not SORTED.keys() & found(module, tmp_path, data=Sorting()).keys()


def test_a_healthy_run_hears_nothing(byte_tokenizer: str, tmp_path: Path) -> None:
    assert found(build_module(byte_tokenizer, max_rollouts=8), tmp_path) == {}


class Short(Rule):
    """A rule as a researcher writes it."""

    name = "short"
    page = ""

    def __init__(self, at_least: float = 5.0) -> None:
        self.at_least = at_least

    def look(self, run: RunHistory) -> str:
        length = run.mean("completion/length")
        return f"{length:.0f} tokens" if length is not None and length < self.at_least else ""


def test_rules_of_ones_own_are_asked_and_take_the_place_of_those_with_their_name(
    byte_tokenizer: str, tmp_path: Path
) -> None:
    module = build_module(byte_tokenizer, max_rollouts=FEW)
    assert found(module, tmp_path, rules=[Short(100.0)])["short"].message == "6 tokens"
    rules = Diagnostics(rules=[diagnosis.Truncated(0.9), Short()]).rules
    assert len(rules) == len(RULES) + 1
    assert [rule.at_most for rule in rules if isinstance(rule, diagnosis.Truncated)] == [0.9]


def test_each_rule_has_a_name_of_its_own_and_an_entry_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert [name for name in names if f"### {name}\n" not in page] == []


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Diagnostics(patience=0), "patience"),
        (lambda: Diagnostics(leave_out=["colapse"]), "colapse"),
        (lambda: diagnosis.Truncated(1.5), "Truncated.at_most: expected a number from 0 to 1"),
        (lambda: diagnosis.FirstRatio(0.0), "at_most: expected a number above 0"),
        (lambda: diagnosis.BrokenTests(at_least=1), "at_least: expected at least 2"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(build: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build()
